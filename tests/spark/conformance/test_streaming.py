"""Streaming: where a query begins, how much a batch takes, what a restart goes on with, and what a sink does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conformance.columns import (
    SETTLE_S,
    Collector,
    Column,
    batch_sizes,
    finish,
    planned_offsets,
)
from tests.support.waiting import wait_until

RunQuery = Callable[[Any], Any]


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last)]


def test_all_that_is_there_and_then_the_end(column: Column, seen: Collector, checkpoint: str) -> None:
    topic = column.topic(2)
    for partition in range(2):
        column.publish(topic, numbers(0, 5), partition=partition)
    seen.drain(column.stream(subscribe=topic, startingOffsets="earliest"), checkpoint)
    assert seen.values() == numbers(0, 5) * 2
    assert planned_offsets(checkpoint) == [{topic: {"0": 5, "1": 5}}]


def test_a_restart_continues_at_the_end_of_the_checkpoint(
    column: Column, seen: Collector, checkpoint: str
) -> None:
    topic = column.topic()
    column.publish(topic, numbers(0, 3))
    seen.drain(column.stream(subscribe=topic, startingOffsets="earliest"), checkpoint)
    column.publish(topic, numbers(3, 5))
    seen.drain(column.stream(subscribe=topic, startingOffsets={topic: {"0": 0}}), checkpoint)
    assert planned_offsets(checkpoint)[-1] == {topic: {"0": 5}}
    assert seen.values() == numbers(3, 5), "what the checkpoint has is not read again"


def test_a_new_query_begins_at_the_end(column: Column, seen: Collector, checkpoint: str) -> None:
    topic = column.topic()
    column.publish(topic, ["before"])
    query = seen.start(column.stream(subscribe=topic), checkpoint)
    wait_until(lambda: _has_begun(checkpoint), "the first offsets", SETTLE_S)
    query.processAllAvailable()
    column.publish(topic, ["after"])
    seen.wait_for(query, ["after"])


def _has_begun(checkpoint: str) -> bool:
    """Whether a query has settled where it begins; Spark's own connector keeps that in a file of its own."""
    return bool(planned_offsets(checkpoint)) or Path(checkpoint, "sources").exists()


def test_offsets_say_where_a_query_begins(column: Column, seen: Collector, checkpoint: str) -> None:
    topic = column.topic(3)
    for partition in range(3):
        column.publish(topic, numbers(0, 4), partition=partition)
    start = {topic: {"0": 3, "1": -2, "2": -1}}
    seen.drain(column.stream(subscribe=topic, startingOffsets=start), checkpoint)
    assert seen.values() == [*numbers(3, 4), *numbers(0, 4)]


def test_a_timestamp_selects_the_start_of_a_query(column: Column, seen: Collector, checkpoint: str) -> None:
    topic = column.topic()
    moment = 1_700_000_000_000
    column.send(topic, [{"value": str(n), "timestamp": moment + n, "partition": 0} for n in range(6)])
    seen.drain(column.stream(subscribe=topic, startingTimestamp=moment + 4), checkpoint)
    assert seen.values() == numbers(4, 6)


def test_a_batch_takes_no_more_than_its_limit(column: Column, seen: Collector, checkpoint: str) -> None:
    topic = column.topic(2)
    for partition in range(2):
        column.publish(topic, numbers(0, 10), partition=partition)
    stream = column.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="6")
    query = seen.drain(stream, checkpoint)
    assert seen.values() == numbers(0, 10) * 2
    sizes = batch_sizes(query)
    assert len(sizes) >= 4
    assert max(sizes) <= 7, "shares of partitions may be rounded up"


def test_a_batch_waits_for_enough(column: Column, seen: Collector, checkpoint: str) -> None:
    topic = column.topic()
    column.publish(topic, ["first"])
    stream = column.stream(
        subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="10m"
    )
    query = seen.start(stream, checkpoint)
    seen.wait_for(query, ["first"])
    column.publish(topic, numbers(0, 3))
    query.processAllAvailable()
    assert seen.values() == ["first"], "three are not enough"
    column.publish(topic, numbers(3, 6))
    seen.wait_for(query, ["first", *numbers(0, 6)])


