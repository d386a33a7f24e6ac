"""Flows on Spark: the scoreboard by its rules, changes told once, tables, either connector's columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.base.clock import SystemClock
from ottla.base.errors import LocalError
from ottla.pipelines import Pipeline, table, topic
from ottla.pipelines.connectors import Connector, packed, typed
from ottla.pipelines.flow_run import FlowRun, RunOptions
from ottla.pipelines.topics import create_missing
from tests.conftest import MakeBroker
from tests.support import scoreboard as judge
from tests.support.clients import Publisher
from tests.support.waiting import wait_until

Run = Callable[[Pipeline, str], list[FlowRun]]


@pytest.fixture
def run(spark: Any, tmp_path: Path) -> Run:
    """A triggered run of a pipeline in the session of the tests."""

    def runs(pipeline: Pipeline, bootstrap: str) -> list[FlowRun]:
        options = RunOptions(
            bootstrap=bootstrap,
            state=tmp_path,
            connector=Connector("ottla", bootstrap),
            checkpoints=str(tmp_path / "checkpoints"),
            tables=str(tmp_path / "tables"),
            once=True,
            restarts_max=0,
        )
        create_missing(bootstrap, pipeline.topics().values(), {})
        done = []
        for flow in pipeline.in_order():
            under_way = FlowRun(pipeline.name, flow, options)
            under_way.start(spark, 0.0)
            wait_until(lambda one=under_way: one.look(0.0), f"the end of {flow.name}", 240)  # type: ignore[misc]
            done.append(under_way)
        return done

    return runs


@pytest.mark.slow
def test_the_scoreboard_follows_its_rules_over_several_runs(
    run: Run, make_broker: MakeBroker, tmp_path: Path
) -> None:
    from ottla.pipelines.scoreboard import pipeline

    broker = make_broker()
    create_missing(broker.bootstrap, pipeline.topics().values(), {})
    arrived = judge.arrivals(4, SystemClock().now_ms())
    for part in (arrived[:300], arrived[300:]):
        judge.send(broker.bootstrap, part)
        done = run(pipeline, broker.bootstrap)
        assert {each.flow.name: each.progress.error for each in done} == dict.fromkeys(pipeline.flows)
    standings, statistics = judge.expected(broker.bootstrap)
    assert judge.shown(broker.bootstrap) == standings
    assert judge.figures(broker.bootstrap) == statistics
    place = str(tmp_path / "tables" / "scoreboard")
    assert judge.table(place) == {match: each for (match, _), each in standings.items()}


@pytest.mark.slow
def test_events_of_a_clock_gone_wrong_do_not_close_the_matches(run: Run, make_broker: MakeBroker) -> None:
    from ottla.pipelines.scoreboard import MATCHES, SCOREBOARD, scoreboard

    pipeline = Pipeline("guard")
    pipeline.flow(reads=MATCHES, writes=SCOREBOARD, mode="update")(scoreboard)
    broker, now_ms = make_broker(), SystemClock().now_ms()
    create_missing(broker.bootstrap, pipeline.topics().values(), {})
    judge.send(broker.bootstrap, judge.arrivals(1, now_ms + 400 * 86_400_000)[:5])
    run(pipeline, broker.bootstrap)
    judge.send(broker.bootstrap, judge.arrivals(2, now_ms))
    run(pipeline, broker.bootstrap)
    assert {started_ms for _, started_ms in judge.shown(broker.bootstrap)} == {now_ms}


@pytest.mark.slow
def test_a_change_is_told_once_though_its_batch_is_repeated(
    spark: Any, broker: Any, new_topic: Any, checkpoint: str
) -> None:
    """The driver fails after the commit and before Spark has noted it: the batch comes again."""
    from ottla.spark.updates import updates

    source, target = new_topic(2), new_topic(2)
    Publisher(broker.bootstrap).send(source, [{"key": str(n % 5), "value": "x"} for n in range(50)])
    servers = {"kafka.bootstrap.servers": broker.bootstrap}
    counted = (
        spark.readStream.format("ottla")
        .options(**servers, subscribe=source, startingOffsets="earliest")
        .load()
        .groupBy("key")
        .count()
        .selectExpr("key", "cast(count AS string) AS value")
    )
    told = updates({**servers, "topic": target})
    tried = []

    def write(batch: Any, number: int) -> None:
        told(batch, number)
        tried.append(number)
        if len(tried) == 1:
            raise RuntimeError("killed")

    def query() -> Any:
        writer = counted.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
        return writer.trigger(availableNow=True).foreachBatch(write).start()

    with pytest.raises(Exception, match="killed"):
        query().awaitTermination()
    query().awaitTermination()
    assert tried == [0, 0]
    found = sorted((each.key(), each.value()) for each in judge.committed(broker.bootstrap, target))
    assert found == [(str(n).encode(), b"10") for n in range(5)]


def test_rows_are_added_to_a_parquet_table_once(
    run: Run, spark: Any, broker: Any, new_topic: Any, tmp_path: Path
) -> None:
    source = new_topic()
    pipeline = Pipeline("words")

    @pipeline.flow(reads=topic(source, schema="word STRING"), writes=table("words"))
    def words(frame: Any) -> Any:
        return frame.select("word", "offset")

    for part in ("ab", "c"):
        Publisher(broker.bootstrap).send(source, [{"value": json.dumps({"word": word})} for word in part])
        run(pipeline, broker.bootstrap)
    run(pipeline, broker.bootstrap)
    rows = spark.read.parquet(str(tmp_path / "tables" / "words")).collect()
    assert sorted(tuple(row) for row in rows) == [("a", 0), ("b", 1), ("c", 2)]


def records(spark: Any, *values: bytes) -> Any:
    """A frame as Spark's own connector makes them."""
    schema = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG"
    schema += ", timestamp TIMESTAMP, timestampType INT"
    return spark.createDataFrame([(b"k", value, "t", 0, 0, None, 0) for value in values], schema)


