"""`ottla matches play`: played matches arrive in their topic, keyed by match, the same for the same seed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from ottla.admin.contexts import LOCAL, Context, ContextFolder
from ottla.base.clock import SystemClock
from ottla.base.errors import LocalError
from ottla.local.broker_process import BrokerProcess
from ottla.pipelines.declare import topic as declared
from ottla.pipelines.io.topics import create_missing
from ottla.scoreboard.feed import EARLY_S_MAX, DeliveryFailed, Feed
from ottla.scoreboard.generator import Arrival, season
from ottla.scoreboard.match import MatchEvent, decode
from tests.conftest import MakeBroker
from tests.support import scoreboard as checker
from tests.support.clients import create_topic, fresh
from tests.support.command_line import CommandLine
from tests.support.waiting import wait_until


def play(broker: BrokerProcess, topic: str, *words: str) -> str:
    command = [sys.executable, "-m", "ottla.cli.main", "matches", "play", "--bootstrap", broker.bootstrap]
    ran = subprocess.run(
        [*command, "--topic", topic, *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def arrived(broker: BrokerProcess, topic: str) -> list[tuple[str, MatchEvent]]:
    found = checker.committed(broker.bootstrap, topic)
    return [(each.key().decode(), decode(each.value())) for each in found]


def size(broker: BrokerProcess, topic: str) -> int:
    """How many records the only partition of a topic has; more may be coming."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
    consumer.close()
    return int(end)


def test_matches_are_played_to_their_end_keyed_by_match(broker: BrokerProcess) -> None:
    topic = fresh("matches")
    output = play(
        broker, topic, "--speed", "0", "--seed", "3", "--matches", "4", "--duplicates", "0", "--late", "0"
    )
    found = arrived(broker, topic)
    assert f"{len(found)} events sent, seed 3" in output
    assert all(key == event.match for key, event in found)
    for match in {key for key, _ in found}:
        of_match = [event for key, event in found if key == match]
        assert [event.number for event in of_match] == list(range(1, len(of_match) + 1)), "in order"
        assert of_match[-1].kind == "match end"


@pytest.mark.parametrize("source", ["own option", "global option", "environment", "context"])
def test_the_address_is_that_of_the_first_source_that_has_one(
    broker: BrokerProcess, tmp_path: Path, source: str
) -> None:
    """All sources that come later have the address of no broker."""
    order = ["context", "environment", "global option", "own option"]
    addresses = dict.fromkeys(order, "127.0.0.1:1") | {source: broker.bootstrap}
    given = {each: addresses[each] for each in order[: order.index(source) + 1]}
    folder = ContextFolder.of_user({"XDG_CONFIG_HOME": str(tmp_path)})
    folder.save(Context(LOCAL, given["context"], {"client.id": "matches"}))
    topic = fresh("matches")
    command = ["-b", given["global option"]] if "global option" in given else []
    command += ["matches", "play", "--speed", "0", "--topic", topic]
    command += ["--bootstrap", given["own option"]] if "own option" in given else []
    output, _ = CommandLine(given.get("environment", ""), tmp_path).run(*command)
    assert f"{len(arrived(broker, topic))} events sent" in output


