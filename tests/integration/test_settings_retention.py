"""Settings that divide a log into segments and take the oldest away."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.base.clock import SystemClock
from ottla.local.broker_process import BrokerProcess
from tests.support.clients import Publisher, Reader, create_topic, fresh
from tests.support.settings import alter_topic, contents, segment_bases, segment_files, stored_batches
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000
ROLL_EACH = {"segment.ms": "1"}
"""With record times further apart than this every batch begins a segment."""


def send_hours_ago(broker: BrokerProcess, topic: str, hours: list[float], value: bytes = b"v") -> None:
    """A batch for each, with a time that many hours ago."""
    publisher, now_ms = Publisher(broker.bootstrap), SystemClock().now_ms()
    for each in hours:
        publisher.send(topic, [{"value": value, "timestamp": now_ms - int(each * HOUR_MS)}])


def folder_of(broker: BrokerProcess, topic: str) -> Path:
    return broker.data / f"{topic}-0"


def wait_for_start(broker: BrokerProcess, topic: str, offset: int) -> None:
    with Reader(broker.bootstrap, topic, [0]) as reader:
        wait_until(lambda: reader.start(0, topic) == offset, f"{topic} to start at {offset}")


def wait_for_a_round(broker: BrokerProcess) -> None:
    """Until retention has looked at every log once more: it has taken what a log of ours had too much."""
    other = create_topic(broker.bootstrap, fresh("round"), config={"retention.ms": "1000"})
    send_hours_ago(broker, other, [1])
    wait_for_start(broker, other, 1)
    send_hours_ago(broker, other, [1])
    wait_for_start(broker, other, 2)


# --- retention


def test_retention_ms_reaches_the_active_segment_when_it_is_changed(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("age"), config={"retention.ms": "-1"})
    send_hours_ago(brisk, topic, [2, 2, 2])
    wait_for_a_round(brisk)
    assert len(contents(brisk.bootstrap, topic)) == 3
    assert segment_bases(folder_of(brisk, topic)) == [0]
    alter_topic(brisk.bootstrap, topic, {"retention.ms": str(HOUR_MS)})
    wait_for_start(brisk, topic, 3)
    assert contents(brisk.bootstrap, topic) == []
    assert segment_bases(folder_of(brisk, topic)) == [3]
    send_hours_ago(brisk, topic, [0])
    wait_for_a_round(brisk)
    assert [one.offset() for one in contents(brisk.bootstrap, topic)] == [3]


def test_retention_ms_looks_at_the_newest_record_of_a_segment(brisk: BrokerProcess) -> None:
    config = {"retention.ms": str(HOUR_MS), "segment.ms": str(24 * HOUR_MS)}
    topic = create_topic(brisk.bootstrap, fresh("age"), config=config)
    send_hours_ago(brisk, topic, [0, 3, 2])  # the newest first: a round may begin before the others arrive
    wait_for_a_round(brisk)
    assert len(contents(brisk.bootstrap, topic)) == 3


def test_retention_bytes_keeps_at_least_that_much(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("bytes"), config=ROLL_EACH)
    send_hours_ago(brisk, topic, [1 - number / 100 for number in range(10)], random.Random(1).randbytes(1000))
    sizes = {batch.size for batch in stored_batches(folder_of(brisk, topic))}
    assert len(sizes) == 1
    size = sizes.pop()
    assert segment_bases(folder_of(brisk, topic)) == list(range(10))
    alter_topic(brisk.bootstrap, topic, {"retention.bytes": str(3 * size + 1)})
    wait_for_start(brisk, topic, 6)
    alter_topic(brisk.bootstrap, topic, {"retention.bytes": str(3 * size)})
    wait_for_start(brisk, topic, 7)
    wait_for_a_round(brisk)
    assert [one.offset() for one in contents(brisk.bootstrap, topic)] == [7, 8, 9]


def test_without_the_delete_policy_nothing_is_deleted_by_age(brisk: BrokerProcess) -> None:
    config = {"cleanup.policy": "compact", "retention.ms": "1000"}
    topic = create_topic(brisk.bootstrap, fresh("age"), config=config)
    publisher = Publisher(brisk.bootstrap)
    publisher.send(topic, [{"key": b"k", "value": b"v", "timestamp": 1_000}])
    wait_for_a_round(brisk)
    assert len(contents(brisk.bootstrap, topic)) == 1
    alter_topic(brisk.bootstrap, topic, {"cleanup.policy": "compact,delete"})
    wait_for_start(brisk, topic, 1)


def test_an_empty_cleanup_policy_keeps_everything(brisk: BrokerProcess) -> None:
    config = {"cleanup.policy": "", "retention.ms": "1000", "retention.bytes": "1"}
    topic = create_topic(brisk.bootstrap, fresh("age"), config=config)
    send_hours_ago(brisk, topic, [2])
    wait_for_a_round(brisk)
    assert len(contents(brisk.bootstrap, topic)) == 1


# --- segments


def test_segment_bytes_rolls_before_a_batch_that_does_not_fit(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("roll"), config={"segment.bytes": str(1024 * 1024)})
    publisher = Publisher(brisk.bootstrap)
    for size in (600_000, 400_000, 600_000, 600_000):
        publisher.send(topic, [{"value": random.Random(size).randbytes(size)}])
    assert segment_bases(folder_of(brisk, topic)) == [0, 2, 3]
    assert all(file.stat().st_size <= 1024 * 1024 for file in segment_files(folder_of(brisk, topic)))
    assert [one.offset() for one in contents(brisk.bootstrap, topic)] == [0, 1, 2, 3]


def test_segment_ms_rolls_by_the_time_of_the_records(brisk: BrokerProcess) -> None:
    config = {"segment.ms": str(HOUR_MS), "retention.ms": "-1"}
    topic = create_topic(brisk.bootstrap, fresh("roll"), config=config)
    send_hours_ago(brisk, topic, [10, 9.5, 8.9, 8.8, 2, 0])
    assert segment_bases(folder_of(brisk, topic)) == [0, 2, 4, 5]
    alter_topic(brisk.bootstrap, topic, {"segment.ms": str(100 * HOUR_MS)})
    send_hours_ago(brisk, topic, [-0.5])
    assert segment_bases(folder_of(brisk, topic)) == [0, 2, 4, 5]


def test_segment_jitter_ms_rolls_earlier_by_chance(brisk: BrokerProcess) -> None:
    """300 seconds of records: three segments without jitter, one in a million that it makes no difference."""
    config = {"segment.ms": "100000", "segment.jitter.ms": "100000", "retention.ms": "-1"}
    topic = create_topic(brisk.bootstrap, fresh("jitter"), config=config)
    publisher, start = Publisher(brisk.bootstrap), SystemClock().now_ms() - HOUR_MS
    for second in range(0, 300, 2):
        publisher.send(topic, [{"value": b"v", "timestamp": start + second * 1000}])
    bases = segment_bases(folder_of(brisk, topic))
    assert len(bases) > 3
    spans = [later - earlier for earlier, later in zip(bases, [*bases[1:], 150], strict=True)]
    assert all(span * 2 <= 102 for span in spans)


def index_entries(file: Path) -> int:
    """The entries of an index file, which exists when it was first written."""
    data = file.read_bytes() if file.exists() else b""
    return sum(any(data[at : at + 8]) for at in range(0, len(data), 8))


@pytest.mark.parametrize(("interval", "least", "most"), [("0", 49, 49), ("4096", 2, 6)])
def test_index_interval_bytes_spaces_the_entries(
    brisk: BrokerProcess, interval: str, least: int, most: int
) -> None:
    config = {"index.interval.bytes": interval, "segment.ms": str(HOUR_MS)}
    topic = create_topic(brisk.bootstrap, fresh("index"), config=config)
    publisher, two_hours_ago = Publisher(brisk.bootstrap), SystemClock().now_ms() - 2 * HOUR_MS
    for number in range(50):
        publisher.send(topic, [{"value": bytes(300), "timestamp": two_hours_ago + number}])
    send_hours_ago(brisk, topic, [0])  # a segment that is full has all of its index on the disk
    file = folder_of(brisk, topic) / f"{0:020d}.index"
    wait_until(lambda: index_entries(file) >= least, "the index to be written")
    assert least <= index_entries(file) <= most


def test_segment_index_bytes_rolls_when_an_index_is_full(brisk: BrokerProcess) -> None:
    config = {"index.interval.bytes": "0", "segment.index.bytes": "40", "retention.ms": "-1"}
    topic = create_topic(brisk.bootstrap, fresh("index"), config=config)
    publisher = Publisher(brisk.bootstrap)
    for _ in range(20):
        publisher.send(topic, [{"value": b"v", "timestamp": 1_000_000}])
    bases = segment_bases(folder_of(brisk, topic))
    assert bases == [0, 6, 12, 18], "a batch without entry, five with one"
    sealed = [folder_of(brisk, topic) / f"{base:020d}.index" for base in bases[:-1]]
    wait_until(lambda: [index_entries(file) for file in sealed] == [5, 5, 5], "the indexes to be written")
    assert [one.offset() for one in contents(brisk.bootstrap, topic)] == list(range(20))


# --- files that go


def test_file_delete_delay_ms_keeps_deleted_files_for_a_while(brisk: BrokerProcess) -> None:
    config = {"retention.ms": "1000", "file.delete.delay.ms": "600000", **ROLL_EACH}
    topic = create_topic(brisk.bootstrap, fresh("delay"), config=config)
    quick = create_topic(brisk.bootstrap, fresh("delay"), config={**config, "file.delete.delay.ms": "0"})
    for each in (topic, quick):
        send_hours_ago(brisk, each, [2, 1, -0.5])
        wait_for_start(brisk, each, 2)
    wait_until(lambda: not any(folder_of(brisk, quick).glob("*.deleted")), "deleted files to go at once")
    assert {file.name for file in folder_of(brisk, topic).glob("*.log.deleted")} == {
        f"{0:020d}.log.deleted",
        f"{1:020d}.log.deleted",
    }


def test_delete_records_moves_the_start_and_frees_whole_segments(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("records"), config={**ROLL_EACH, "file.delete.delay.ms": "0"})
    send_hours_ago(brisk, topic, [6, 5, 4, 3, 2, 1])
    admin = AdminClient({"bootstrap.servers": brisk.bootstrap})
    place = TopicPartition(topic, 0, 4)
    assert admin.delete_records([place])[place].result(30).low_watermark == 4
    assert [one.offset() for one in contents(brisk.bootstrap, topic)] == [4, 5]
    wait_until(lambda: segment_bases(folder_of(brisk, topic)) == [4, 5], "whole segments to go")
    with Reader(brisk.bootstrap, topic, [0], start=1) as reader, pytest.raises(KafkaException) as gone:
        reader.take(1)
    assert gone.value.args[0].code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
    everything = TopicPartition(topic, 0, -1)
    assert admin.delete_records([everything])[everything].result(30).low_watermark == 6
    beyond = TopicPartition(topic, 0, 7)
    with pytest.raises(KafkaException) as refused:
        admin.delete_records([beyond])[beyond].result(30)
    assert refused.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE


def test_records_of_a_compacted_topic_are_not_deleted(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("records"), config={"cleanup.policy": "compact"})
    Publisher(brisk.bootstrap).send(topic, [{"key": b"k", "value": b"v"}])
    admin = AdminClient({"bootstrap.servers": brisk.bootstrap})
    place = TopicPartition(topic, 0, 1)
    with pytest.raises(KafkaException) as refused:
        admin.delete_records([place])[place].result(30)
    assert refused.value.args[0].code() == KafkaError.POLICY_VIOLATION


def test_a_deleted_topic_frees_its_directory(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("freed"), partitions=3)
    send_hours_ago(brisk, topic, [0])
    admin = AdminClient({"bootstrap.servers": brisk.bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: not any(brisk.data.glob(f"{topic}*")), "the directories to go")
    create_topic(brisk.bootstrap, topic)
    assert contents(brisk.bootstrap, topic) == []
