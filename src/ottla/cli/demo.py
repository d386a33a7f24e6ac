"""`ottla demo`: three matches on one broker, shown by a group of mobiles and a group of computers.

Starts a broker on loopback over the given directory, creates the topic `matches`, and plays the matches with
their names as keys. All mobiles are members of one group, all computers of another: each group shows every
event once, whichever of its members has the partition. Members come and go while the matches are played: a
second mobile joins, the first one leaves, and nothing is missed or shown twice, for a member commits what it has
shown before it gives a partition away. The mobiles use the classic group protocol, the computers the newer one.

Everything that was started ends with the demo, also on Ctrl-C. The data stay: a second run goes on where the
groups have committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import typer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from ottla.testing.broker_process import BrokerProcess

TOPIC = "matches"
PARTITIONS = 3
MATCHES = ("Canada vs USA", "France vs Spain", "Japan vs Brazil")
EVENTS = ("Quarter Start", "Foul", "Free Throw", "Score 39-46", "Score 41-46", "Quarter End")
JOINS_BEFORE, LEAVES_BEFORE = 2, 4
"""Before which event the second mobile joins, and the first one leaves."""
PATIENCE_S = 30.0
SHOWN = 12
QUIET = {"log_level": 0}
"""The client library would tell of the broker's end on the screen."""
DEMO_SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
"""A group of one need not wait for others."""
DEVICES = {"mobile": (0.05, "classic"), "computer": (0.01, "consumer")}
"""How long each device looks at an event, and the group protocol it uses."""


@dataclass
class Screen:
    """What one kind of device shows, over all members of its group."""

    name: str
    lines: list[str] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return len(self.lines) >= len(EVENTS) * len(MATCHES)

    @property
    def owners(self) -> str:
        """Who has which partitions."""
        return "  ".join(
            f"{member.name}: {','.join(map(str, sorted(member.owned))) or 'idle'}" for member in self.members
        )


class Member:
    """One device: a member of its group with a thread of its own."""

    def __init__(self, screen: Screen, bootstrap: str, speed: float) -> None:
        pace_s, protocol = DEVICES[screen.name]
        self.name = f"{screen.name}-{len(screen.members) + 1}"
        self.owned: frozenset[int] = frozenset()
        self._screen, self._pace_s = screen, pace_s * speed
        self._stop = threading.Event()
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": screen.name,
            "client.id": self.name,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        self._consumer = Consumer({**settings, **QUIET})
        self._consumer.subscribe([TOPIC], on_assign=self._assigned, on_revoke=self._revoked)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        screen.members.append(self)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

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
            match, event = (message.key() or b"").decode(), (message.value() or b"").decode()
            self._screen.lines.append(f"{match}: {event}")
            self._consumer.commit(message=message, asynchronous=False)
            self._stop.wait(self._pace_s)
        self._consumer.close()


def play(folder: str, port: int | None, speed: float) -> None:
    """Runs the whole demo; returns when both groups have shown the matches."""
    console, data = Console(), Path(folder)
    broker = BrokerProcess(data / "broker", DEMO_SETTINGS, port=port)
    console.print(f"Starting a broker on {broker.bootstrap}, data in {data}/broker")
    try:
        with broker:
            _prepare(broker.bootstrap)
            console.print("A mobile and a computer join, each a group of its own")
            _watch(console, broker, [Screen(name) for name in DEVICES], speed)
        _explain(console, data)
    except KeyboardInterrupt:
        console.print("\nStopped; the broker has ended too.")
        raise typer.Exit(130) from None


def _prepare(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    try:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(PATIENCE_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _watch(console: Console, broker: BrokerProcess, screens: list[Screen], speed: float) -> None:
    stop = threading.Event()
    for screen in screens:
        Member(screen, broker.bootstrap, speed)
    director = threading.Thread(target=_direct, args=(broker.bootstrap, screens, stop, speed), daemon=True)
    director.start()
    try:
        with _view(console, screens) as refresh:
            while not all(screen.done for screen in screens) or director.is_alive():
                if not broker.running:
                    raise typer.Exit(1)
                stop.wait(0.05)
                refresh()
            refresh()
    finally:
        stop.set()
        director.join(PATIENCE_S)
        for screen in screens:
            for member in list(screen.members):
                member.leave()


def _direct(bootstrap: str, screens: list[Screen], stop: threading.Event, speed: float) -> None:
    """Plays the matches and sends members in and out."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "partitioner": "murmur2_random", **QUIET}
    )
    mobiles = next(screen for screen in screens if screen.name == "mobile")
    _until(stop, lambda: all(member.owned for screen in screens for member in screen.members))
    for number, event in enumerate(EVENTS):
        if number == JOINS_BEFORE:
            Member(mobiles, bootstrap, speed)
            _until(stop, lambda: all(member.owned for member in mobiles.members))
        if number == LEAVES_BEFORE:
            mobiles.members[0].leave()
        for match in MATCHES:
            producer.produce(TOPIC, event, key=match)
        producer.flush(PATIENCE_S)
        if stop.wait(0.5 * speed):
            return


def _until(stop: threading.Event, condition: Callable[[], bool]) -> None:
    while not condition() and not stop.wait(0.05):
        pass


@contextmanager
def _view(console: Console, screens: list[Screen]) -> Iterator[Callable[[], None]]:
    if console.is_terminal:
        with Live(console=console, refresh_per_second=20) as live:
            yield lambda: live.update(_draw(screens))
        return
    printed = dict.fromkeys((screen.name for screen in screens), 0)
    owners: dict[str, str] = {}

    def refresh() -> None:
        for screen in screens:
            if owners.get(screen.name) != (now := screen.owners):
                console.print(f"{screen.name:>8} group has partitions  {now}", highlight=False)
                owners[screen.name] = now
            fresh = screen.lines[printed[screen.name] :]  # its members may add to the list meanwhile
            for line in fresh:
                console.print(f"{screen.name:>8}: {line}", highlight=False)
            printed[screen.name] += len(fresh)

    yield refresh


def _draw(screens: list[Screen]) -> Group:
    panels = []
    for screen in screens:
        lines = screen.lines[-SHOWN:]
        body = Text("\n".join([*lines, *[""] * (SHOWN - len(lines))]))
        panels.append(Panel(body, title=f"group {screen.name}", subtitle=screen.owners, width=46))
    return Group(Text(f"producer → topic {TOPIC}, keyed by match → two groups"), Columns(panels))


def _explain(console: Console, data: Path) -> None:
    console.print("\nBoth groups showed every event once, while members came and went. To explore:")
    console.print(f"  .venv/bin/ottla broker --data {data}/broker", highlight=False)
    console.print(f"  kcat -b 127.0.0.1:9092 -t {TOPIC} -C -o beginning -e -K ': '", highlight=False)
    console.print(f"  kcat -b 127.0.0.1:9092 -G another-group {TOPIC}", highlight=False)