def test_settings_that_librdkafka_does_not_accept_are_reported_in_one_line(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    ottla = CommandLine(broker.bootstrap, tmp_path)
    _, error = ottla.run("-X", "ssl.truststore.location=store.jks", "matches", "play", code=2)
    assert error.startswith("ottla: librdkafka does not accept the settings: Java TrustStores")


def test_a_seed_sends_the_same_events_disturbed_the_same(broker: BrokerProcess) -> None:
    topics = [fresh("matches"), fresh("matches")]
    for topic in topics:
        play(broker, topic, "--rate", "100000", "--seed", "5", "--matches", "2", "--duplicates", "0.2")
    first, second = ([(key, event.number, event.event) for key, event in arrived(broker, t)] for t in topics)
    assert first == second
    assert len(set(first)) < len(first), "some came twice"


@pytest.mark.parametrize("pace", [("--speed", "0"), ("--rate", "3000")])
def test_no_event_is_later_than_its_record(broker: BrokerProcess, pace: tuple[str, str]) -> None:
    topic = fresh("matches")
    play(broker, topic, *pace, "--matches", "2", "--rounds", "2")
    found = checker.committed(broker.bootstrap, topic)
    assert found
    for each in found:
        event = decode(each.value())
        early_ms = event.time_ms - each.timestamp()[1]
        assert event.started_ms <= event.time_ms
        assert early_ms <= EARLY_S_MAX * 1000 + 1, "sent before its moment by more than a wait is worth"


def test_ctrl_c_while_the_broker_is_unreachable_is_reported_in_one_line(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.cli.local import matches
    from ottla.scoreboard import feed

    broker = make_broker()

    def interrupted(self: Feed, *_: object, **__: object) -> int:
        broker.kill()
        self._producer.produce("matches", b"lost")
        raise KeyboardInterrupt

    monkeypatch.setattr(feed, "DELIVERY_S_MAX", 0.1)
    monkeypatch.setattr(Feed, "play", interrupted)
    result = CliRunner().invoke(matches.app, ["play", "--bootstrap", broker.bootstrap])
    assert result.exit_code == 2
    assert "1 events could not be delivered to topic matches" in result.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_matches_with_everything_delivered(
    broker: BrokerProcess, number: signal.Signals
) -> None:
    topic = create_topic(broker.bootstrap, fresh("matches"))
    command = [sys.executable, "-m", "ottla.cli.main", "matches", "play", "--bootstrap", broker.bootstrap]
    command += ["--topic", topic, "--rounds", "0", "--rate", "20"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        wait_until(lambda: bool(size(broker, topic)), "the first events", 60)
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert output.startswith("Stopping ...\n")
    assert f"\n{len(arrived(broker, topic))} events sent, seed " in output


def test_an_event_that_is_not_delivered_is_reported(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("matches"), config={"max.message.bytes": "10"})
    (event,) = islice(season(1, 0, 1), 1)
    feed = Feed(broker.bootstrap, topic)
    with pytest.raises(DeliveryFailed, match=f"an event could not be delivered to topic {topic}: .*MSG_SIZE"):
        feed.play([Arrival(0, event)], threading.Event(), pace=None)


def test_events_are_sent_when_their_moment_has_come(broker: BrokerProcess) -> None:
    """A fake clock: the feed asks it, and waits for as long as is left."""

    class Waits(threading.Event):
        def __init__(self) -> None:
            super().__init__()
            self.waited_s: list[float] = []

        def wait(self, timeout: float | None = None) -> bool:
            clock.now_s += timeout or 0
            self.waited_s.append(timeout or 0)
            return False

    class Clock(SystemClock):
        now_s = 0.0

        def monotonic(self) -> float:
            return self.now_s

    clock, stop = Clock(), Waits()
    topic = create_topic(broker.bootstrap, fresh("matches"))
    events = list(islice(season(1, 0, 1), 50))
    feed = Feed(broker.bootstrap, topic, monotonic=clock.monotonic)
    assert feed.play([Arrival(event.time_ms, event) for event in events], stop) == 50
    assert clock.now_s == pytest.approx(events[-1].time_ms / 1000, abs=0.01)
    clock.now_s = 0
    Feed(broker.bootstrap, topic, monotonic=clock.monotonic).play(
        [Arrival(0, event) for event in events], stop, pace=10.0
    )
    assert clock.now_s == pytest.approx(4.9, abs=0.01)


def test_a_stop_ends_the_feed(broker: BrokerProcess) -> None:
    topic, stop = create_topic(broker.bootstrap, fresh("matches")), threading.Event()
    arrivals = (Arrival(event.time_ms, event) for event in season(1, 0, 1, rounds=None))

    def on_sent(sent: int) -> None:
        if sent == 20:
            stop.set()

    assert Feed(broker.bootstrap, topic).play(arrivals, stop, pace=None, on_sent=on_sent) == 20
    assert len(arrived(broker, topic)) == 20


def test_topics_are_made_as_declared_and_then_left_alone(broker: BrokerProcess) -> None:
    first, second = fresh("made"), fresh("made")
    create_topic(broker.bootstrap, first, partitions=2)
    wanted = [
        declared(first, partitions=5),
        declared(second, partitions=4, config={"cleanup.policy": "compact"}),
    ]
    assert create_missing(broker.bootstrap, wanted, {}) == {first: 2, second: 4}
    assert create_missing(broker.bootstrap, wanted, {}) == {first: 2, second: 4}


def test_a_topic_that_cannot_be_created_is_reported(broker: BrokerProcess) -> None:
    with pytest.raises(LocalError, match="cannot create topic"):
        create_missing(broker.bootstrap, [declared(fresh("made"), config={"cleanup.policy": "never"})], {})