@pytest.mark.parametrize(("start", "old"), [("earliest", ["old"]), ("latest", [])])
def test_new_partitions_are_read_from_their_beginning(
    column: Column, seen: Collector, checkpoint: str, start: str, old: list[str]
) -> None:
    topic = column.topic(1)
    column.publish(topic, ["old"])
    options = {"subscribe": topic, "startingOffsets": start, "kafka__metadata__max__age__ms": "500"}
    query = seen.start(column.stream(**options), checkpoint)
    wait_until(lambda: _has_begun(checkpoint), "the first offsets", SETTLE_S)
    query.processAllAvailable()
    seen.wait_for(query, old)
    column.add_partitions(topic, 2)
    column.publish(topic, ["new"], partition=1)
    seen.wait_for(query, [*old, "new"])


def test_new_topics_of_a_pattern_are_read(column: Column, seen: Collector, checkpoint: str) -> None:
    first = column.topic(name="grow-a")
    unique = first.removeprefix("grow-a-")
    column.publish(first, ["old"])
    options = {"startingOffsets": "earliest", "kafka__metadata__max__age__ms": "500"}
    stream = column.stream(subscribePattern=f"grow-.-{unique}.*", **options)
    query = seen.start(stream, checkpoint)
    seen.wait_for(query, ["old"])
    second = column.topic(name=f"grow-b-{unique}")
    column.publish(second, ["new"])
    seen.wait_for(query, ["old", "new"])


def test_records_deleted_before_they_were_read(
    column: Column, seen: Collector, checkpoint: str, run_query: RunQuery
) -> None:
    topic = column.topic()
    column.publish(topic, numbers(0, 3))
    seen.drain(column.stream(subscribe=topic, startingOffsets="earliest"), checkpoint)
    column.publish(topic, numbers(3, 10))
    column.delete_below(topic, 6)
    failing = seen.start(column.stream(subscribe=topic), checkpoint, availableNow=True)
    with pytest.raises(Exception, match=r"(?i)data may have been lost"):
        finish(failing)
    seen.drain(column.stream(subscribe=topic, failOnDataLoss="false"), checkpoint)
    assert seen.values() == numbers(6, 10)


def test_markers_and_aborted_records_are_no_data_loss(
    column: Column, seen: Collector, checkpoint: str
) -> None:
    topic = column.topic()
    column.transaction(topic, ["a", "b"], commit=True)
    column.transaction(topic, ["never"], commit=False)
    column.transaction(topic, ["c"], commit=True)
    options = {"kafka__isolation__level": "read_committed", "maxOffsetsPerTrigger": "2"}
    stream = column.stream(subscribe=topic, startingOffsets="earliest", **options)
    seen.drain(stream, checkpoint)
    assert seen.values() == ["a", "b", "c"]
    assert planned_offsets(checkpoint)[-1] == {topic: {"0": 7}}


def test_progress_names_offsets_as_the_checkpoint_does(
    column: Column, seen: Collector, checkpoint: str
) -> None:
    topic = column.topic(2)
    column.publish(topic, numbers(0, 4), partition=1)
    seen.drain(column.stream(subscribe=topic, startingOffsets="earliest"), checkpoint)
    column.publish(topic, numbers(0, 4), partition=0)
    query = seen.drain(column.stream(subscribe=topic), checkpoint)
    (source,) = next(p for p in query.recentProgress if p.numInputRows).sources
    assert json.loads(source.startOffset) == {topic: {"0": 0, "1": 4}}
    assert json.loads(source.endOffset) == {topic: {"0": 4, "1": 4}}
    assert json.loads(source.latestOffset) == {topic: {"0": 4, "1": 4}}
    assert source.numInputRows == 4


