"""`writeStream.format("ottla")`: exactly once, whatever dies in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException

from tests.support.dying_sink import ORDERS_OPTION, STEPS, DyingDataSource
from tests.support.sink_queries import LINES, Lines, committed_values, copying, open_transactions
from tests.support.waiting import wait_until

PARTITIONS = 2
PREPARED_STEP = 2
"""Steps of a commit: the commit log is read; prepared is about to be recorded; it is recorded; one is committed ..."""


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return Lines(tmp_path / "lines")


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    directory = tmp_path / "orders"
    directory.mkdir()
    return directory


def until_done(spark: Any, lines: Lines, broker: Any, topic: str, checkpoint: str, **options: str) -> Any:
    """A query that ends when there is nothing more."""
    writer = copying(spark, lines.directory, broker.bootstrap, topic, checkpoint, **options)
    return writer.trigger(availableNow=True)


def run(writer: Any) -> bool:
    """Whether the query came to its end."""
    try:
        return bool(writer.start().awaitTermination(180))
    except StreamingQueryException:
        return False


def values(broker: Any, topic: str) -> list[str]:
    return committed_values(broker.bootstrap, topic, PARTITIONS)


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_every_batch_arrives_once(
    spark: Any, broker: Any, new_topic: Callable[..., str], lines: Lines, checkpoint: str, guarantee: str
) -> None:
    topic = new_topic(PARTITIONS)
    for _ in range(2):
        lines.add()
        lines.add()
        assert run(until_done(spark, lines, broker, topic, checkpoint, deliveryGuarantee=guarantee))
    assert values(broker, topic) == sorted(lines.written)
    assert open_transactions(broker.bootstrap) == []


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
        if run(until_done(spark, lines, broker, topic, checkpoint, **options)):
            break
        died += 1
        assert not order.exists()
        assert run(until_done(spark, lines, broker, topic, checkpoint, **options))
        assert values(broker, topic) == sorted(lines.written), f"after a death at step {step}"
    assert died >= 8, "a commit of three transactions has more steps than that"
    assert values(broker, topic) == sorted(lines.written)
    assert open_transactions(broker.bootstrap) == []


@pytest.mark.parametrize("place", ["begin", "written"])
def test_a_task_that_is_killed_leaves_no_records(
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
    assert run(until_done(spark, lines, broker, topic, checkpoint, **options))
    assert not order.exists()
    assert values(broker, topic) == sorted(lines.written)
    assert open_transactions(broker.bootstrap) == []


def test_a_batch_that_timed_out_before_its_first_commit_is_written_again(
    spark: Any, broker: Any, new_topic: Callable[..., str], lines: Lines, checkpoint: str, orders: Path
) -> None:
    spark.dataSource.register(DyingDataSource)
    topic = new_topic(PARTITIONS)
    lines.add()
    assert run(until_done(spark, lines, broker, topic, checkpoint, **_patient(orders)))
    first = values(broker, topic)
    lines.add()
    (orders / f"driver-{PREPARED_STEP}").touch()
    assert not run(until_done(spark, lines, broker, topic, checkpoint, **_short_lived(orders)))
    assert len(open_transactions(broker.bootstrap)) == 3, "what is prepared is not aborted by a failed commit"
    wait_until(lambda: not open_transactions(broker.bootstrap), "the transactions to time out", 60)
    assert values(broker, topic) == first
    assert run(until_done(spark, lines, broker, topic, checkpoint, **_short_lived(orders)))
    assert values(broker, topic) == sorted(lines.written)


def test_a_batch_with_timed_out_transactions_is_reported_and_can_be_repaired(
    spark: Any, broker: Any, new_topic: Callable[..., str], lines: Lines, checkpoint: str, orders: Path
) -> None:
    spark.dataSource.register(DyingDataSource)
    topic = new_topic(PARTITIONS)
    lines.add()
    assert run(until_done(spark, lines, broker, topic, checkpoint, **_patient(orders)))
    lines.add()
    (orders / f"driver-{PREPARED_STEP + 1}").touch()
    assert not run(until_done(spark, lines, broker, topic, checkpoint, **_short_lived(orders)))
    wait_until(lambda: not open_transactions(broker.bootstrap), "the transactions to time out", 60)
    torn = values(broker, topic)
    assert LINES < len(torn) < len(lines.written)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="batch 1 is committed, except for 2 of its 3"):
            until_done(spark, lines, broker, topic, checkpoint).start().awaitTermination(180)
        assert values(broker, topic) == torn
    assert run(until_done(spark, lines, broker, topic, checkpoint, deliveryGuarantee="at-least-once"))
    assert values(broker, topic) == sorted(torn + lines.written[LINES:])
    lines.add()
    assert run(until_done(spark, lines, broker, topic, checkpoint))
    assert values(broker, topic) == sorted(torn + lines.written[LINES:])


def _patient(orders: Path) -> dict[str, str]:
    """For a first batch, during which half a dozen processes start."""
    return {"format": "ottla_dying", ORDERS_OPTION: str(orders)}


def _short_lived(orders: Path) -> dict[str, str]:
    return {**_patient(orders), "kafka.transaction.timeout.ms": "12000"}


def test_a_timeout_that_brokers_do_not_allow_is_reported(
    spark: Any, broker: Any, new_topic: Callable[..., str], lines: Lines, checkpoint: str
) -> None:
    lines.add()
    options = {"kafka.transaction.timeout.ms": "900001"}
    with pytest.raises(
        StreamingQueryException, match=r"more than transaction\.max\.timeout\.ms of the brokers"
    ):
        until_done(spark, lines, broker, new_topic(1), checkpoint, **options).start().awaitTermination(180)


def test_committed_records_are_not_hidden_by_what_others_write(
    spark: Any, broker: Any, new_topic: Callable[..., str], lines: Lines, checkpoint: str
) -> None:
    topic = new_topic(PARTITIONS)
    lines.add()
    assert run(until_done(spark, lines, broker, topic, checkpoint))
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"another", partition=0)
    assert producer.flush(30) == 0
    assert values(broker, topic) == sorted([*lines.written, "another"])
