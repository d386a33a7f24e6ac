"""The runner of a pipeline: one Spark session and one streaming query per flow, until `stop` is set.

One thread owns all state and checks several times a second: failed queries, which are restarted from their checkpoints
after a delay; the Java process, whose end fails all flows and causes a new session; and `stop`, which ends the queries
and Spark in order. Spark's reports arrive on another thread and are queued.

A flow that cannot be run as it is declared is not restarted. A triggered run (`once`) runs the flows one after the
other, so that each reads what the one before has written.

A run has the lock of its state directory and writes there only while it has it. A dry run changes nothing.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ottla.base.clock import Clock
from ottla.base.errors import LocalError
from ottla.pipelines import session
from ottla.pipelines.declare import Pipeline
from ottla.pipelines.io.connector_jars import connector_jars
from ottla.pipelines.io.tables import TableMissing
from ottla.pipelines.io.topics import SettingsRejected, create_missing, partitions_of
from ottla.pipelines.java.installation import archive_path, find_java
from ottla.pipelines.java.process import Stopped
from ottla.pipelines.progress import RunProgress
from ottla.pipelines.runtime.abandonable import until_stopped
from ottla.pipelines.runtime.broker_probe import BrokerProbe
from ottla.pipelines.runtime.flow_query import FlowQuery, RunOptions
from ottla.pipelines.runtime.query_reports import QueryReports
from ottla.pipelines.runtime.realtime import check_slots
from ottla.pipelines.runtime.run_lock import run_lock
from ottla.pipelines.spark_errors import PlanRejected, error_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

CHECK_INTERVAL_S: Final = 0.2
DRY: Final = "dry-run"
"""The subdirectory for the log of a dry run, because a run may be using the state directory."""
OnProgress = Callable[[RunProgress], None]
OnStep = Callable[[str], None]


class Runner:
    """One run of a pipeline. `on_step` gets a line for each step of the start, `on_progress` each change."""

    def __init__(
        self,
        pipeline: Pipeline,
        options: RunOptions,
        *,
        clock: Clock,
        stop: threading.Event,
        on_step: OnStep,
        on_progress: OnProgress,
    ) -> None:
        self._pipeline, self._options = pipeline, options
        self._clock, self._stop = clock, stop
        self._on_step, self._on_progress = on_step, on_progress
        self._spark: SparkSession | None = None
        self._reports = QueryReports()
        self._probe: BrokerProbe | None = None
        self._started: set[str] = set()
        self._logs = options.state
        self._runs = {flow.name: FlowQuery(pipeline.name, flow, options) for flow in pipeline.in_order()}
        now_ms = clock.now_ms()
        self.progress = RunProgress(
            pipeline=pipeline.name,
            pid=os.getpid(),
            started_ms=now_ms,
            updated_ms=now_ms,
            bootstrap=options.bootstrap,
            connector=options.connector.name,
            master=options.master,
            source=options.source,
            flows={name: run.progress for name, run in self._runs.items()},
        )

    def run(self) -> bool:
        """Run until a triggered run has ended, `stop` is set, or a failure is final; return whether no flow failed."""
        with run_lock(self._options.state, self._pipeline.name):
            try:
                self._prepare()
                self._session()
                self._probe = BrokerProbe(self._options.bootstrap, self._options.connector.options)
                self.progress.state = "running"
                self._publish_progress()
                self._loop()
            except Stopped:
                pass  # `stop` was set while a broker was awaited or Spark was starting
            except Exception as error:
                self.progress.error = error_message(error)
                raise
            finally:
                self._close()
                with suppress(OSError):
                    self._publish_progress()
        return not any(run.progress.state == "failed" for run in self._runs.values())

    def plan(self) -> dict[str, tuple[str, str]]:
        """The schema and the plan of each flow, without running it or creating anything."""
        self._prepare(dry=True)
        self._logs = self._options.state / DRY
        try:
            return {name: self._planned(run) for name, run in self._runs.items()}
        finally:
            self._close()

    def _session(self) -> SparkSession:
        """The Spark session; start it if there is none."""
        if self._spark is not None:
            return self._spark
        options = self._options
        jars = options.jars
        if options.connector.name == "kafka":
            jars = tuple(connector_jars(options.jars))
        self._on_step(f"Starting Spark on {options.master}, which takes some seconds{_advice()}")
        began_s = self._clock.monotonic()
        settings = session.SessionSettings(
            self._pipeline.name, self._logs, options.master, options.conf, jars
        )
        spark = self._spark = session.start(settings, self._stop)
        self._on_step(f"Spark has started in {self._clock.monotonic() - began_s:.1f} s")
        spark.streams.addListener(self._reports.listener())
        if self._pipeline.module is not None:
            from pyspark import cloudpickle

            # Spark's workers cannot import a file that is not a module: pickle its functions by value.
            by_value: Any = cloudpickle.register_pickle_by_value
            by_value(self._pipeline.module)
        return spark

    def _prepare(self, *, dry: bool = False) -> None:
        """Create missing topics, and check the requirements of real-time mode."""
        options, topics = self._options, self._pipeline.topics()
        try:
            if dry:
                partitions = until_stopped(
                    lambda: partitions_of(
                        options.bootstrap, topics, options.connector.options, self._on_step
                    ),
                    self._stop,
                )
                if missing := ", ".join(name for name in topics if name not in partitions):
                    self._on_step(f"These topics do not exist; a run will create them: {missing}")
            else:
                partitions = until_stopped(
                    lambda: create_missing(
                        options.bootstrap, topics.values(), options.connector.options, self._on_step
                    ),
                    self._stop,
                )
        except SettingsRejected as error:
            if options.connector.name == "ottla":
                raise
            self._on_step(f"Cannot check or create the topics, assuming that they exist: {error}")
            partitions = {}
        if options.realtime:
            check_slots(self._pipeline, options.master, options.conf, partitions)

    def _loop(self) -> None:
        while not self._stop.is_set():
            changed = self._take_reports() | self._check_outage()
            try:
                changed |= self._check_queries()
            except (PlanRejected, Stopped):
                raise
            except Exception as error:
                if self._spark is not None and not session.lost(self._spark, error):
                    raise
                self._on_java_end(error)
                changed = True
            if changed:
                self._publish_progress()
            if all(run.finished for run in self._runs.values()):
                return
            self._stop.wait(CHECK_INTERVAL_S)

    def _check_queries(self) -> bool:
        now_s, changed = self._clock.monotonic(), False
        for run in self._runs.values():
            changed |= run.check(now_s)
            if run.due_s is not None and run.due_s <= now_s and not run.finished:
                self._start(run, now_s)
                changed = True
            if self._options.once and not run.finished:
                break  # the next flow may read what this one writes
            if not run.settled(now_s):
                break  # first batches are expensive: start one flow at a time
        return changed

    def _start(self, run: FlowQuery, now_s: float) -> None:
        try:
            spark = self._session()
        except LocalError as error:  # it has started before, so retry
            self._fail_all(error)
            return
        try:
            _, writer = self._build(run, spark)
        except TableMissing as error:
            run.failed(error, now_s)
            return
        if run.flow.name not in self._started:
            self._started.add(run.flow.name)
            self._on_step(f"Starting flow {run.flow.name}; its first batch takes longer than the others")
        try:
            run.start(writer, now_s)
        except Exception as error:
            if session.lost(spark, error):
                raise
            if _is_rejection(error):
                raise run.rejected(error) from error
            run.failed(error, now_s)

    def _build(self, run: FlowQuery, spark: SparkSession) -> tuple[DataFrame, DataStreamWriter]:
        """The frame and the writer of a flow. An error here is final, unless the Java process has ended."""
        try:
            frame = run.frame(spark)
            return frame, run.writer(frame)
        except Exception as error:
            if session.lost(spark, error) or (isinstance(error, TableMissing) and self._awaited(error, run)):
                raise
            raise run.rejected(error) from error

    def _awaited(self, missing: TableMissing, reader: FlowQuery) -> bool:
        """Whether another flow of this run will create the table."""
        writers = (run for run in self._runs.values() if run is not reader and not run.finished)
        return any(run.flow.writes.name == missing.table.name for run in writers)

    def _on_java_end(self, error: BaseException) -> None:
        log = self._logs / "spark.log"
        self._fail_all(LocalError(f"the Java process of Spark has ended ({type(error).__name__}); see {log}"))
        if self._spark is not None:
            session.stop(self._spark)
            self._spark = None

    def _fail_all(self, error: LocalError) -> None:
        now_s = self._clock.monotonic()
        for run in self._runs.values():
            if not run.finished:
                run.failed(error, now_s)

    def _take_reports(self) -> bool:
        runs = {run.query_id: run for run in self._runs.values()}
        changed = False
        for report in self._reports.take():
            run = runs.get(report.query)
            if run is not None:
                corrupt = len(run.progress.corrupt_first)
                run.on_report(report.batch)
                for position in run.progress.corrupt_first[corrupt:]:
                    self._on_step(f"Flow {run.flow.name}: corrupt value in {position}")
                changed = True
        return changed

    def _check_outage(self) -> bool:
        """Record whether the cluster can be reached; return whether that has changed."""
        outage = self._probe.outage if self._probe is not None else None
        if outage == self.progress.outage:
            return False
        if outage is None or self.progress.outage is None:
            self.progress.outage_since_ms = None if outage is None else self._clock.now_ms()
        self.progress.outage = outage
        return True

    def _publish_progress(self) -> None:
        self.progress.updated_ms = self._clock.now_ms()
        self.progress.write(self._options.state)
        self._on_progress(self.progress)

    def _close(self) -> None:
        if self._probe is not None:
            self._probe.close()
        self.progress.outage = self.progress.outage_since_ms = None
        if self._spark is not None:
            with suppress(Exception):
                self._spark.sparkContext.setLogLevel("OFF")  # do not log interrupted batches as errors
        for run in self._runs.values():
            with suppress(Exception):
                run.stop()
        if self._spark is not None:
            session.stop(self._spark)
            self._spark = None
            self._take_reports()  # the last ones arrive while Spark stops
        states = {run.progress.state for run in self._runs.values()}
        failed = "failed" in states or self.progress.error is not None
        self.progress.state = "failed" if failed else "ended" if states == {"ended"} else "stopped"

    def _planned(self, run: FlowQuery) -> tuple[str, str]:
        spark = self._session()
        try:
            frame, _ = self._build(run, spark)
            return frame.schema.treeString(), _explanation(frame)
        except TableMissing as error:
            return "", f"cannot be planned yet: {error}"


def _advice() -> str:
    """How to make the next start shorter, if that was not done."""
    import pyspark

    is_prepared = archive_path(find_java(), pyspark.__version__).exists()
    return "" if is_prepared else "; `ottla pipelines prepare`, once, makes later starts shorter"


def _explanation(frame: Any) -> str:
    """The plan of a frame, which Spark prints to standard output."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain(mode="formatted")
    return text.getvalue().strip()


def _is_rejection(error: Exception) -> bool:
    """Whether Spark has rejected the plan."""
    from pyspark.errors import AnalysisException, IllegalArgumentException

    return isinstance(error, AnalysisException | IllegalArgumentException)
