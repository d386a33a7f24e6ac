"""`writeStream.format("ottla")`: exactly once, whatever dies in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException

from ottla.client.raw import ClientSettings, cluster_for
from ottla.client.raw.administering import list_open_transactions
from tests.spark.test_sink_batch import read_all
from tests.support.dying_sink import ORDERS_OPTION, STEPS, DyingDataSource

PARTITIONS = 2
LINES = 30


class Lines:
    """A directory of text files: every file is a batch of its own, its lines are the records."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.written: list[str] = []
        directory.mkdir()

    def add(self) -> None:
        number = len(self.written) // LINES
        lines = [f"{number}-{line}" for line in range(LINES)]
        hidden = self.directory / f".{number}"
        hidden.write_text("\n".join(lines))
        hidden.rename(self.directory / f"{number:04}.txt")
        self.written += lines


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return Lines(tmp_path / "lines")


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    directory = tmp_path / "orders"
    directory.mkdir()
    return directory


def copying(spark: Any, lines: Lines, broker: Any, topic: str, checkpoint: str, **options: str) -> Any:
    """A query from the files to the topic, in three tasks, which ends when there is nothing more."""
    source = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(lines.directory))
    writer = (
        source.repartition(3)
        .writeStream.format(options.pop("format", "ottla"))
        .trigger(availableNow=True)
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", checkpoint)
    )
    for name, value in options.items():
        writer = writer.option(name, value)
    return writer


def run(writer: Any) -> bool:
    """Whether the query came to its end."""
    try:
        return bool(writer.start().awaitTermination(120))
    except StreamingQueryException:
        return False


def values(broker: Any, topic: str) -> list[str]:
    return sorted((value or b"").decode() for _, _, value, _ in read_all(broker.bootstrap, topic, PARTITIONS))


def open_transactions(broker: Any, query: str = "ottla-sink.") -> dict[str, int]:
    cluster = cluster_for(ClientSettings.from_options({"bootstrap.servers": broker.bootstrap}))
    return list_open_transactions(cluster, query).producers


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_every_batch_arrives_once(
    spark: Any, broker: Any, new_topic: Callable[..., str], lines: Lines, checkpoint: str, guarantee: str
) -> None:
    topic = new_topic(PARTITIONS)
    for _ in range(2):
        lines.add()
        lines.add()
        assert run(copying(spark, lines, broker, topic, checkpoint, deliveryGuarantee=guarantee))
    assert values(broker, topic) == sorted(lines.written)
    assert open_transactions(broker) == {}


def test_a_driver_that_dies_at_every_step_of_a_commit(
    spark: Any, broker: Any, new_topic: Callable[..., str], lines: Lines, checkpoint: str, orders: Path
) -> None:
    spark.dataSource.register(DyingDataSource)
    topic = new_topic(PARTITIONS)
    options = {"format": "ottla_dying", ORDERS_OPTION: str(orders)}
    died = 0
    for step in range(STEPS):
        lines.add()
        order = orders / f"driver-{step}"
        order.touch()
        if run(copying(spark, lines, broker, topic, checkpoint, **options)):
            break
        died += 1
        assert not order.exists()
        assert run(copying(spark, lines, broker, topic, checkpoint, **options))
        assert values(broker, topic) == sorted(lines.written), f"after a death at step {step}"
    assert died >= 8, "a commit of three transactions has more steps than that"
    assert values(broker, topic) == sorted(lines.written)
    assert open_transactions(broker) == {}


@pytest.mark.parametrize("place", ["begin", "written"])
def test_a_task_that_dies_leaves_nothing_behind(
    spark: Any,
    broker: Any,
    new_topic: Callable[..., str],
    lines: Lines,
    checkpoint: str,
    orders: Path,
    place: str,
) -> None:
    spark.dataSource.register(DyingDataSource)
    topic = new_topic(PARTITIONS)
    options = {"format": "ottla_dying", ORDERS_OPTION: str(orders)}
    lines.add()
    order = orders / f"task-{place}"
    order.touch()
    assert run(copying(spark, lines, broker, topic, checkpoint, **options))
    assert not order.exists()
    assert values(broker, topic) == sorted(lines.written)
    assert open_transactions(broker) == {}


def test_committed_records_are_not_hidden_by_what_others_write(
    spark: Any, broker: Any, new_topic: Callable[..., str], lines: Lines, checkpoint: str
) -> None:
    topic = new_topic(PARTITIONS)
    lines.add()
    assert run(copying(spark, lines, broker, topic, checkpoint))
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"another", partition=0)
    assert producer.flush(30) == 0
    assert values(broker, topic) == sorted([*lines.written, "another"])
