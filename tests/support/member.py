"""Members of a consumer group on confluent-kafka, each in a thread of its own, that write down what they see."""

from __future__ import annotations

import threading
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tests.support.waiting import wait_until

_POLL_S = 0.1
_JOIN_S = 60.0


class Member:
    """One member: polls, keeps the messages it was given, commits each, and knows what it owns."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        settings: dict[str, object] | None = None,
        on_message: Callable[[Message], None] | None = None,
    ) -> None:
        self.messages: list[Message] = []
        self.owned: frozenset[int] = frozenset()
        self._on_message = on_message
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **(settings or {}),
            }
        )
        self._consumer.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def values(self) -> list[bytes]:
        return [message.value() or b"" for message in list(self.messages)]

    def leave(self) -> None:
        """Goes as a good member does, and raises what went wrong in its thread."""
        self._stop.set()
        self._thread.join(_JOIN_S)
        assert not self._thread.is_alive(), "the member did not leave in time"
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned |= {each.partition for each in partitions}

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {each.partition for each in partitions}

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                message = self._consumer.poll(_POLL_S)
                if message is None:
                    continue
                if message.error():
                    raise KafkaException(message.error())
                if self._on_message is not None:
                    self._on_message(message)
                self.messages.append(message)
                self._consumer.commit(message, asynchronous=False)
        except BaseException as failure:  # noqa: BLE001 - it belongs to the test's thread
            self._failure = failure
        finally:
            self._consumer.close()


def wait_shared(members: list[Member], partitions: int) -> None:
    """Returns when the members own all partitions, none of them twice."""

    def shared() -> bool:
        owned = [number for member in members for number in member.owned]
        return sorted(owned) == list(range(partitions))

    wait_until(shared, f"{len(members)} members to share {partitions} partitions", 60.0)
