"""What only the data source `ottla` offers, on either broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.spark.conformance.columns import Collector, Column, finish, values_of
from tests.support.clients import TIMEOUT_S, fresh
from tests.support.waiting import wait_until

pytestmark = pytest.mark.ours

RunQuery = Callable[[Any], Any]


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last)]


def committed_offsets(column: Column, group: str, topic: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": column.bootstrap})
    answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(TIMEOUT_S)
    return {place.partition: place.offset for place in answer.topic_partitions if place.topic == topic}


def commit(column: Column, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": column.bootstrap, "group.id": group})

    def committed() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_COORDINATOR:
                raise
            return False  # a coordinator that is new is still loading
        return True

    wait_until(committed, "the commit of an offset")
    consumer.close()


def test_a_read_from_where_a_group_stands(column: Column) -> None:
    topic, group = column.topic(), fresh("group")
    column.publish(topic, numbers(0, 6))
    commit(column, group, topic, 4)
    frame = column.read(subscribe=topic, startingOffsets="committed", kafka__group__id=group)
    assert values_of(frame) == numbers(4, 6)


def test_a_read_of_the_last_records(column: Column) -> None:
    topic = column.topic(2)
    for partition in range(2):
        column.publish(topic, numbers(0, 6), partition=partition)
    assert values_of(column.read(subscribe=topic, startingOffsets="-3")) == ["3", "4", "5"] * 2


def test_a_read_up_to_the_last_records(column: Column) -> None:
    topic = column.topic()
    column.publish(topic, numbers(0, 6))
    assert values_of(column.read(subscribe=topic, endingOffsets="-4")) == numbers(0, 2)


def test_a_table_needs_its_options_in_each_query(column: Column) -> None:
    """Spark does not pass the options of CREATE TABLE to a source in Python; a view has them."""
    topic = column.topic()
    column.publish(topic, numbers(0, 4))
    options = f"'kafka.bootstrap.servers' = '{column.bootstrap}', subscribe = '{topic}'"
    column.spark.sql(f"CREATE TABLE conform_table USING ottla OPTIONS ({options})")
    try:
        with pytest.raises(Exception, match="use CREATE TEMPORARY VIEW"):
            column.spark.sql("SELECT count(*) FROM conform_table").collect()
        counted = column.spark.sql(f"SELECT count(*) FROM conform_table WITH ({options})")  # noqa: S608 - our own text
        assert counted.first()[0] == 4
    finally:
        column.spark.sql("DROP TABLE conform_table")


def test_a_read_of_the_last_minutes(column: Column) -> None:
    topic = column.topic()
    column.publish(topic, ["long ago"], timestamp=1_700_000_000_000)
    column.publish(topic, ["just now"])
    assert values_of(column.read(subscribe=topic, startingOffsets="-10 minutes")) == ["just now"]


def test_fewer_columns(column: Column) -> None:
    topic = column.topic()
    column.publish(topic, ["x"])
    frame = column.read(subscribe=topic, columns="value, offset as place")
    assert frame.columns == ["value", "place"]
    assert [tuple(row) for row in frame.collect()] == [(bytearray(b"x"), 0)]


def test_typed_values(column: Column) -> None:
    topic = column.topic()
    column.publish(topic, ['{"id": 1, "name": "a"}', "no json", '{"id": 2}'])
    frame = column.read(subscribe=topic, valueFormat="json", valueSchema="id BIGINT, name STRING")
    rows = frame.orderBy("offset").select("id", "name", "_corrupt").collect()
    assert [tuple(row) for row in rows] == [
        (1, "a", None),
        (None, None, bytearray(b"no json")),
        (2, None, None),
    ]


def test_a_streams_progress_is_a_groups(column: Column, seen: Collector, checkpoint: str) -> None:
    topic, group = column.topic(2), fresh("group")
    for partition in range(2):
        column.publish(topic, numbers(0, 5), partition=partition)
    stream = column.stream(subscribe=topic, startingOffsets="earliest", kafka__group__id=group)
    query = seen.start(stream, checkpoint)
    query.processAllAvailable()
    column.publish(topic, ["more"])
    query.processAllAvailable()
    assert committed_offsets(column, group, topic) == {0: 6, 1: 5}


def test_a_stream_writes_transactions_by_itself(column: Column, checkpoint: str, run_query: RunQuery) -> None:
    source, target = column.topic(), column.topic()
    column.publish(source, numbers(0, 20))
    stream = column.stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="7")
    finish(
        run_query(column.sink(stream.select("value"), checkpoint, topic=target).trigger(availableNow=True))
    )
    assert [m.value().decode() for m in column.stored(target)] == numbers(0, 20)
    last = column.stored(target)[-1]
    consumer = Consumer({"bootstrap.servers": column.bootstrap, "group.id": "unused"})
    end = consumer.get_watermark_offsets(TopicPartition(target, 0), TIMEOUT_S)[1]
    consumer.close()
    assert end == last.offset() + 2, "a commit marker follows the last record"


def test_what_a_repeated_batch_wrote_is_there_once(
    column: Column, checkpoint: str, run_query: RunQuery
) -> None:
    """A driver that died after its commit and before Spark's: Spark runs the batch again."""
    source, target = column.topic(), column.topic()
    column.publish(source, numbers(0, 10))

    def run() -> None:
        stream = column.stream(subscribe=source, startingOffsets="earliest").select("value")
        finish(run_query(column.sink(stream, checkpoint, topic=target).trigger(availableNow=True)))

    run()
    _forget_last_commit(checkpoint)
    column.publish(source, numbers(10, 12))
    run()
    assert [m.value().decode() for m in column.stored(target)] == numbers(0, 12)


def _forget_last_commit(checkpoint: str) -> None:
    commits = sorted(Path(checkpoint, "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
        path.unlink(missing_ok=True)
