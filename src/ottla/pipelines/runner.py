"""Runs a pipeline: one Spark session, one streaming query a flow, until it is told to stop.

One thread owns everything here and looks several times a second: at failed queries, which start again after a pause
from their checkpoints; at Java's process, whose end fails all flows at once and leads to a new session; at `stop`,
which ends everything in order. Spark's reports arrive on a thread of Spark's and wait in a queue.

A plan that Spark refuses is not tried again: it would be refused for ever. A triggered run (`once`) takes the flows
one after the other, so that what one writes is there for the next.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ottla.base.clock import Clock
from ottla.base.errors import LocalError
from ottla.pipelines import session
from ottla.pipelines.connector_jars import connector_jars
from ottla.pipelines.declare import Pipeline
from ottla.pipelines.flow_run import FlowRun, RunOptions
from ottla.pipelines.progress import RunProgress
from ottla.pipelines.realtime import check_slots
from ottla.pipelines.refusals import explained
from ottla.pipelines.topics import create_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_EVERY_S: Final = 0.2
Show = Callable[[RunProgress], None]
Say = Callable[[str], None]


class PlanRefused(LocalError):
    """Spark does not accept a flow as it is declared."""


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
        self._reports: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self._runs = {flow.name: FlowRun(pipeline.name, flow, options) for flow in pipeline.in_order()}
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
        self._refuse_second_run()
        try:
            self._prepare()
            self._session()
            self.progress.state = "running"
            self._tell()
            self._loop()
        finally:
            self._close()
        return not any(run.progress.state == "failed" for run in self._runs.values())

    def plan(self) -> dict[str, tuple[str, str]]:
        """Of each flow the schema and the plan, without running it."""
        try:
            self._prepare()
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
            self._pipeline.name, options.state, options.master, options.conf, jars
        )
        spark = self._spark = session.start(settings)
        spark.streams.addListener(_listener(self._reports))
        if self._pipeline.module is not None:
            from pyspark import cloudpickle

            # Spark's workers can't import a file that is nobody's module: they get its functions themselves.
            by_value: Any = cloudpickle.register_pickle_by_value
            by_value(self._pipeline.module)
        return spark

    def _prepare(self) -> None:
        """Sees to the topics, and that real-time mode can have what it needs."""
        options = self._options
        options.state.mkdir(parents=True, exist_ok=True)
        topics = self._pipeline.topics().values()
        partitions = create_missing(options.bootstrap, topics, options.connector.options)
        if options.realtime:
            check_slots(self._pipeline, options.master, options.conf, partitions)

    def _loop(self) -> None:
        while not self._stop.is_set():
            changed = self._take_reports()
            try:
                changed |= self._step()
            except PlanRefused:
                raise
            except Exception as error:
                if self._java_runs():
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

    def _start(self, run: FlowRun, now_s: float) -> None:
        from pyspark.errors import AnalysisException, IllegalArgumentException

        try:
            run.start(self._session(), now_s)
        except (AnalysisException, IllegalArgumentException) as error:
            raise PlanRefused(f"flow {run.flow.name}: {explained(error)}") from error
        except Exception as error:
            if not self._java_runs():
                raise
            run.failed(error, now_s)

    def _java_runs(self) -> bool:
        gateway = self._spark.sparkContext._gateway if self._spark is not None else None
        return gateway is not None and gateway.proc.poll() is None

    def _java_ended(self, error: BaseException) -> None:
        now_s = self._clock.monotonic()
        log = self._options.state / "spark.log"
        gone = LocalError(f"Spark's Java process has ended ({type(error).__name__}); see {log}")
        for run in self._runs.values():
            if not run.over:
                run.failed(gone, now_s)
        if self._spark is not None:
            session.stop(self._spark)
            self._spark = None

    def _take_reports(self) -> bool:
        changed = False
        with suppress(queue.Empty):
            while True:
                report = self._reports.get_nowait()
                run = self._runs.get(report.get("name") or "")
                if run is not None:
                    run.reported(report)
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
            session.stop(self._spark)
            self._spark = None
            self._take_reports()  # Spark's end has brought the last ones
        states = {run.progress.state for run in self._runs.values()}
        self.progress.state = (
            "failed" if "failed" in states else "ended" if states == {"ended"} else "stopped"
        )
        with suppress(OSError):
            self._tell()

    def _planned(self, run: FlowRun) -> tuple[str, str]:
        from pyspark.errors import AnalysisException, IllegalArgumentException

        try:
            frame = run.frame(self._session())
            return frame.schema.treeString(), _explanation(frame)
        except (AnalysisException, IllegalArgumentException) as error:
            raise PlanRefused(f"flow {run.flow.name}: {explained(error)}") from error

    def _refuse_second_run(self) -> None:
        known = RunProgress.read(self._options.state)
        if known is not None and known.alive and known.pid != os.getpid():
            raise LocalError(
                f"pipeline {self._pipeline.name} already runs from {self._options.state}, as process {known.pid}; "
                "a second run needs another --state"
            )


def _explanation(frame: Any) -> str:
    """Spark prints its plans: this catches one."""
    import contextlib
    import io

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain(mode="formatted")
    return text.getvalue().strip()


def _listener(reports: queue.SimpleQueue[Mapping[str, Any]]) -> Any:
    """What Spark tells about the batches of all queries, put into the queue."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            reports.put(json.loads(event.progress.json))

        def onQueryTerminated(self, event: Any) -> None:
            pass

    return Listener()
