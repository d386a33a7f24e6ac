"""Small batches of a stream come with their plan: the same rows as a task would read, whatever their columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException

from ottla.spark.source.prefetch import OFFSETS_MAX

TIMEOUT_S = 180.0
TYPED = (
    "id BIGINT COMMENT 'of the order', name STRING, at TIMESTAMP, day DATE, tags ARRAY<STRING>, "
    "place STRUCT<row: INT, seats: ARRAY<INT>>, ratio DOUBLE, fits BOOLEAN, price DECIMAL(10, 2)"
)


class Seen:
    """The rows of each batch, and whether Spark had them when the topic had them no more."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._topic = topic
        self.rows: list[Any] = []
        self.was_handed: list[bool] = []

    def __call__(self, frame: Any, _: int) -> None:
        rows = frame.collect()
        self.rows += rows
        self._empty_topic()
        try:
            again = frame.collect()
        except PySparkException as error:
            assert "failOnDataLoss" in str(error)  # noqa: PT017 - both ways are right, for different batches
            self.was_handed.append(False)
        else:
            assert again == rows
            self.was_handed.append(True)

    def _empty_topic(self) -> None:
        partitions = self._admin.list_topics(self._topic).topics[self._topic].partitions
        ends = [TopicPartition(self._topic, number, OFFSET_END) for number in partitions]
        for future in self._admin.delete_records(ends).values():
            future.result(TIMEOUT_S)


@pytest.fixture
def watch(broker: Any) -> Callable[[str], Seen]:
    return lambda topic: Seen(broker.bootstrap, topic)


@pytest.fixture
def run(checkpoint: str) -> Callable[[Any, Seen], Any]:
    def start(frame: Any, seen: Any) -> Any:
        writer = frame.writeStream.foreachBatch(seen).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(TIMEOUT_S), "the query did not end"
        assert query.exception() is None
        return query

    return start


def typed(number: int) -> bytes:
    return json.dumps(
        {
            "id": number,
            "name": f"gr\u00fc\u00df {number}",
            "at": "2024-05-06T07:08:09.123Z",
            "day": "2024-01-02",
            "tags": ["x", None, "y"],
            "place": {"row": number, "seats": [1, 2]},
            "ratio": number / 7,
            "fits": number % 2 == 0,
            "price": "12.50",
        }
    ).encode()


VALUES = {
    "all columns": ({"includeHeaders": "true"}, [b"one", None, b"", b"\xff\x00"]),
    "text": ({"valueFormat": "string"}, ["gr\u00fc\u00df".encode(), None, b"\xff"]),
    "JSON": ({"valueFormat": "json", "valueSchema": TYPED}, [typed(1), typed(2), b"{", None, b"{}"]),
    "some columns": ({"columns": "offset as place, partition, topic, timestampType"}, [b"one"]),
}


@pytest.mark.parametrize("case", VALUES)
def test_rows_are_the_same_as_those_of_a_task(
    stream: Any, read: Any, send: Any, new_topic: Any, run: Any, watch: Any, case: str
) -> None:
    options, values = VALUES[case]
    topic = new_topic()
    headers = [("a", b"1"), ("b", None), ("a", b"")]
    send(topic, [{"key": b"key", "value": value, "headers": headers} for value in values])
    send(topic, [{"value": values[0]}])
    expected = read(subscribe=topic, **options).collect()
    assert len(expected) == len(values) + 1
    seen = watch(topic)
    query = run(stream(subscribe=topic, startingOffsets="earliest", **options), seen)
    assert seen.rows == expected
    assert seen.was_handed == [True]
    (source,) = query.lastProgress.sources
    assert json.loads(source.latestOffset) == {topic: {"0": len(expected)}}


def test_larger_batches_are_read_by_tasks(
    stream: Any, send: Any, new_topic: Any, run: Any, watch: Any
) -> None:
    topic = new_topic()
    send(topic, [{"value": b"%d" % number} for number in range(OFFSETS_MAX + 1)])
    seen = watch(topic)
    run(stream(subscribe=topic, startingOffsets="earliest"), seen)
    assert seen.was_handed == [False]
    assert len(seen.rows) == OFFSETS_MAX + 1


def test_several_partitions_are_read_by_several_tasks(
    stream: Any, send: Any, new_topic: Any, run: Any, watch: Any
) -> None:
    topic = new_topic(2)
    send(topic, [{"value": b"%d" % number, "partition": number} for number in range(2)])
    seen = watch(topic)
    run(stream(subscribe=topic, startingOffsets="earliest"), seen)
    assert seen.was_handed == [False]
    assert sorted(row.value for row in seen.rows) == [b"0", b"1"]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_record_that_is_too_large_is_read_by_a_task(
    stream: Any, broker: Any, new_topic: Any, run: Any, watch: Any, codec: str
) -> None:
    topic = new_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec})
    producer.produce(topic, b"x" * 500_000)
    assert not producer.flush(TIMEOUT_S)
    seen = watch(topic)
    run(stream(subscribe=topic, startingOffsets="earliest"), seen)
    assert seen.was_handed == [False]
    assert [len(row.value) for row in seen.rows] == [500_000]


def test_aborted_records_are_not_handed_over(
    stream: Any, broker: Any, new_topic: Any, run: Any, watch: Any
) -> None:
    topic = new_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for value, commit in (("no", False), ("yes", True), ("never", False)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    seen = watch(topic)
    run(
        stream(subscribe=topic, startingOffsets="earliest", kafka__isolation__level="read_committed"),
        seen,
    )
    assert seen.was_handed == [True]
    assert [row.value for row in seen.rows] == [b"yes"]
