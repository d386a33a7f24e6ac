"""The devices of the demo: members of the groups *mobile* and *computer*, reading the topic `scoreboard`.

All mobiles are one group, all computers another: each group gets every standing once, whichever of its members has
the partition. A member commits what it has shown before it goes on, so that nothing is missed or lost when members
come and go; a commit that a broker can't take is made good by the next one. The mobiles use the classic group
protocol, the computers the newer one. Each member has a thread.
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
"""The client library would tell of the broker's end on the screen."""
PATIENCE_S = 30.0


@dataclass
class Screen:
    """What one kind of device shows, over all members of its group."""

    name: str
    topic: str
    since_ms: int
    """Matches that began earlier are of a former demo."""
    board: Board = field(default_factory=Board)
    shown: list[Standing] = field(default_factory=list)
    """Every standing that changed the board, in order."""
    members: list[Member] = field(default_factory=list)
    joined: int = 0

    @property
    def owners(self) -> str:
        """Who has which partitions."""
        return "  ".join(
            f"{member.name}: {','.join(map(str, sorted(member.owned))) or 'idle'}" for member in self.members
        )

    def show(self, value: bytes) -> None:
        """Shows a record if it is a standing; what else somebody has written there is passed over."""
        try:
            standing = msgspec.json.decode(value, type=Standing)
        except msgspec.MsgspecError:
            return
        if standing.started_ms >= self.since_ms and self.board.show(standing):
            self.shown.append(standing)


class Member:
    """One device."""

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
        self._consumer.subscribe([screen.topic], on_assign=self._assigned, on_revoke=self._revoked)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        screen.members.append(self)
        self._thread.start()

    def leave(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        self._screen.members.remove(self)

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned |= {each.partition for each in partitions}

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
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
