"""The devices of the demo: members of the groups *mobile* and *computer*, which read the topic `scoreboard`.

All mobiles are one group, all computers another. Each group gets every standing once, on the member that has the
partition. A member commits the offset of a record after it has shown it, so no record is missed when members join and
leave. If a commit fails, the next one includes it. The mobiles use the classic group protocol, the computers the
consumer protocol (KIP-848). Each member has a thread.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from ottla.scoreboard.screens import Board
from ottla.scoreboard.standings import Standing

PROTOCOLS = {"mobile": "classic", "computer": "consumer"}
"""The kinds of device, and the group protocol of each."""
QUIET = {"log_level": 0}
"""Do not print messages of the client library, for example when the broker stops."""
LEAVE_TIMEOUT_S = 30.0


@dataclass
class Screen:
    """The screen of one kind of device, shared by all members of its group."""

    name: str
    topic: str
    since_ms: int
    """Matches that began earlier belong to an earlier demo and are not shown."""
    board: Board = field(default_factory=Board)
    shown: list[Standing] = field(default_factory=list)
    """Every standing that changed the board, in order."""
    members: list[Member] = field(default_factory=list)
    joined: int = 0

    @property
    def owners(self) -> str:
        """The partitions of each member."""
        return "  ".join(
            f"{member.name}: {','.join(map(str, sorted(member.owned))) or 'idle'}" for member in self.members
        )

    def show(self, value: bytes) -> None:
        """Show a record if it is a standing; ignore other values."""
        try:
            standing = msgspec.json.decode(value, type=Standing)
        except msgspec.MsgspecError:
            return
        if standing.started_ms >= self.since_ms and self.board.show(standing):
            self.shown.append(standing)


class Member:
    """One device: a consumer and its thread."""

    def __init__(self, screen: Screen, bootstrap: str) -> None:
        screen.joined += 1
        self.name = f"{screen.name}-{screen.joined}"
        self.owned: frozenset[int] = frozenset()
        self._screen = screen
        self._stop = threading.Event()
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": screen.name,
            "client.id": self.name,
            "group.protocol": PROTOCOLS[screen.name],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        self._consumer = Consumer({**settings, **QUIET})
        self._consumer.subscribe([screen.topic], on_assign=self._on_assign, on_revoke=self._on_revoke)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        screen.members.append(self)
        self._thread.start()

    def leave(self) -> None:
        self._stop.set()
        self._thread.join(LEAVE_TIMEOUT_S)
        self._screen.members.remove(self)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned |= {each.partition for each in partitions}

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {each.partition for each in partitions}

    def _follow(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error():
                continue
            self._screen.show(message.value() or b"")
            with suppress(KafkaException):
                self._consumer.commit(message=message, asynchronous=False)
        with suppress(KafkaException):
            self._consumer.close()
