"""A whole run on a Spark that is not there: failures, Java's death, giving up, a second run, a dry run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import LocalError
from ottla.pipelines import Pipeline, table, topic
from ottla.pipelines.io.connectors import Connector
from ottla.pipelines.io.topics import SettingsRejected
from ottla.pipelines.progress import RunProgress
from ottla.pipelines.runtime import runner
from ottla.pipelines.runtime.flow_query import RunOptions
from ottla.pipelines.runtime.query_reports import Report
from ottla.pipelines.runtime.run_lock import run_lock
from ottla.pipelines.spark_errors import PlanRejected
from tests.support.fake_spark import FakeClock, FakeSession

STEPS_MAX = 500
Step = Callable[[], None]


def nothing() -> None:
    pass


def stop() -> None:
    """As if it were asked to by Ctrl-C."""
    raise Asked


class Asked(Exception):
    pass


class Steps(threading.Event):
    """Stops a run when its script is over: each wait is one step of it, and takes a second of the fake clock."""

    def __init__(self, clock: FakeClock, script: list[Step]) -> None:
        super().__init__()
        self._clock, self._script = clock, script
        self._left = STEPS_MAX

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.now_s += 1.0
        self._left -= 1
        assert self._left, "a run without an end"
        if self._script:
            try:
                self._script.pop(0)()
            except Asked:
                self.set()
        return self.is_set()


class FakeProbe:
    """A probe whose result the test sets."""

    outage: str | None = None

    def __init__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    fake = FakeSession()
    monkeypatch.setattr(runner, "session", fake)
    monkeypatch.setattr(runner, "create_missing", lambda *_: {"in": 1})
    monkeypatch.setattr(runner, "partitions_of", lambda *_: {"in": 1})
    monkeypatch.setattr(runner, "BrokerProbe", FakeProbe)
    monkeypatch.setattr(runner, "_advice", lambda: "")
    FakeProbe.outage = None
    return fake


@pytest.fixture
def pipeline() -> Pipeline:
    made = Pipeline("p")
    made.flow(reads=topic("in"), writes=topic("out"), name="copy")(lambda frame: frame)
    return made


def make(
    pipeline: Pipeline, state: Path, *script: Step, said: list[str] | None = None, **given: Any
) -> runner.Runner:
    clock = FakeClock()
    steps = Steps(clock, list(script))
    places = {"checkpoints": "c", "tables": str(state / "tables"), "connector": Connector("ottla", "b:1")}
    options = RunOptions(bootstrap="b:1", state=state, **{**places, **given})
    return runner.Runner(
        pipeline,
        options,
        clock=clock,
        stop=steps,
        on_step=(said if said is not None else []).append,
        on_progress=_seen,
    )


def _seen(_: RunProgress) -> None:
    pass


def ends(spark: FakeSession, number: int, error: Exception | None = None) -> Step:
    """The end of a query of the newest session."""
    return lambda: spark.spark.queries[number].end(error)


def test_a_failed_query_starts_again(spark: FakeSession, pipeline: Pipeline, tmp_path: Path) -> None:
    away = ends(spark, 0, RuntimeError("away"))
    assert make(pipeline, tmp_path, away, nothing, nothing, ends(spark, 1)).run()
    assert (len(spark.made), len(spark.spark.queries)) == (1, 2)
    progress = RunProgress.read(tmp_path)
    assert progress is not None
    assert (progress.state, progress.flows["copy"].restarts, progress.error) == ("ended", 1, None)


def test_javas_death_leads_to_a_new_session(spark: FakeSession, pipeline: Pipeline, tmp_path: Path) -> None:
    def dies() -> None:
        spark.spark.die()

    assert make(pipeline, tmp_path, dies, nothing, nothing, nothing, ends(spark, 0)).run()
    assert (len(spark.made), spark.stopped) == (2, 2)


def test_sessions_that_do_not_start_again_are_abandoned(
    spark: FakeSession, pipeline: Pipeline, tmp_path: Path
) -> None:
    """None of them comes to a batch, so nothing is forgiven."""

    def dies() -> None:
        spark.spark.die()
        spark.fails = [LocalError("no memory")] * 9

    assert not make(pipeline, tmp_path, dies, restarts_max=2).run()
    progress = RunProgress.read(tmp_path)
    assert progress is not None
    assert (progress.state, progress.flows["copy"].error) == ("failed", "no memory")
    assert len(spark.settings) == 1 + 2


def test_a_first_session_that_does_not_start_ends_the_run_and_is_recorded(
    spark: FakeSession, pipeline: Pipeline, tmp_path: Path
) -> None:
    spark.fails = [LocalError("Spark did not start: no memory")]
    with pytest.raises(LocalError, match="no memory"):
        make(pipeline, tmp_path).run()
    progress = RunProgress.read(tmp_path)
    assert progress is not None
    assert (progress.state, progress.error) == ("failed", "Spark did not start: no memory")


@pytest.mark.parametrize("again", [False, True])
def test_a_stop_while_spark_starts_is_no_failure(
    spark: FakeSession, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    def dies() -> None:
        spark.spark.die()

    made, known = make(pipeline, tmp_path, dies), spark.start

    def start(settings: Any, stop: threading.Event) -> Any:
        if len(spark.settings) == (1 if again else 0):
            made._stop.set()
        return known(settings, stop)

    monkeypatch.setattr(spark, "start", start)
    assert made.run()
    progress = RunProgress.read(tmp_path)
    assert progress is not None
    assert (progress.state, progress.error, progress.flows["copy"].state) == ("stopped", None, "stopped")
    assert len(spark.settings) == len(spark.made) + 1, "the last one was given up"


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("error", [KeyError("word"), TypeError("not a column"), LocalError("no such thing")])
def test_a_function_that_raises_ends_the_run(
    spark: FakeSession, tmp_path: Path, error: Exception, once: bool
) -> None:
    pipeline = Pipeline("p")

    @pipeline.flow(reads=topic("in"), writes=topic("out"))
    def wrong(frame: Any) -> Any:
        raise error

    with pytest.raises(PlanRejected, match=r"flow wrong: .*\(test_runner.py, line \d+\)"):
        make(pipeline, tmp_path, once=once).run()
    progress = RunProgress.read(tmp_path)
    assert progress is not None
    assert (progress.state, progress.flows["wrong"].state) == ("failed", "failed")
    with pytest.raises(PlanRejected):
        make(pipeline, tmp_path).plan()


def test_a_table_with_a_column_that_is_not_there_is_refused(spark: FakeSession, tmp_path: Path) -> None:
    pipeline = Pipeline("p")
    target = table("t", format="delta", keys=["nope"])
    pipeline.flow(reads=topic("in"), writes=target, name="kept")(lambda frame: frame)
    for attempt in (make(pipeline, tmp_path).run, make(pipeline, tmp_path).plan):
        with pytest.raises(PlanRejected, match="nope"):
            attempt()


def test_a_triggered_run_ends_though_its_query_never_does(
    spark: FakeSession, pipeline: Pipeline, tmp_path: Path
) -> None:
    def fails() -> None:
        for query in spark.spark.queries:
            query.end(RuntimeError("always"))

    assert not make(pipeline, tmp_path, *[fails] * 60, once=True).run()


@pytest.mark.parametrize(("once", "at_first"), [(True, 1), (False, 2)])
def test_a_triggered_run_takes_the_flows_one_after_the_other(
    spark: FakeSession, tmp_path: Path, once: bool, at_first: int
) -> None:
    pipeline = Pipeline("p")
    pipeline.flow(reads=topic("middle"), writes=topic("out"), name="second")(lambda frame: frame)
    pipeline.flow(reads=topic("in"), writes=topic("middle"), name="first")(lambda frame: frame)
    seen: list[int] = []

    def ends_one() -> None:
        seen.append(len(spark.spark.queries))
        next(query for query in spark.spark.queries if query.isActive).end()

    assert make(pipeline, tmp_path, nothing, ends_one, nothing, ends_one, once=once).run()
    assert seen == [at_first, 2]


def test_a_flow_does_not_wait_for_a_table_that_only_it_would_make(spark: FakeSession, tmp_path: Path) -> None:
    pipeline, own = Pipeline("p"), table("t", format="delta")
    pipeline.flow(reads=[topic("in"), own], writes=own, name="circle")(lambda frame, _: frame)
    with pytest.raises(PlanRejected, match="does not exist at"):
        make(pipeline, tmp_path, nothing, stop).run()


def test_a_table_that_another_flow_makes_is_waited_for(
    spark: FakeSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = Pipeline("p")
    pipeline.flow(reads=topic("in"), writes=table("t", format="delta"), name="makes")(lambda frame: frame)
    sources = [topic("in"), table("t", format="delta")]
    pipeline.flow(reads=sources, writes=topic("out"), name="reads")(lambda frame, _: frame)
    made = make(pipeline, tmp_path, nothing, stop)
    assert made.run()
    assert "does not exist at" in (made.progress.flows["reads"].error or "")
    del pipeline.flows["makes"]
    with pytest.raises(PlanRejected, match="does not exist at"):
        make(pipeline, tmp_path).run()


def test_a_second_run_is_refused_and_changes_nothing(
    spark: FakeSession, pipeline: Pipeline, tmp_path: Path
) -> None:
    with (
        run_lock(tmp_path, "p"),
        pytest.raises(LocalError, match=r"is already running .* \(process \d+\)"),
    ):
        make(pipeline, tmp_path).run()
    assert RunProgress.read(tmp_path) is None
    assert not spark.settings


def test_the_lock_is_free_after_a_run(spark: FakeSession, pipeline: Pipeline, tmp_path: Path) -> None:
    for _ in range(2):
        assert make(pipeline, tmp_path, ends(spark, 0)).run()


def test_a_dry_run_does_not_affect_another_run(
    spark: FakeSession, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(*_: Any) -> dict[str, int]:
        raise AssertionError("a dry run makes no topics")

    monkeypatch.setattr(runner, "create_missing", create)
    said: list[str] = []
    with run_lock(tmp_path, "p"):
        schema, plan = make(pipeline, tmp_path, said=said).plan()["copy"]
    assert (schema.split()[0], plan) == ("root", "")
    assert any("create them: out" in line for line in said)
    assert not any("create them: in" in line for line in said)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    assert not spark.spark.queries


@pytest.mark.parametrize("dry", [True, False])
def test_a_cluster_that_only_java_reaches_is_left_to_its_connector(
    spark: FakeSession, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry: bool
) -> None:
    def refuse(*_: Any) -> dict[str, int]:
        raise SettingsRejected("a Java key store, which only a JVM reads")

    monkeypatch.setattr(runner, "partitions_of" if dry else "create_missing", refuse)
    monkeypatch.setattr(runner, "connector_jars", lambda _: [])
    monkeypatch.setattr("ottla.pipelines.io.connectors.as_records", lambda frame, _: frame)
    said: list[str] = []
    theirs = make(pipeline, tmp_path, stop, said=said, connector=Connector("kafka", "b:1"))
    assert theirs.plan() if dry else theirs.run()
    assert any("only a JVM reads" in line for line in said)
    ours = make(pipeline, tmp_path)
    with pytest.raises(SettingsRejected):
        ours.plan() if dry else ours.run()


def test_an_outage_is_reported_at_once_until_it_is_over(
    spark: FakeSession, pipeline: Pipeline, tmp_path: Path
) -> None:
    seen: list[tuple[str, str | None, bool]] = []

    def outage(reason: str | None) -> Step:
        def change() -> None:
            FakeProbe.outage = reason

        return change

    made = make(pipeline, tmp_path, outage("refused"), nothing, outage(None), nothing, ends(spark, 0))

    def on_progress(progress: RunProgress) -> None:
        written = RunProgress.read(tmp_path)
        assert written is not None
        assert (written.outage, written.outage_since_ms) == (progress.outage, progress.outage_since_ms)
        seen.append((progress.state, progress.outage, progress.outage_since_ms is not None))

    made._on_progress = on_progress
    assert made.run()
    outages = [outage for _, outage, _ in seen]
    assert outages.index("refused") < len(outages) - 1
    assert all(reason == ("refused" if known else None) for _, reason, known in seen)
    assert seen[-1] == ("ended", None, False)


def test_the_steps_of_the_start_are_reported(spark: FakeSession, pipeline: Pipeline, tmp_path: Path) -> None:
    said: list[str] = []
    away = ends(spark, 0, RuntimeError("away"))
    make(pipeline, tmp_path, away, nothing, nothing, ends(spark, 1), said=said).run()
    assert said == [
        "Starting Spark on local[*], which takes some seconds",
        "Spark has started in 0.0 s",
        "Starting flow copy; its first batch takes longer than the others",
    ]


def test_the_first_corrupt_values_are_reported(
    spark: FakeSession, pipeline: Pipeline, tmp_path: Path
) -> None:
    said: list[str] = []

    def batch() -> None:
        metrics = {"ottla.corrupt.0.words": {"count": 3, "first": {"partition": 1, "offset": 17}}}
        made._reports.add(Report("query-id", {"batchId": 0, "observedMetrics": metrics}))

    made = make(pipeline, tmp_path, batch, nothing, ends(spark, 0), said=said)
    made.run()
    assert said[-1] == "Flow copy: corrupt value in words-1 at offset 17"
    assert (made.progress.flows["copy"].corrupt, made.progress.flows["copy"].corrupt_first) == (
        3,
        ["words-1 at offset 17"],
    )