def test_from_topic_to_topic(column: Column, checkpoint: str, run_query: RunQuery) -> None:
    source, target = column.topic(2), column.topic(2)
    upper = "CAST(upper(CAST(value AS STRING)) AS BINARY) AS value"
    for round_number in range(2):
        for partition in range(2):
            column.publish(
                source, [f"r{round_number}p{partition}n{n}" for n in range(50)], partition=partition
            )
        stream = column.stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="40")
        frame = stream.selectExpr("key", upper, "partition")
        finish(run_query(column.sink(frame, checkpoint, topic=target).trigger(availableNow=True)))
    for partition in range(2):
        expected = [f"R{r}P{partition}N{n}".encode() for r in range(2) for n in range(50)]
        assert [m.value() for m in column.stored(target, partition)] == expected


def test_the_topic_of_each_row_of_a_stream(column: Column, checkpoint: str, run_query: RunQuery) -> None:
    source, one, two = column.topic(), column.topic(), column.topic()
    column.publish(source, numbers(0, 6))
    frame = column.stream(subscribe=source, startingOffsets="earliest").selectExpr(
        f"CASE WHEN offset % 2 = 0 THEN '{one}' ELSE '{two}' END AS topic",
        "value",
        "array(struct('origin' AS key, CAST(topic AS BINARY) AS value)) AS headers",
    )
    finish(run_query(column.sink(frame, checkpoint, includeHeaders="true").trigger(availableNow=True)))
    assert [m.value() for m in column.stored(one)] == [b"0", b"2", b"4"]
    assert [m.value() for m in column.stored(two)] == [b"1", b"3", b"5"]
    assert column.stored(two)[0].headers() == [("origin", source.encode())]


def test_state_per_key_survives_a_restart(column: Column, checkpoint: str, run_query: RunQuery) -> None:
    source, target = column.topic(2), column.topic()
    for round_number in range(2):
        column.send(source, [{"key": f"k{n % 3}", "value": "1"} for n in range(30)])
        stream = column.stream(subscribe=source, startingOffsets="earliest")
        counts = stream.selectExpr("CAST(key AS STRING) AS key").groupBy("key").count()
        frame = counts.selectExpr("key", "CAST(count AS STRING) AS value")
        writer = column.update_sink(frame, checkpoint, topic=target)
        finish(run_query(writer.trigger(availableNow=True)))
        last = {m.key(): m.value() for m in column.stored(target)}
        expected = str(10 * (round_number + 1)).encode()
        assert last == {b"k0": expected, b"k1": expected, b"k2": expected}


REFUSED: list[tuple[str, Callable[[str], dict[str, object]], str]] = [
    ("ending-offsets", lambda topic: {"endingOffsets": "latest"}, "ending"),
    ("ending-offsets-by-timestamp", lambda topic: {"endingOffsetsByTimestamp": {topic: {"0": 1}}}, "ending"),
    (
        "min-above-max",
        lambda topic: {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "1"},
        "OffsetsPerTrigger",
    ),
    ("delay-of-no-time", lambda topic: {"maxTriggerDelay": "soon"}, "must be (specified|a duration)"),
    ("offsets-of-another", lambda topic: {"startingOffsets": {"other": {"0": 1}}}, "partitions"),
    ("auto-reset", lambda topic: {"kafka__auto__offset__reset": "earliest"}, "auto.offset.reset"),
]


@pytest.mark.parametrize(("options", "word"), [pytest.param(o, w, id=name) for name, o, w in REFUSED])
def test_what_a_stream_cannot_mean_is_refused(
    column: Column,
    seen: Collector,
    checkpoint: str,
    options: Callable[[str], dict[str, object]],
    word: str,
) -> None:
    topic = column.topic()
    with pytest.raises(Exception, match=f"(?i){word}") as raised:
        seen.drain(column.stream(subscribe=topic, **options(topic)), checkpoint)
    assert "During handling of the above" not in str(raised.value), "the message has one cause"


def test_a_stream_needs_a_topic_to_write_to(column: Column, checkpoint: str, run_query: RunQuery) -> None:
    topic = column.topic()
    column.publish(topic, ["x"])
    frame = column.stream(subscribe=topic, startingOffsets="earliest").select("value")
    with pytest.raises(Exception, match=r"topic option required when no 'topic' attribute is present"):
        finish(run_query(column.sink(frame, checkpoint).trigger(availableNow=True)))
