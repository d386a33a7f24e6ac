"""Runs a pipeline: one Spark session, one streaming query a flow, until it is told to stop.

One thread owns everything here and looks several times a second: at failed queries, which start again after a pause
from their checkpoints; at Java's process, whose end fails all flows at once and leads to a new session; at `stop`,
which ends everything in order. Spark's reports arrive on a thread of Spark's and wait in a queue.

A flow that can't be run as it is declared is not tried again: it would be refused for ever. A triggered run (`once`)
takes the flows one after the other, so that what one writes is there for the next.

A run holds the lock of its state folder, and only who holds it writes there. A dry run leaves everything as it is.
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
from ottla.pipelines.io.topics import SettingsRefused, create_missing, partitions_of
from ottla.pipelines.java.process import Stopped
from ottla.pipelines.progress import RunProgress
from ottla.pipelines.runtime.flow_query import FlowQuery, RunOptions
from ottla.pipelines.runtime.query_reports import QueryReports
from ottla.pipelines.runtime.realtime import check_slots
from ottla.pipelines.runtime.run_lock import run_lock
from ottla.pipelines.spark_errors import PlanRefused, error_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

LOOK_EVERY_S: Final = 0.2
DRY: Final = "dry-run"
"""Where the log of a dry run is: a run may go on beside it."""
Show = Callable[[RunProgress], None]
Say = Callable[[str], None]


class Runner:
    """One run of a pipeline. `say` gets a line about each step of starting, `show` the progress as it changes."""

    def __init__(
        self,
        pipeline: Pipeline,
        options: RunOptions,
        *,
        clock: Clock,
        stop: threading.Event,
        say: Say,
        show: Show,
    ) -> None:
        self._pipeline, self._options = pipeline, options
        self._clock, self._stop, self._say, self._show = clock, stop, say, show
        self._spark: SparkSession | None = None
        self._reports = QueryReports()
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
            flows={name: run.progress for name, run in self._runs.items()},
        )

    def run(self) -> bool:
        """Until the end of a triggered run, a stop, or a failure that is final; whether all went well."""
        with run_lock(self._options.state, self._pipeline.name):
            try:
                self._prepare()
                self._session()
                self.progress.state = "running"
                self._tell()
                self._loop()
            except Stopped:
                pass  # while Spark was starting
            except Exception as error:
                self.progress.error = error_message(error)
                raise
            finally:
                self._close()
                with suppress(OSError):
                    self._tell()
        return not any(run.progress.state == "failed" for run in self._runs.values())

    def plan(self) -> dict[str, tuple[str, str]]:
        """Of each flow the schema and the plan, without running it or making anything."""
        self._prepare(dry=True)
        self._logs = self._options.state / DRY
        try:
            return {name: self._planned(run) for name, run in self._runs.items()}
        finally:
            self._close()

    def _session(self) -> SparkSession:
        """Spark, started if it does not run."""
        if self._spark is not None:
            return self._spark
        options = self._options
        jars = options.jars
        if options.connector.name == "kafka":
            jars = tuple(connector_jars(options.jars))
        self._say(f"Starting Spark on {options.master}")
        settings = session.SessionSettings(
            self._pipeline.name, self._logs, options.master, options.conf, jars
        )
        spark = self._spark = session.start(settings, self._stop)
        spark.streams.addListener(self._reports.listener())
        if self._pipeline.module is not None:
            from pyspark import cloudpickle

            # Spark's workers can't import a file that is nobody's module: they get its functions themselves.
            by_value: Any = cloudpickle.register_pickle_by_value
            by_value(self._pipeline.module)
        return spark

    def _prepare(self, *, dry: bool = False) -> None:
        """Sees to the topics, and that real-time mode can have what it needs."""
        options, topics = self._options, self._pipeline.topics()
        try:
            if dry:
                partitions = partitions_of(options.bootstrap, topics, options.connector.options)
                if missing := ", ".join(name for name in topics if name not in partitions):
                    self._say(f"Not there yet, and to be made by a run: topic {missing}")
            else:
                partitions = create_missing(options.bootstrap, topics.values(), options.connector.options)
        except SettingsRefused as error:
            if options.connector.name == "ottla":
                raise
            self._say(f"The topics are taken to be there, for we can't look: {error}")
            partitions = {}
        if options.realtime:
            check_slots(self._pipeline, options.master, options.conf, partitions)

    def _loop(self) -> None:
        while not self._stop.is_set():
            changed = self._take_reports()
            try:
                changed |= self._step()
            except (PlanRefused, Stopped):
                raise
            except Exception as error:
                if self._spark is not None and not session.lost(self._spark, error):
                    raise
                self._java_ended(error)
                changed = True
            if changed:
                self._tell()
            if all(run.over for run in self._runs.values()):
                return
            self._stop.wait(LOOK_EVERY_S)

    def _step(self) -> bool:
        now_s, changed = self._clock.monotonic(), False
        for run in self._runs.values():
            changed |= run.look(now_s)
            if run.due_s is not None and run.due_s <= now_s and not run.over:
                self._start(run, now_s)
                changed = True
            if self._options.once and not run.over:
                break  # the next flow reads what this one writes
            if not run.settled(now_s):
                break  # the first batch is the hardest: all at once would be late together
        return changed

    def _start(self, run: FlowQuery, now_s: float) -> None:
        try:
            spark = self._session()
        except LocalError as error:  # it has started before: the next time may be better
            self._all_failed(error)
            return
        try:
            _, writer = self._made(run, spark)
        except TableMissing as error:
            run.failed(error, now_s)
            return
        try:
            run.start(writer, now_s)
        except Exception as error:
            if session.lost(spark, error):
                raise
            if _is_refusal(error):
                raise run.refused(error) from error
            run.failed(error, now_s)

    def _made(self, run: FlowQuery, spark: SparkSession) -> tuple[DataFrame, DataStreamWriter]:
        """All of a flow but its start. What goes wrong here goes wrong for ever, unless Java has gone."""
        try:
            frame = run.frame(spark)
            return frame, run.writer(frame)
        except Exception as error:
            if session.lost(spark, error) or (isinstance(error, TableMissing) and self._awaited(error, run)):
                raise
            raise run.refused(error) from error

    def _awaited(self, missing: TableMissing, reader: FlowQuery) -> bool:
        """Whether a flow that goes on beside will make the table."""
        writers = (run for run in self._runs.values() if run is not reader and not run.over)
        return any(run.flow.writes.name == missing.table.name for run in writers)

    def _java_ended(self, error: BaseException) -> None:
        log = self._logs / "spark.log"
        self._all_failed(LocalError(f"Spark's Java process has ended ({type(error).__name__}); see {log}"))
        if self._spark is not None:
            session.stop(self._spark)
            self._spark = None

    def _all_failed(self, error: LocalError) -> None:
        now_s = self._clock.monotonic()
        for run in self._runs.values():
            if not run.over:
                run.failed(error, now_s)

    def _take_reports(self) -> bool:
        runs = {run.query_id: run for run in self._runs.values()}
        changed = False
        for report in self._reports.take():
            run = runs.get(report.query)
            if run is not None:
                run.reported(report.batch)
                changed = True
        return changed

    def _tell(self) -> None:
        self.progress.updated_ms = self._clock.now_ms()
        self.progress.write(self._options.state)
        self._show(self.progress)

    def _close(self) -> None:
        if self._spark is not None:
            with suppress(Exception):
                self._spark.sparkContext.setLogLevel("OFF")  # what is cut off is no error
        for run in self._runs.values():
            with suppress(Exception):
                run.stop()
        if self._spark is not None:
            session.stop(self._spark)
            self._spark = None
            self._take_reports()  # Spark's end has brought the last ones
        states = {run.progress.state for run in self._runs.values()}
        failed = "failed" in states or self.progress.error is not None
        self.progress.state = "failed" if failed else "ended" if states == {"ended"} else "stopped"

    def _planned(self, run: FlowQuery) -> tuple[str, str]:
        spark = self._session()
        try:
            frame, _ = self._made(run, spark)
            return frame.schema.treeString(), _explanation(frame)
        except TableMissing as error:
            return "", f"not to be planned yet: {error}"


def _explanation(frame: Any) -> str:
    """Spark prints its plans: this catches one."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain(mode="formatted")
    return text.getvalue().strip()


def _is_refusal(error: Exception) -> bool:
    """Whether Spark has looked at the plan and said no."""
    from pyspark.errors import AnalysisException, IllegalArgumentException

    return isinstance(error, AnalysisException | IllegalArgumentException)