def test_typed_columns_are_the_same_through_either_connector(spark: Any, broker: Any, new_topic: Any) -> None:
    schema = "word STRING, count BIGINT, at STRUCT<x: INT>"
    source = new_topic()
    values = [b'{"word":"a","count":1,"at":{"x":2}}', b'{"count":3}', b"nonsense", b'{"word":"b"}']
    Publisher(broker.bootstrap).send(source, [{"key": "k", "value": value} for value in values])
    ours = (
        spark.read.format("ottla")
        .options(**{"kafka.bootstrap.servers": broker.bootstrap}, subscribe=source)
        .options(valueFormat="json", valueSchema=schema)
        .load()
    )
    theirs = typed(records(spark, *values), schema)
    assert theirs.dtypes == ours.dtypes
    chosen = ["key", "word", "count", "at", "_corrupt"]
    assert sorted(map(str, theirs.select(chosen).collect())) == sorted(
        map(str, ours.select(chosen).collect())
    )


def test_rows_become_json_objects_with_a_key(spark: Any) -> None:
    frame = spark.createDataFrame([("a", 1, None)], "word STRING, count INT, why STRING")
    (row,) = packed(frame, topic("t", key="word")).collect()
    assert row.asDict() == {"key": "a", "value": '{"word":"a","count":1,"why":null}'}
    assert packed(frame, topic("t")).columns == ["value"]


def test_frames_that_fit_no_topic_are_refused(spark: Any) -> None:
    frame = spark.createDataFrame([("a", b"v")], "word STRING, value BINARY")
    with pytest.raises(LocalError, match="word has no place"):
        packed(frame, topic("t"))
    with pytest.raises(LocalError, match="no column match to be the key"):
        packed(frame.select("word"), topic("t", key="match"))
    assert packed(frame.select("value"), topic("t")).columns == ["value"]
