"""Mission, row B4: records handed to several threads keep the order of each key, and commits wait for the work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Message

from ottla.client.parallel import Options
from ottla.local.broker_process import BrokerProcess
from tests.conftest import MakeBroker
from tests.support.clients import Publisher, create_topic, fresh
from tests.support.parallel import BRISK_GROUPS, Running, Seen, committed, settings_of, wait_committed
from tests.support.waiting import TIMEOUT_S, wait_until

MATCHES = [b"Canada vs USA", b"France vs Spain", b"Japan vs Brazil", b"Kenya vs Ghana"]


@pytest.fixture(scope="module")
def prompt(tmp_path_factory: pytest.TempPathFactory, peer: MakeBroker) -> Iterator[BrokerProcess]:
    """A broker whose groups are ready at once."""
    with peer(tmp_path_factory.mktemp("prompt") / "data", BRISK_GROUPS) as process:
        yield process


def test_B4_two_threads_keep_the_order_of_each_key(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("matches"), partitions=2)
    events = [{"key": match, "value": f"{number:03d}"} for number in range(50) for match in MATCHES]
    Publisher(prompt.bootstrap).send(topic, events)
    seen = Seen()
    threads: set[str] = set()
    both_busy = threading.Barrier(2)

    def show(message: Message) -> None:
        if message.value() == b"000" and message.key() in MATCHES[:2]:
            both_busy.wait(TIMEOUT_S)  # passes only when two threads have a record at the same time
        seen.note(message)
        threads.add(threading.current_thread().name)

    with Running(settings_of(prompt.bootstrap), topic, show, Options(workers=2)) as consumer:
        consumer.wait_done(len(events))
    assert len(threads) == 2
    assert dict(seen.by_key) == {match: [b"%03d" % number for number in range(50)] for match in MATCHES}


def test_B4_no_offset_is_committed_before_the_work_below_it_is_done(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("matches"))
    records = [{"key": MATCHES[number % 4], "value": str(number)} for number in range(40)]
    Publisher(prompt.bootstrap).send(topic, records)
    settings = settings_of(prompt.bootstrap)
    release = threading.Event()

    def show(message: Message) -> None:
        if message.value() == b"5":
            assert release.wait(TIMEOUT_S)

    with Running(settings, topic, show, Options(workers=2, commit_interval_s=0.05)) as consumer:
        consumer.wait_done(31)  # all of the three other matches, and the one event before the held one
        wait_committed(settings, topic, 5)
        assert consumer.consumer.progress().done == 31
        assert committed(settings, topic)[0].offset == 5
        release.set()
        wait_committed(settings, topic, 40)


def test_B4_a_hundred_records_wait_at_the_same_time_in_threads(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("mail"), partitions=2)
    Publisher(prompt.bootstrap).send(topic, [{"key": str(number), "value": b""} for number in range(200)])
    all_waiting = threading.Barrier(100)

    def send_mail(_message: Message) -> None:
        all_waiting.wait(TIMEOUT_S)

    with Running(settings_of(prompt.bootstrap), topic, send_mail, Options(workers=100)) as consumer:
        consumer.wait_done(200)
        assert consumer.consumer.progress().retried == 0


def test_B4_a_thousand_records_wait_at_the_same_time_in_tasks(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("mail"), partitions=2)
    Publisher(prompt.bootstrap).send(topic, [{"key": str(number), "value": b""} for number in range(1_000)])
    waiting = 0
    all_waiting = asyncio.Event()

    async def send_mail(_message: Message) -> None:
        nonlocal waiting
        waiting += 1
        if waiting == 1_000:
            all_waiting.set()
        await asyncio.wait_for(all_waiting.wait(), TIMEOUT_S)

    with Running(settings_of(prompt.bootstrap), topic, send_mail, Options(workers=1_000)) as consumer:
        consumer.wait_done(1_000)


def test_B4_a_restart_repeats_only_what_was_not_done(prompt: BrokerProcess) -> None:
    topic = create_topic(prompt.bootstrap, fresh("matches"))
    Publisher(prompt.bootstrap).send(
        topic, [{"key": str(number), "value": str(number)} for number in range(30)]
    )
    settings = settings_of(prompt.bootstrap)
    held = threading.Event()

    def first_life(message: Message) -> None:
        if message.value() in (b"3", b"17"):
            held.wait(TIMEOUT_S)

    options = Options(workers=4, commit_interval_s=0.05, handover_timeout_s=0)
    with Running(settings, topic, first_life, options) as consumer:
        consumer.wait_done(28)
        wait_committed(settings, topic, 3)
        wait_until(lambda: consumer.consumer.progress().commit_lag == 27, "the commit to be acknowledged")
        consumer.stop(drain=False)
        held.set()
    seen = Seen()
    with Running(settings, topic, seen.note, options) as consumer:
        consumer.wait_done(2)
        wait_committed(settings, topic, 30)
    assert sorted(seen.values) == [b"17", b"3"]
