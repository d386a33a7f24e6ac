"""`ottla demo`: a match on one broker, shown on a mobile and on a computer.

Starts a broker on loopback over the given directory, creates the topic `matches`, and plays the events of a
match. A producer publishes them with the match as key; two consumers read them, each with a place of its own:
the mobile is slower than the computer, and both see everything. On a terminal this is drawn live, elsewhere
each event is a line.

Everything that was started ends with the demo, also on Ctrl-C. The data stay, so that a second run goes on
after it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import typer
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition
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
MATCH = "Canada vs USA"
EVENTS = ("Quarter Start", "Foul", "Free Throw", "Score 39-46", "Score 41-46", "Quarter End")
PATIENCE_S = 30.0
SHOWN = 8
QUIET = {"log_level": 0}
"""The client library would tell of the broker's end on the screen."""


@dataclass
class Screen:
    """What one device shows. `pace_s` is how long it looks at an event before it takes the next."""

    name: str
    pace_s: float
    consumer: Consumer
    lines: list[str] = field(default_factory=list)
    place: str = "waiting"

    @property
    def done(self) -> bool:
        return len(self.lines) >= len(EVENTS)


def play(folder: str, port: int | None, speed: float) -> None:
    """Runs the whole demo; returns when both devices have shown the match."""
    console, data = Console(), Path(folder)
    broker = BrokerProcess(data / "broker", port=port)
    console.print(f"Starting a broker on {broker.bootstrap}, data in {data}/broker")
    try:
        with broker:
            _prepare(broker.bootstrap)
            screens = [
                Screen("mobile", 0.5 * speed, _consumer(broker.bootstrap)),
                Screen("computer", 0.05 * speed, _consumer(broker.bootstrap)),
            ]
            _watch(console, broker, screens, speed)
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


def _consumer(bootstrap: str) -> Consumer:
    """A consumer at the end of every partition, so that a second demo does not show the first one's match."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "demo", "enable.auto.commit": False, **QUIET}
    )
    places = [TopicPartition(TOPIC, number, OFFSET_END) for number in range(PARTITIONS)]
    for place in places:
        place.offset = consumer.get_watermark_offsets(place, PATIENCE_S)[1]
    consumer.assign(places)
    return consumer


def _watch(console: Console, broker: BrokerProcess, screens: list[Screen], speed: float) -> None:
    stop = threading.Event()
    producer = threading.Thread(target=_publish, args=(broker.bootstrap, stop, speed), daemon=True)
    readers = [threading.Thread(target=_follow, args=(screen, stop), daemon=True) for screen in screens]
    threads = [producer, *readers]
    for thread in threads:
        thread.start()
    try:
        with _view(console, screens) as refresh:
            while not all(screen.done for screen in screens):
                if not broker.running or not any(thread.is_alive() for thread in readers):
                    raise typer.Exit(1)
                stop.wait(0.05)
                refresh()
            refresh()
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        for screen in screens:
            screen.consumer.close()


def _publish(bootstrap: str, stop: threading.Event, speed: float) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "partitioner": "murmur2_random", **QUIET}
    )
    for event in EVENTS:
        producer.produce(TOPIC, event, key=MATCH)
        producer.flush(PATIENCE_S)
        if stop.wait(0.3 * speed):
            return


def _follow(screen: Screen, stop: threading.Event) -> None:
    while not stop.is_set() and not screen.done:
        message = screen.consumer.poll(0.1)
        if message is None or message.error():
            continue
        event = (message.value() or b"").decode()
        screen.place = f"partition {message.partition()}, offset {message.offset()}"
        screen.lines.append(event)
        stop.wait(screen.pace_s)


@contextmanager
def _view(console: Console, screens: list[Screen]) -> Iterator[Callable[[], None]]:
    if console.is_terminal:
        with Live(console=console, refresh_per_second=20) as live:
            yield lambda: live.update(_draw(screens))
        return
    printed = dict.fromkeys((screen.name for screen in screens), 0)

    def refresh() -> None:
        for screen in screens:
            fresh = screen.lines[printed[screen.name] :]  # its reader may add to the list meanwhile
            for line in fresh:
                console.print(f"{screen.name:>8}: {MATCH}: {line}", highlight=False)
            printed[screen.name] += len(fresh)

    yield refresh


def _draw(screens: list[Screen]) -> Group:
    panels = []
    for screen in screens:
        body = Text("\n".join([*screen.lines[-SHOWN:], *[""] * (SHOWN - len(screen.lines[-SHOWN:]))]))
        panels.append(Panel(body, title=screen.name, subtitle=screen.place, width=36))
    return Group(Text(f"producer → topic {TOPIC} → two consumers, key “{MATCH}”"), Columns(panels))


def _explain(console: Console, data: Path) -> None:
    console.print("\nBoth consumers saw the whole match, each at its own pace. To explore:")
    console.print(f"  .venv/bin/ottla broker --data {data}/broker", highlight=False)
    console.print(f"  kcat -b 127.0.0.1:9092 -t {TOPIC} -C -o beginning -e -K ': '", highlight=False)
