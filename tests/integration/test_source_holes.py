"""Ranges of the Spark source on a real broker's log with holes: compacted away, markers, aborted records."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.base.clock import SystemClock
from ottla.base.ids import TopicPartition
from ottla.client.raw import cluster_for
from ottla.local.broker_process import BrokerProcess
from ottla.records import columns
from ottla.spark.source import range_reader as reader
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.ranges import OffsetRange
from tests.support.clients import TIMEOUT_S, Publisher, create_topic, fresh
from tests.support.settings import pairs
from tests.support.waiting import wait_until

COMPACTED = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
KEYS = "abcabcabzcba"
KEPT = [6, 8, 9, 10, 11]
"""The last record of each key, and one more a: the very last lies in the active segment, so none gives way to it."""
HOUR_MS = 3_600_000


class _Offsets:
    """Makes lists of offsets where the source makes batches of Arrow."""

    wanted = frozenset({columns.OFFSET})

    def build(self, decoded: columns.DecodedColumns) -> list[int]:
        return list(memoryview(decoded.offset or b"").cast("B").cast("q"))


def read(
    broker: BrokerProcess, topic: str, start: int, end: int, isolation: str, timeout_ms: int = 2000
) -> list[int]:
    options = SourceOptions.parse(
        {
            "kafka.bootstrap.servers": broker.bootstrap,
            "subscribe": topic,
            "kafka.isolation.level": isolation,
            "kafka.fetch.max.wait.ms": "50",
            "kafkaConsumer.pollTimeoutMs": str(timeout_ms),
        },
        streaming=False,
    )
    maker: Any = _Offsets()
    wanted = OffsetRange(TopicPartition(topic, 0), start, end)
    batches = reader.RangeReader(cluster_for(options.settings), options, maker, wanted).batches()
    return [offset for batch in batches for offset in batch]


def compacted(broker: BrokerProcess) -> str:
    """A topic whose segments held one record each, most of which are gone."""
    topic = create_topic(broker.bootstrap, fresh("holes"), config=COMPACTED)
    publisher = Publisher(broker.bootstrap)
    start = SystemClock().now_ms() - HOUR_MS
    for number, key in enumerate(KEYS):
        record = {"key": key, "value": b"", "timestamp": start + number * 1000, "partition": 0}
        publisher.send(topic, [record])
    wait_until(lambda: [offset for offset, _, _ in pairs(broker.bootstrap, topic)] == KEPT, "the cleaner")
    return topic


def test_every_range_of_a_compacted_log_ends(brisk: BrokerProcess) -> None:
    topic = compacted(brisk)
    for start in range(len(KEYS)):
        for end in range(start, len(KEYS) + 1):
            expected = [offset for offset in KEPT if start <= offset < end]
            assert read(brisk, topic, start, end, "read_uncommitted") == expected, (start, end)


def writer(broker: BrokerProcess) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": fresh("writer")})
    producer.init_transactions(TIMEOUT_S)
    return producer


def write(producer: Producer, topic: str, records: int) -> None:
    """A transaction that is left open; each record is a batch of its own."""
    producer.begin_transaction()
    for _ in range(records):
        producer.produce(topic, b"", partition=0)
        assert producer.flush(TIMEOUT_S) == 0


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_every_range_of_markers_and_aborted_records_ends(broker: BrokerProcess, isolation: str) -> None:
    topic = create_topic(broker.bootstrap, fresh("markers"))
    producer = writer(broker)
    for commit in (True, False, False):
        write(producer, topic, records=2)
        (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT_S)
    there = [0, 1] if isolation == "read_committed" else [0, 1, 3, 4, 6, 7]
    for start in range(9):
        for end in range(start, 10):
            expected = [offset for offset in there if start <= offset < end]
            assert read(broker, topic, start, end, isolation) == expected, (start, end)


def test_a_producer_that_aborts_and_then_commits(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer that makes several batches of rows: what was aborted in the first is over in the last."""
    monkeypatch.setattr(reader, "ROWS_MAX", 2)
    topic = create_topic(broker.bootstrap, fresh("markers"))
    producer, publisher = writer(broker), Publisher(broker.bootstrap)
    write(producer, topic, records=3)
    producer.abort_transaction(TIMEOUT_S)
    for _ in range(4):
        publisher.send(topic, [{"value": b"", "partition": 0}])
    write(producer, topic, records=3)
    producer.commit_transaction(TIMEOUT_S)
    for start in range(12):
        expected = [offset for offset in (4, 5, 6, 7, 8, 9, 10) if start <= offset]
        assert read(broker, topic, start, 12, "read_committed") == expected, start


def test_data_loss_is_reported_where_committed_records_end(broker: BrokerProcess) -> None:
    """A range into an open transaction: the log goes on, but not for this reader."""
    topic = create_topic(broker.bootstrap, fresh("open"))
    Publisher(broker.bootstrap).send(topic, [{"value": b"", "partition": 0}] * 2)
    producer = writer(broker)
    write(producer, topic, records=2)
    with pytest.raises(reader.DataLoss, match="ends at offset 2, but offset 3 was planned"):
        read(broker, topic, 0, 4, "read_committed", timeout_ms=0)
    producer.abort_transaction(TIMEOUT_S)
    assert read(broker, topic, 0, 4, "read_committed") == [0, 1]
