"""A parallel consumer running beside a test: its thread, what its handler saw, what its group committed."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Message, TopicPartition

from ottla.client.parallel import Options, ParallelConsumer
from tests.support.clients import fresh
from tests.support.waiting import TIMEOUT_S, wait_until

BRISK_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""Settings of a broker whose groups are ready at once."""


def settings_of(bootstrap: str, group: str | None = None, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group or fresh("group"),
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 500,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


@dataclass
class Seen:
    """What handlers saw, in the order they began; safe for many threads."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    values: list[bytes] = field(default_factory=list)
    by_key: dict[bytes | None, list[bytes]] = field(default_factory=lambda: defaultdict(list))

    def note(self, message: Message) -> None:
        with self.lock:
            self.values.append(message.value() or b"")
            self.by_key[message.key()].append(message.value() or b"")

    def __len__(self) -> int:
        with self.lock:
            return len(self.values)


class Running:
    """`with Running(...) as member`: the consumer runs in a thread, and is stopped at the end."""

    def __init__(
        self,
        settings: dict[str, object],
        topic: str,
        handler: Callable[[Message], object],
        options: Options | None = None,
        **more: object,
    ) -> None:
        self.consumer = ParallelConsumer(settings, [topic], handler, options, **more)  # type: ignore[arg-type]
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(drain=False)

    def _run(self) -> None:
        try:
            self.consumer.run()
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.failure = error

    def stop(self, *, drain: bool) -> None:
        self.consumer.stop(drain=drain)
        self.wait_end()

    def wait_end(self) -> None:
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), "run() did not return"

    def wait_done(self, count: int) -> None:
        wait_until(lambda: self.consumer.progress().done >= count, f"{count} records done")

    def partitions(self) -> set[int]:
        return {figures.partition.partition for figures in self.consumer.progress().partitions}


def committed(
    settings: dict[str, object], topic: str, partitions: Sequence[int] = (0,)
) -> list[TopicPartition]:
    """What the cluster has for the group, offset and metadata."""
    consumer = Consumer({**settings})
    try:
        return consumer.committed([TopicPartition(topic, number) for number in partitions], timeout=TIMEOUT_S)
    finally:
        consumer.close()


def wait_committed(settings: dict[str, object], topic: str, offset: int, partition: int = 0) -> None:
    """Waits until the group's committed offset is this one."""
    consumer = Consumer({**settings})
    entry = [TopicPartition(topic, partition)]
    try:
        wait_until(
            lambda: consumer.committed(entry, timeout=TIMEOUT_S)[0].offset == offset,
            f"offset {offset} of {topic}-{partition} to be committed",
        )
    finally:
        consumer.close()
