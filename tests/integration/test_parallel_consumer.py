"""The parallel consumer on a real broker: failures, hand-overs, holes in the log, bounds, and its end."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from ottla.client.parallel import (
    ConsumerFailed,
    DeadLetterFailed,
    Options,
    Order,
    RecordFailed,
    RetryPolicy,
    Unprocessable,
)
from ottla.local.broker_process import BrokerProcess
from tests.conftest import MakeBroker
from tests.support.clients import Publisher, create_topic, fresh, read_all
from tests.support.parallel import BRISK_GROUPS, Running, Seen, committed, settings_of, wait_committed
from tests.support.waiting import TIMEOUT_S, wait_until

PROTOCOLS = {
    "eager": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
METADATA_BYTES_MAX = 60
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "parallel_consumer.py"
BRISK = Options(workers=4, commit_interval_s=0.05, handover_timeout_s=5)


@pytest.fixture(scope="module")
def prompt(tmp_path_factory: pytest.TempPathFactory, peer: MakeBroker) -> Iterator[BrokerProcess]:
    """A broker whose groups are ready at once, and that takes little metadata with a commit."""
    settings = {**BRISK_GROUPS, "offset.metadata.max.bytes": str(METADATA_BYTES_MAX)}
    with peer(tmp_path_factory.mktemp("prompt") / "data", settings) as process:
        yield process


def numbered(count: int, keys: int = 8) -> list[dict[str, object]]:
    return [{"key": f"k{number % keys}", "value": f"{number:05d}"} for number in range(count)]


def protocol_settings(bootstrap: str, protocol: str) -> dict[str, object]:
    settings = {**settings_of(bootstrap), **PROTOCOLS[protocol]}
    if protocol == "consumer":
        del settings["heartbeat.interval.ms"]  # the broker's to say
    return settings


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rebalance_loses_nothing_repeats_nothing_and_keeps_the_order(
    prompt: BrokerProcess, protocol: str
) -> None:
    topic = create_topic(prompt.bootstrap, fresh("shared"), partitions=4)
    publisher = Publisher(prompt.bootstrap)
    settings = protocol_settings(prompt.bootstrap, protocol)
    seen = Seen()
    with Running(settings, topic, seen.note, BRISK) as first:
        wait_until(lambda: len(first.partitions()) == 4, "the first member to have all partitions")
        publisher.send(topic, numbered(400))
        with Running(settings, topic, seen.note, BRISK) as second:
            wait_until(lambda: len(second.partitions()) == 2, "the second member to have its share")
            wait_until(lambda: len(first.partitions()) == 2, "the first member to keep its share")
            publisher.send(topic, numbered(400))
            wait_until(lambda: len(seen) >= 800, "all records handled")
            second.stop(drain=True)
        wait_until(lambda: len(first.partitions()) == 4, "the first member to have all partitions back")
        publisher.send(topic, numbered(400))
        wait_until(lambda: len(seen) >= 1_200, "all records handled")
        first.stop(drain=True)
    assert (first.failure, second.failure) == (None, None)
    for key in range(8):
        one_round = [f"{number:05d}".encode() for number in range(key, 400, 8)]
        assert seen.by_key[f"k{key}".encode()] == one_round * 3
    assert sum(entry.offset for entry in committed(settings, topic, range(4)) if entry.offset > 0) == 1_200


def test_a_handler_that_outlives_its_partition_is_ignored(prompt: BrokerProcess) -> None:
    """Handlers hang, yet the member polls: another one joins, gets a partition, and handles its record again."""
    topic = create_topic(prompt.bootstrap, fresh("hanging"), partitions=2)
    Publisher(prompt.bootstrap).send(
        topic, [{"value": f"in {number}", "partition": number} for number in (0, 1)]
    )
    settings = settings_of(prompt.bootstrap)
    release = threading.Event()
    seen = Seen()
    impatient = Options(workers=2, commit_interval_s=0.05, handover_timeout_s=0.1)
    with Running(settings, topic, lambda _message: release.wait(TIMEOUT_S), impatient) as first:
        wait_until(lambda: first.consumer.progress().running == 2, "both records under way")
        with Running(settings, topic, seen.note, impatient) as second:
            second.wait_done(1)
            (taken,) = second.partitions()
            wait_committed(settings, topic, 1, taken)
            release.set()
            wait_until(lambda: first.consumer.progress().ignored >= 1, "the late result to come")
            wait_committed(settings, topic, 1, 1 - taken)
    assert b"in %d" % taken in seen.values


def test_a_failing_record_is_retried_and_holds_only_its_own_key(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("retried"))
    Publisher(prompt.bootstrap).send(topic, [{"key": k, "value": k + n} for n in "123" for k in "ab"])
    others_done = threading.Event()
    seen = Seen()
    attempts: list[bytes] = []

    def handle(message: Message) -> None:
        if message.value() == b"a1" and len(attempts) < 2:
            attempts.append(b"a1")
            raise ConnectionError("connection refused")
        if message.value() == b"a1":
            assert others_done.wait(TIMEOUT_S)
        seen.note(message)
        if message.value() == b"b3":
            others_done.set()

    options = Options(workers=2, retry=RetryPolicy(delay_first_s=0.01))
    with Running(settings_of(prompt.bootstrap), topic, handle, options) as consumer:
        consumer.wait_done(6)
        assert consumer.consumer.progress().retried == 2
    assert seen.by_key == {b"a": [b"a1", b"a2", b"a3"], b"b": [b"b1", b"b2", b"b3"]}


def test_dead_letters_contain_the_record_and_its_errors(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("orders"))
    dead = create_topic(prompt.bootstrap, fresh("dead"))
    Publisher(prompt.bootstrap).send(
        topic,
        [
            {"key": b"k", "value": b"poison", "headers": [("trace", b"42")]},
            {"key": None, "value": None},
            {"key": b"k", "value": b"fine"},
        ],
    )
    settings = settings_of(prompt.bootstrap)

    def handle(message: Message) -> None:
        if message.value() == b"poison":
            raise ValueError("not an order")
        if message.value() is None:
            raise Unprocessable("a tombstone")

    options = Options(
        workers=2,
        retry=RetryPolicy(attempts_max=3, delay_first_s=0.01),
        dead_letter_topic=dead,
        commit_interval_s=0.05,
    )
    with Running(settings, topic, handle, options) as consumer:
        consumer.wait_done(3)
        wait_committed(settings, topic, 3)
        assert consumer.consumer.progress().dead_lettered == 2
    letters = {message.value(): message for message in read_all(prompt.bootstrap, dead, 0)}
    assert set(letters) == {b"poison", None}
    headers = letters[b"poison"].headers() or []
    assert headers[0] == ("trace", b"42")
    values = dict(headers[1:])
    assert values["__dlq.errors.topic"] == topic.encode()
    assert values["__dlq.errors.partition"] == b"0"
    assert values["__dlq.errors.offset"] == b"0"
    assert values["__dlq.errors.group"] == str(settings["group.id"]).encode()
    assert values["__dlq.errors.delivery.count"] == b"3"
    assert values["__dlq.errors.message"] == b"ValueError: not an order"
    assert letters[b"poison"].key() == b"k"
    assert letters[None].key() is None
    assert dict(letters[None].headers() or [])["__dlq.errors.delivery.count"] == b"1"


def test_a_dead_letter_that_is_refused_ends_the_consumer_and_the_record_stays(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("orders"))
    dead = create_topic(prompt.bootstrap, fresh("dead"), config={"max.message.bytes": "100"})
    Publisher(prompt.bootstrap).send(topic, [{"value": b"x" * 500}])
    settings = settings_of(prompt.bootstrap)

    def refuse(_message: Message) -> None:
        raise Unprocessable

    with Running(settings, topic, refuse, Options(dead_letter_topic=dead)) as consumer:
        consumer.wait_end()
    assert isinstance(consumer.failure, DeadLetterFailed)
    assert "max.message.bytes" in str(consumer.failure)
    assert committed(settings, topic)[0].offset <= 0


def test_a_record_that_fails_for_good_ends_run_with_its_error(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("orders"))
    Publisher(prompt.bootstrap).send(topic, [{"value": value} for value in ("fine", "poison")])
    settings = settings_of(prompt.bootstrap)

    def handle(message: Message) -> None:
        if message.value() == b"poison":
            raise ValueError("not an order")

    with Running(
        settings, topic, handle, Options(retry=RetryPolicy(2, 0.01), order=Order.PARTITION)
    ) as consumer:
        consumer.wait_end()
    assert isinstance(consumer.failure, RecordFailed)
    assert isinstance(consumer.failure.__cause__, ValueError)
    assert f"offset 1 of {topic}-0 failed 2 times" in str(consumer.failure)
    assert committed(settings, topic)[0].offset == 1, "what was done before is committed"


def test_a_consumer_that_cannot_start_reports_the_remedy(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("orders"))
    settings = {**settings_of(prompt.bootstrap), "auto.offset.reset": "error"}
    with Running(settings, topic, lambda _message: None) as consumer:
        consumer.wait_end()
    assert isinstance(consumer.failure, ConsumerFailed)
    assert "auto.offset.reset" in str(consumer.failure)


def test_commits_go_over_offsets_that_hold_no_record(prompt: BrokerProcess) -> None:
    """Markers of transactions and aborted records lie between the records and at the end."""
    topic = create_topic(prompt.bootstrap, fresh("accounts"))
    producer = Producer({"bootstrap.servers": prompt.bootstrap, "transactional.id": fresh("teller")})
    producer.init_transactions(TIMEOUT_S)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, str(number), key=str(number))
        if number % 3 == 2:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    settings = settings_of(prompt.bootstrap)
    seen = Seen()
    with Running(settings, topic, seen.note, BRISK) as consumer:
        wait_committed(settings, topic, 12)
        assert consumer.consumer.progress().done == 4
    assert sorted(seen.values) == [b"0", b"1", b"3", b"4"]


def test_a_place_left_by_a_plain_consumer_is_taken_over(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("orders"))
    Publisher(prompt.bootstrap).send(topic, numbered(5))
    settings = settings_of(prompt.bootstrap)
    plain = Consumer(settings)
    plain.commit(offsets=[TopicPartition(topic, 0, 3, metadata="by hand: {\u00e9}")], asynchronous=False)
    plain.close()
    seen = Seen()
    with Running(settings, topic, seen.note, BRISK):
        wait_committed(settings, topic, 5)
    assert seen.values == [b"00003", b"00004"]


def test_reading_pauses_while_handlers_are_slow_and_resumes_later(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("flood"), partitions=2)
    Publisher(prompt.bootstrap).send(
        topic, [{"value": str(number), "partition": number % 2} for number in range(500)]
    )
    release = threading.Event()
    options = Options(workers=2, records_max=40, commit_interval_s=0.05)
    with Running(
        settings_of(prompt.bootstrap), topic, lambda _message: release.wait(TIMEOUT_S), options
    ) as consumer:
        progress = consumer.consumer.progress
        wait_until(lambda: any(figures.paused for figures in progress().partitions), "a partition to pause")
        assert progress().running == 2
        assert 20 <= progress().in_flight <= 40
        release.set()
        consumer.wait_done(500)
        wait_until(lambda: progress().in_flight == 0 and progress().commit_lag == 0, "everything committed")
        wait_until(lambda: not any(figures.paused for figures in progress().partitions), "all to resume")


def test_metadata_beyond_the_clusters_limit_is_made_smaller(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("orders"))
    Publisher(prompt.bootstrap).send(topic, [{"value": str(number)} for number in range(400)])
    settings = settings_of(prompt.bootstrap)
    release = threading.Event()

    def handle(message: Message) -> None:
        if int(message.value() or b"") % 4 == 0 and int(message.value() or b"") < 200:
            release.wait(TIMEOUT_S)

    options = Options(workers=60, commit_interval_s=0.05, metadata_bytes_max=4096)
    with Running(settings, topic, handle, options) as consumer:
        consumer.wait_done(350)
        wait_until(lambda: bool(committed(settings, topic)[0].metadata), "metadata that fits")
        assert len(committed(settings, topic)[0].metadata or "") <= METADATA_BYTES_MAX
        release.set()
        wait_committed(settings, topic, 400)


def test_stop_with_drain_finishes_what_was_read_and_without_only_what_runs(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("orders"))
    Publisher(prompt.bootstrap).send(topic, numbered(20, keys=1))
    settings = settings_of(prompt.bootstrap)
    step = threading.Semaphore(0)

    def handle(_message: Message) -> None:
        assert step.acquire(timeout=TIMEOUT_S)

    with Running(settings, topic, handle, BRISK) as consumer:
        wait_until(lambda: consumer.consumer.progress().in_flight == 20, "all records read")
        consumer.consumer.stop(drain=False)
        step.release()
        consumer.wait_end()
    assert committed(settings, topic)[0].offset == 1
    with Running(settings, topic, handle, BRISK) as consumer:
        wait_until(lambda: consumer.consumer.progress().in_flight == 19, "all records read")
        consumer.consumer.stop(drain=True)
        step.release(19)
        consumer.wait_end()
    assert consumer.failure is None
    assert committed(settings, topic)[0].offset == 20


def test_coroutines_run_on_the_loop_of_the_user(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("orders"))
    Publisher(prompt.bootstrap).send(topic, numbered(50))
    seen = Seen()
    loops: set[asyncio.AbstractEventLoop] = set()

    async def handle(message: Message) -> None:
        loops.add(asyncio.get_running_loop())
        seen.note(message)

    async def program() -> None:
        loop = asyncio.get_running_loop()
        with Running(settings_of(prompt.bootstrap), topic, handle, BRISK, loop=loop) as consumer:
            await asyncio.to_thread(consumer.wait_done, 50)
            await asyncio.to_thread(consumer.stop, drain=True)
        assert loops == {loop}

    asyncio.run(program())
    assert len(seen) == 50


def test_a_seek_moves_back_and_the_commit_follows(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("orders"))
    Publisher(prompt.bootstrap).send(topic, numbered(10, keys=1))
    settings = settings_of(prompt.bootstrap)
    seen = Seen()
    with Running(settings, topic, seen.note, BRISK) as consumer:
        wait_committed(settings, topic, 10)
        consumer.consumer.seek(topic, 0, 7)
        wait_until(lambda: len(seen) == 13, "the last three again")
        wait_committed(settings, topic, 10)
    assert seen.values[10:] == [b"00007", b"00008", b"00009"]


def test_the_example_runs_and_ends_with_what_it_read(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("orders"))
    create_topic(prompt.bootstrap, f"{topic}.dead")
    Publisher(prompt.bootstrap).send(topic, [*numbered(40), {"value": None}])
    command = [sys.executable, str(EXAMPLE), prompt.bootstrap, topic]
    settings = {**settings_of(prompt.bootstrap), "group.id": "confirmations"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as example:
        try:
            wait_committed(settings, topic, 41)
            example.send_signal(signal.SIGINT)
            output, _ = example.communicate(timeout=TIMEOUT_S)
        finally:
            example.kill()
    assert (example.returncode, output) == (0, f"40 orders confirmed, 1 to {topic}.dead\n")
    assert len(read_all(prompt.bootstrap, f"{topic}.dead", 0)) == 1


@pytest.mark.parametrize("arguments", [[], ["127.0.0.1:9092"], ["a:1", "b", "c"]])
def test_the_example_prints_its_arguments(arguments: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (1, "usage: python parallel_consumer.py BOOTSTRAP_SERVERS TOPIC\n")
