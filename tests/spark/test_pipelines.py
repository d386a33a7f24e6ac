"""Flows on Spark: the rules of the scoreboard, changes written once, tables, columns of both connectors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.base.clock import SystemClock
from ottla.base.errors import LocalError
from ottla.pipelines import Pipeline, table, topic
from ottla.pipelines.io.connectors import Connector, as_records, with_typed_values
from ottla.pipelines.io.tables import TableMissing, append_delta, read
from ottla.pipelines.io.topics import create_missing
from ottla.pipelines.progress import FlowProgress
from ottla.pipelines.runtime.flow_query import FlowQuery, RunOptions
from ottla.pipelines.runtime.query_reports import QueryReports
from ottla.scoreboard.generator import ROUND_MS
from tests.conftest import MakeBroker
from tests.support import scoreboard as checker
from tests.support.clients import Publisher, Reader
from tests.support.waiting import wait_until

DAY_MS = 86_400_000
Run = Callable[[Pipeline, str], list[FlowQuery]]


@pytest.fixture
def run(spark: Any, tmp_path: Path) -> Run:
    """A triggered run of a pipeline in the session of the tests."""

    def runs(pipeline: Pipeline, bootstrap: str) -> list[FlowQuery]:
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
            under_way = FlowQuery(pipeline.name, flow, options)
            under_way.start(under_way.writer(under_way.frame(spark)), 0.0)
            wait_until(lambda one=under_way: one.check(0.0), f"the end of {flow.name}", 240)  # type: ignore[misc]
            done.append(under_way)
        return done

    return runs


@pytest.mark.slow
def test_the_scoreboard_follows_its_rules_over_several_runs(
    run: Run, make_broker: MakeBroker, tmp_path: Path
) -> None:
    from ottla.scoreboard.pipeline import pipeline

    broker = make_broker()
    create_missing(broker.bootstrap, pipeline.topics().values(), {})
    arrived = checker.arrivals(4, SystemClock().now_ms())
    for part in (arrived[:300], arrived[300:]):
        checker.send(broker.bootstrap, part)
        done = run(pipeline, broker.bootstrap)
        assert {each.flow.name: each.progress.error for each in done} == dict.fromkeys(pipeline.flows)
    standings, statistics = checker.expected(broker.bootstrap)
    assert checker.shown(broker.bootstrap) == standings
    assert checker.figures(broker.bootstrap) == statistics
    place = str(tmp_path / "tables" / "scoreboard")
    assert checker.table(place) == {match: each for (match, _), each in standings.items()}


@pytest.mark.slow
def test_events_of_a_wrong_clock_are_dropped_and_counted(
    run: Run, spark: Any, make_broker: MakeBroker
) -> None:
    """A day ahead would close every match, a few hours every minute of the statistics."""
    from ottla.scoreboard.pipeline import MATCHES, SCOREBOARD, STATISTICS, scoreboard, statistics

    pipeline = Pipeline("guard")
    pipeline.flow(reads=MATCHES, writes=SCOREBOARD, mode="update")(scoreboard)
    pipeline.flow(reads=MATCHES, writes=STATISTICS, mode="update")(statistics)
    broker, now_ms = make_broker(), SystemClock().now_ms()
    create_missing(broker.bootstrap, pipeline.topics().values(), {})
    reports, progress = QueryReports(), {name: FlowProgress() for name in pipeline.flows}
    listener = reports.listener()
    spark.streams.addListener(listener)
    for ahead_ms in (400 * DAY_MS, DAY_MS - 60_000, 600_000):
        checker.send(broker.bootstrap, checker.arrivals(1, now_ms + ROUND_MS + ahead_ms)[:5])
    run(pipeline, broker.bootstrap)
    checker.send(broker.bootstrap, checker.arrivals(2, now_ms))
    run(pipeline, broker.bootstrap)

    def counted() -> bool:
        for report in reports.take():
            if report.batch is not None:
                progress[str(report.batch["name"])].report(report.batch)
        return all(flow.left_out == 15 for flow in progress.values())

    wait_until(counted, "the count of what was left out")
    spark.streams.removeListener(listener)
    assert all(flow.late_rows == 0 for flow in progress.values())
    assert {started_ms for _, started_ms in checker.shown(broker.bootstrap)} == {now_ms - ROUND_MS}
    assert {place[1] for place in checker.figures(broker.bootstrap)} == {now_ms - ROUND_MS}


@pytest.mark.slow
def test_a_change_is_written_once_if_its_batch_is_repeated(
    spark: Any, broker: Any, new_topic: Any, checkpoint: str
) -> None:
    """The driver fails after the commit and before Spark has recorded it: the batch is repeated."""
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
    write_updates = updates({**servers, "topic": target})
    tried = []

    def write(batch: Any, number: int) -> None:
        write_updates(batch, number)
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
    found = sorted((each.key(), each.value()) for each in checker.committed(broker.bootstrap, target))
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


def test_an_aborted_transaction_reaches_no_flow(
    run: Run, spark: Any, broker: Any, new_topic: Any, tmp_path: Path
) -> None:
    """What a repeated batch of the flow before has left behind."""
    source = new_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": source})
    producer.init_transactions(30)
    for word, end in (("lost", producer.abort_transaction), ("kept", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(source, json.dumps({"word": word}))
        producer.flush(30)
        end(30)
    pipeline = Pipeline("chained")

    @pipeline.flow(reads=topic(source, schema="word STRING"), writes=table("chained"))
    def words(frame: Any) -> Any:
        return frame.select("word")

    run(pipeline, broker.bootstrap)
    rows = spark.read.parquet(str(tmp_path / "tables" / "chained")).collect()
    assert [row["word"] for row in rows] == ["kept"]


def test_a_delta_table_is_read_with_all_its_columns(spark: Any, tmp_path: Path) -> None:
    import pyarrow as pa

    kind = table("t", format="delta", partition_by=["day", "team"])
    rows = [
        {"word": "a", "day": 7, "team": "x y"},
        {"word": "b", "day": None, "team": "a/b"},
        {"word": None, "day": 8, "team": None},
    ]
    types = pa.schema([("word", pa.string()), ("day", pa.int32()), ("team", pa.string())])
    empty = table("empty", format="delta")
    append_delta(str(tmp_path / "t"), kind, pa.Table.from_pylist(rows, types), "q", 0)
    append_delta(str(tmp_path / "empty"), empty, pa.Table.from_pylist([], types), "q", 0)
    found = read(spark, kind, str(tmp_path))
    assert found.dtypes == [("word", "string"), ("day", "int"), ("team", "string")]
    assert sorted((row.asDict() for row in found.collect()), key=str) == sorted(rows, key=str)
    nothing = read(spark, empty, str(tmp_path))
    assert (nothing.dtypes, nothing.collect()) == (found.dtypes, [])
    for missing in (table("none", format="delta"), table("none")):
        with pytest.raises(TableMissing, match="does not exist at"):
            read(spark, missing, str(tmp_path))


def test_what_is_no_standing_gets_no_row(spark: Any) -> None:
    from ottla.scoreboard.pipeline import STANDING_DDL, rows

    empty = (None,) * (STANDING_DDL.count(",") + 1)
    read = [("Canada vs USA", *empty[1:], None), (*empty, b"nonsense"), (*empty, None)]
    frame = rows(spark.createDataFrame(read, f"{STANDING_DDL}, _corrupt BINARY"))
    assert [row["match"] for row in frame.collect()] == ["Canada vs USA"]


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
    theirs = with_typed_values(records(spark, *values), schema)
    assert theirs.dtypes == ours.dtypes
    chosen = ["key", "word", "count", "at", "_corrupt"]
    assert sorted(map(str, theirs.select(chosen).collect())) == sorted(
        map(str, ours.select(chosen).collect())
    )


def test_rows_become_json_objects_with_a_key(spark: Any) -> None:
    frame = spark.createDataFrame([("a", 1, None)], "word STRING, count INT, why STRING")
    (row,) = as_records(frame, topic("t", key="word")).collect()
    assert row.asDict() == {"key": "a", "value": '{"word":"a","count":1,"why":null}'}
    assert as_records(frame, topic("t")).columns == ["value"]


def test_frames_that_fit_no_topic_are_refused(spark: Any) -> None:
    frame = spark.createDataFrame([("a", b"v")], "word STRING, value BINARY")
    with pytest.raises(LocalError, match="not word; drop it"):
        as_records(frame, topic("t"))
    with pytest.raises(LocalError, match="the key column match does not exist"):
        as_records(frame.select("word"), topic("t", key="match"))
    assert as_records(frame.select("value"), topic("t")).columns == ["value"]


def test_corrupt_values_are_counted_and_written_to_the_dead_letter_topic(
    run: Run, spark: Any, make_broker: MakeBroker
) -> None:
    broker = make_broker()
    pipeline = Pipeline("corrupt")
    words = topic("words", schema="word STRING, length INT", dead_letters="words.dead")
    pipeline.flow(reads=words, writes=topic("copies", key="word"), name="copy")(
        lambda frame: frame.select("word", "length")
    )
    create_missing(broker.bootstrap, pipeline.topics().values(), {})
    values = ['{"word":"a","length":1}', "not JSON", '{"word":"b","length":"x"}', '{"word":"c"}', "[]"]
    Publisher(broker.bootstrap).send(
        "words", [{"key": f"k{n}", "value": value} for n, value in enumerate(values)]
    )
    reports = QueryReports()
    listener = reports.listener()
    spark.streams.addListener(listener)
    try:
        done = {each.flow.name: each for each in run(pipeline, broker.bootstrap)}
        taken: list[Any] = []

        def reported() -> bool:
            taken.extend(report.batch for report in reports.take() if report.query == done["copy"].query_id)
            return any(batch and batch.get("numInputRows") for batch in taken)

        wait_until(reported, "the report of the batch", 60)
    finally:
        spark.streams.removeListener(listener)
    progress = FlowProgress()
    for batch in filter(None, taken):
        progress.report(batch)
    assert (progress.corrupt, progress.corrupt_first) == (3, ["words-0 at offset 1"])
    with Reader(broker.bootstrap, "copies", [0], 0) as reader:
        copies = [json.loads(record.value()) for record in reader.take(2)]
    assert copies == [{"word": "a", "length": 1}, {"word": "c", "length": None}]
    with Reader(broker.bootstrap, "words.dead", [0], 0) as reader:
        dead = reader.take(3)
    assert [(record.key(), record.value()) for record in dead] == [
        (b"k1", b"not JSON"),
        (b"k2", values[2].encode()),
        (b"k4", b"[]"),
    ]
    assert dict(dead[0].headers() or [])["__dlq.errors.offset"] == b"1"
