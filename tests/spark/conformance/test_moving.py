"""Between the connectors: a query goes on with the other one, and real-time mode is there on either broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.spark.conformance.columns import (
    OURS,
    SETTLE_S,
    STOCK,
    Collector,
    Column,
    finish,
    planned_offsets,
)
from tests.support.waiting import wait_until

RunQuery = Callable[[Any], Any]


@pytest.mark.stock
@pytest.mark.parametrize(("first", "second"), [(STOCK, OURS), (OURS, STOCK)], ids=["to-ours", "to-stock"])
def test_a_query_continues_with_the_other_connector(
    column: Column, seen: Collector, checkpoint: str, first: str, second: str
) -> None:
    topic = column.topic(2)
    for number, connector in enumerate((first, second, first)):
        for partition in range(2):
            column.publish(topic, [f"{number}"], partition=partition)
        here = Column(connector, column.bootstrap, column.spark)
        seen.drain(here.stream(subscribe=topic, startingOffsets="earliest"), checkpoint)
        assert seen.values() == [str(number)] * 2
    assert planned_offsets(checkpoint)[-1] == {topic: {"0": 3, "1": 3}}


@pytest.mark.stock
def test_a_topic_to_topic_query_continues_with_the_ottla_sink(
    column: Column, checkpoint: str, run_query: RunQuery
) -> None:
    source, target = column.topic(), column.topic()
    for number, connector in enumerate((STOCK, OURS)):
        column.publish(source, [str(number)])
        here = Column(connector, column.bootstrap, column.spark)
        stream = here.stream(subscribe=source, startingOffsets="earliest").select("value")
        finish(run_query(here.sink(stream, checkpoint, topic=target).trigger(availableNow=True)))
    assert [m.value() for m in column.stored(target)] == [b"0", b"1"]


@pytest.mark.stock
def test_real_time_mode(column: Column, checkpoint: str, run_query: RunQuery) -> None:
    source, target = column.topic(), column.topic()
    frame = column.stream(subscribe=source, startingOffsets="earliest").select("key", "value")
    writer = column.sink(frame, checkpoint, topic=target).outputMode("update")
    query = run_query(writer.trigger(realTime="5 minutes"))
    for number in range(3):
        column.publish(source, [str(number)])

        def arrived(count: int = number + 1) -> bool:
            assert query.exception() is None, query.exception()
            return len(column.stored(target)) >= count

        wait_until(arrived, "an event, long before the batch ends", SETTLE_S)
    assert [m.value() for m in column.stored(target)] == [b"0", b"1", b"2"]
