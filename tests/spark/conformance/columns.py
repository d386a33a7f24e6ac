"""One column of the suite: a connector on a broker, and the few calls that its tests repeat.

A test says what must be seen and never which connector it speaks to: the format's name is the only difference
between `ottla` and Spark's own connector, as it is in a user's code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.support.clients import TIMEOUT_S, Publisher, create_topic, fresh
from tests.support.waiting import wait_until

OURS, STOCK = "ottla", "kafka"
"""The two formats: ours, and Spark's own connector in the JVM."""

COLUMNS = (
    pytest.param((OURS, "ottla"), id="ottla-on-ottla"),
    pytest.param((OURS, "kafka"), id="ottla-on-kafka", marks=pytest.mark.compat),
    pytest.param((STOCK, "ottla"), id="jvm-on-ottla", marks=[pytest.mark.compat, pytest.mark.jvm_connector]),
    pytest.param((STOCK, "kafka"), id="jvm-on-kafka", marks=[pytest.mark.compat, pytest.mark.jvm_connector]),
)
OUR_COLUMNS = tuple(column for column in COLUMNS if column.values[0][0] == OURS)
STOCK_COLUMNS = tuple(column for column in COLUMNS if column.values[0][0] == STOCK)

SETTLE_S = 180.0
"""A first micro-batch on a busy machine: six Python processes start for it, one after the other."""


@dataclass
class Column:
    """A connector, a broker, and Spark between them."""

    format: str
    bootstrap: str
    spark: Any

    @property
    def ours(self) -> bool:
        return self.format == OURS

    # -- the broker's side

    def topic(self, partitions: int = 1, *, name: str = "conform", **config: str) -> str:
        """A new topic; it keeps records however old their timestamps say they are."""
        settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in config.items()}
        return create_topic(self.bootstrap, fresh(name), partitions, settings)

    def publish(
        self, topic: str, values: Iterable[str | bytes], *, partition: int = 0, **record: Any
    ) -> None:
        self.send(topic, [{"value": value, "partition": partition, **record} for value in values])

    def send(self, topic: str, records: Iterable[dict[str, object]], **settings: object) -> None:
        Publisher(self.bootstrap, settings).send(topic, records)

    def transaction(self, topic: str, values: Iterable[str], *, commit: bool) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": fresh("writer")})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT_S)

    def delete_below(self, topic: str, offset: int) -> None:
        """Deletes the records of partition 0 below an offset, as retention would."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
            assert future.result(TIMEOUT_S).low_watermark == offset

    def add_partitions(self, topic: str, total: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_partitions([NewPartitions(topic, total)]).values():
            future.result(TIMEOUT_S)

    def stored(self, topic: str, partition: int = 0) -> list[Message]:
        """What was committed to a partition: markers of transactions take offsets but are no records."""
        return committed(self.bootstrap, topic, partition)

    # -- Spark's side

    def read(self, **options: object) -> Any:
        """A batch DataFrame; a dot in an option's name is written as two underscores."""
        return self._with(self.spark.read.format(self.format), options).load()

    def stream(self, **options: object) -> Any:
        return self._with(self.spark.readStream.format(self.format), options).load()

    def write(self, frame: Any, mode: str = "append", **options: object) -> None:
        self._with(frame.write.format(self.format), options).mode(mode).save()

    def sink(self, frame: Any, checkpoint: str, **options: object) -> Any:
        """A stream writer into this column's broker, not started."""
        writer = self._with(frame.writeStream.format(self.format), options)
        return writer.option("checkpointLocation", checkpoint)

    def update_sink(self, frame: Any, checkpoint: str, **options: object) -> Any:
        """The same in output mode update: Spark takes that from its own connectors only, so that ours is reached by
        `foreachBatch`. The one place where a user writes something else.
        """
        if not self.ours:
            return self.sink(frame, checkpoint, **options).outputMode("update")
        from ottla.spark.updates import updates

        given = {"kafka.bootstrap.servers": self.bootstrap}
        given |= {name.replace("__", "."): _option(value) for name, value in options.items()}
        writer = frame.writeStream.outputMode("update").foreachBatch(updates(given))
        return writer.option("checkpointLocation", checkpoint)

    def _with(self, side: Any, options: dict[str, object]) -> Any:
        side = side.option("kafka.bootstrap.servers", self.bootstrap)
        for name, value in options.items():
            side = side.option(name.replace("__", "."), _option(value))
        return side

    def frame(self, rows: list[tuple[Any, ...]], schema: str) -> Any:
        return self.spark.createDataFrame(rows, schema).coalesce(1)


def committed(bootstrap: str, topic: str, partition: int) -> list[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Message] = []
    try:
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"the end of {topic}-{partition} was not reached"
            if message.error() is None:
                found.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(message.error())
    finally:
        consumer.close()


def _option(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict | bool) else str(value)


def values_of(frame: Any) -> list[str]:
    """The values in the order of topic, partition and offset."""
    rows = sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))
    return [bytes(row.value).decode() for row in rows]


class Collector:
    """Keeps which values the last query gave, in order. Appended to by Spark's callback thread, read by the test's."""

    def __init__(self, run_query: Callable[[Any], Any]) -> None:
        self._run = run_query
        self._rows: list[Any] = []

    def start(self, stream: Any, checkpoint: str, **trigger: object) -> Any:
        """Starts a query; without a trigger it runs on and on."""
        kept = self._rows = []
        frame = stream.selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS value")
        writer = frame.writeStream.foreachBatch(lambda batch, _: kept.extend(batch.collect()))
        writer = writer.option("checkpointLocation", checkpoint)
        return self._run(writer.trigger(**trigger) if trigger else writer)

    def drain(self, stream: Any, checkpoint: str) -> Any:
        """Reads what is there, and ends."""
        query = self.start(stream, checkpoint, availableNow=True)
        finish(query)
        return query

    def values(self) -> list[str]:
        rows = sorted(self._rows, key=lambda row: (row.topic, row.partition, row.offset))
        return [row.value for row in rows]

    def wait_for(self, query: Any, expected: list[str]) -> None:
        def there() -> bool:
            if query.exception() is not None:
                raise AssertionError(f"the query has ended: {query.exception()}")
            return len(self.values()) >= len(expected)

        wait_until(there, f"{len(expected)} rows", SETTLE_S)
        assert self.values() == expected


def finish(query: Any) -> None:
    """Waits until a query that ends by itself has ended well."""
    assert query.awaitTermination(SETTLE_S), "the query did not end"
    if query.exception() is not None:
        raise query.exception()


def batch_sizes(query: Any) -> list[int]:
    """Rows of the batches that had any."""
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def planned_offsets(checkpoint: str) -> list[dict[str, dict[str, int]]]:
    """The offsets of the only source, batch by batch, as the checkpoint holds them."""
    files = sorted(
        (path for path in Path(checkpoint, "offsets").glob("[0-9]*")), key=lambda path: int(path.name)
    )
    return [json.loads(path.read_text().splitlines()[-1]) for path in files]
