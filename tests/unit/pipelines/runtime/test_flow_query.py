"""One flow: started, watched, started again, given up; on a Spark that is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql.types import IntegerType

from ottla.base.errors import LocalError
from ottla.pipelines import Pipeline, topic
from ottla.pipelines.declare import Flow
from ottla.pipelines.io.connectors import Connector
from ottla.pipelines.runtime.flow_query import FlowQuery, RunOptions
from ottla.pipelines.runtime.restart_backoff import RESTARTS_ONCE
from ottla.pipelines.spark_errors import PlanRejected
from tests.support.fake_spark import FakeFrame, FakeSpark

REALTIME = "STREAMING_REAL_TIME_MODE.OUTPUT_MODE_NOT_SUPPORTED"


def flow_of(**declared: Any) -> Flow:
    pipeline = Pipeline("p")
    places = {"reads": topic("in"), "writes": topic("out")}
    pipeline.flow(**{**places, **declared}, name="copy")(lambda frame: frame)
    return pipeline.flows["copy"]


def options(**given: Any) -> RunOptions:
    folders = {"state": Path("state"), "checkpoints": "checkpoints", "tables": "tables"}
    return RunOptions(bootstrap="b:1", **{"connector": Connector("ottla", "b:1"), **folders, **given})


def started(spark: FakeSpark, **given: Any) -> FlowQuery:
    run = FlowQuery("p", flow_of(), options(**given))
    start(run, spark)
    return run


def start(run: FlowQuery, spark: Any, now_s: float = 0.0) -> None:
    run.start(run.writer(run.frame(spark)), now_s)


def test_a_query_that_ends_by_itself_has_ended() -> None:
    spark = FakeSpark()
    run = started(spark)
    assert (run.progress.state, run.check(1.0)) == ("running", False)
    spark.queries[-1].end()
    assert run.check(2.0)
    assert (run.progress.state, run.finished) == ("ended", True)


def test_a_query_that_fails_is_due_again_after_a_pause() -> None:
    spark = FakeSpark()
    run = started(spark)
    spark.queries[-1].end(RuntimeError("the broker is away"))
    run.check(10.0)
    assert (run.progress.state, run.due_s, run.progress.restarts) == ("waiting", 11.0, 1)
    assert "the broker is away" in (run.progress.error or "")
    start(run, spark, 11.0)
    assert (run.progress.state, run.progress.error, run.due_s) == ("running", None, None)


def test_it_fails_after_the_maximum_of_restarts() -> None:
    spark = FakeSpark()
    run = started(spark, restarts_max=1)
    for _ in range(2):
        spark.queries[-1].end(RuntimeError("no"))
        run.check(0.0)
        if not run.finished:
            start(run, spark)
    assert (run.progress.state, len(spark.queries)) == ("failed", 2)


def test_a_refusal_in_the_query_is_final() -> None:
    spark = FakeSpark()
    run = started(spark)
    spark.queries[-1].end(RuntimeError(f"[{REALTIME}] The output mode Append"))
    with pytest.raises(PlanRejected, match=r'flow copy: .*mode="update"'):
        run.check(0.0)
    assert (run.progress.state, run.due_s) == ("failed", None)


def test_a_key_that_is_no_column_is_refused_before_anything_starts() -> None:
    spark: Any = FakeSpark()
    run = FlowQuery("p", flow_of(writes=topic("out", key="nope")), options())
    frame: Any = FakeFrame(spark, columns=("word",))
    with pytest.raises(LocalError, match="column nope"):
        run.writer(frame)
    assert not spark.queries


@pytest.mark.parametrize("name", ["ottla", "kafka"])
def test_a_type_that_a_topic_cannot_take_is_refused_before_anything_starts(
    name: Literal["ottla", "kafka"],
) -> None:
    spark: Any = FakeSpark()
    frame: Any = FakeFrame(spark, columns=("value",), kind=IntegerType())
    run = FlowQuery("p", flow_of(), options(connector=Connector(name, "b:1")))
    with pytest.raises(
        LocalError, match="topic out: value attribute unsupported type int: it must be string"
    ):
        run.writer(frame)
    assert not spark.queries


def no_return(_: Any) -> None:
    pass


def a_list(_: Any) -> list[int]:
    return [1]


@pytest.mark.parametrize(("function", "what"), [(no_return, "None"), (a_list, "a list")])
def test_a_function_must_return_a_data_frame(function: Any, what: str) -> None:
    pipeline = Pipeline("p")
    pipeline.flow(reads=topic("in"), writes=topic("out"))(function)
    spark: Any = FakeSpark()
    name, line = function.__name__, function.__code__.co_firstlineno
    with pytest.raises(LocalError) as raised:
        FlowQuery("p", pipeline.flows[name], options()).frame(spark)
    where = f"{name} (test_flow_query.py, line {line})"
    assert str(raised.value) == f"{where} returned {what}, not a data frame; is a return missing?"


def test_an_error_in_the_users_function_has_its_place_though_it_was_elsewhere() -> None:
    spark = FakeSpark()
    run = started(spark)
    text = f'thrown from the worker: Traceback (most recent call last):\n  File "{__file__}", line 7, in f\n    x()\n'
    spark.queries[-1].end(RuntimeError(f"{text}KeyError: 'word'\n SQLSTATE: 38000\n"))
    run.check(0.0)
    assert run.progress.error == "KeyError: 'word' (test_flow_query.py, line 7)"


def test_a_triggered_run_has_a_limit_of_restarts_and_a_continuous_one_has_none() -> None:
    assert options(once=True).restarts == RESTARTS_ONCE
    assert options().restarts is None
    assert options(once=True, restarts_max=9).restarts == 9


def test_a_completed_batch_resets_the_failures_of_a_flow() -> None:
    spark = FakeSpark()
    run = started(spark, restarts_max=1)
    for now_s in (1_000.0, 2_000.0):
        run.on_report(None)
        spark.queries[-1].end(RuntimeError("no"))
        run.check(now_s)
        assert run.progress.state == "waiting", "each is a first failure"
        start(run, spark, now_s)
    spark.queries[-1].end(RuntimeError("no"))
    run.check(9_000.0)
    assert run.finished, "it ran long, but did nothing"


def test_an_idle_flow_has_no_speed() -> None:
    run = started(FakeSpark())
    run.on_report({"batchId": 1, "numInputRows": 5, "processedRowsPerSecond": 7.0})
    assert run.progress.rows_per_s == 7.0
    run.on_report(None)
    assert (run.progress.rows_per_s, run.progress.rows) == (0.0, 5)


def test_stopping_stops_the_query() -> None:
    spark = FakeSpark()
    run = started(spark)
    run.stop()
    assert (run.progress.state, spark.queries[-1].isActive) == ("stopped", False)
