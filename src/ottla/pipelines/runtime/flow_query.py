"""The streaming query of one flow in a run: start, check, restart.

    waiting --start--> running --the query has ended--> ended           (a triggered run)
       ^                  |
       +---- back-off ----+--the query has failed--> failed, after too many failures

An error in the declaration is found when the writer is made (`writer`), or is reported by Spark in the first batch.
Both are final: `PlanRejected` ends the run. After any other error the query is restarted.

A checkpoint belongs to one query, so a flow never has two queries at a time. Used by the thread of the runner only,
which also passes on the reports of Spark's listener.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.base.errors import LocalError
from ottla.pipelines.declare import Endpoint, Flow, Topic
from ottla.pipelines.io import tables
from ottla.pipelines.io.connectors import Connector
from ottla.pipelines.io.corrupt_records import observed, without_corrupt
from ottla.pipelines.progress import FlowProgress
from ottla.pipelines.runtime.restart_backoff import RESTARTS_ONCE, Backoff
from ottla.pipelines.spark_errors import PlanRejected, error_message, is_final, location_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

REALTIME_BATCH: Final = "5 seconds"
SETTLING_S_MAX: Final = 20.0
_NOTHING_TO_READ: Final = "Waiting for data to arrive"


@dataclass(frozen=True)
class RunOptions:
    """The options of a run."""

    bootstrap: str
    state: Path
    """The directory of the log and the progress, and by default of checkpoints and tables."""
    connector: Connector
    checkpoints: str
    tables: str
    master: str = "local[*]"
    source: str = ""
    """The file or module of the pipeline, as the user has given it."""
    realtime: bool = False
    once: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[str, ...] = ()
    restarts_max: int | None = None
    """None for the default: `RESTARTS_ONCE` for a triggered run, no limit for a continuous one."""

    @property
    def restarts(self) -> int | None:
        return RESTARTS_ONCE if self.once and self.restarts_max is None else self.restarts_max


class FlowQuery:
    """A flow, its query and its progress."""

    def __init__(self, pipeline: str, flow: Flow, options: RunOptions) -> None:
        self.flow = flow
        self.realtime = options.realtime and isinstance(flow.writes, Topic)
        self.progress = FlowProgress(
            reads=list(map(str, flow.reads)),
            writes=str(flow.writes),
            state="waiting",
            realtime=self.realtime,
        )
        self.due_s: float | None = 0.0
        self._group = f"{pipeline}.{flow.name}"
        self._options = options
        self._backoff = Backoff(options.restarts)
        self._query: StreamingQuery | None = None
        self.query_id: str | None = None
        """The id of the query, from its checkpoint; None before the first start."""
        self._started_s = 0.0

    def frame(self, spark: SparkSession) -> DataFrame:
        """Call the function of the flow with the data frames of its sources."""
        sources = [self._source(spark, source, number) for number, source in enumerate(self.flow.reads)]
        frame = self.flow.function(*sources)
        if not hasattr(frame, "writeStream"):
            found = "None" if frame is None else f"a {type(frame).__name__}"
            raise LocalError(f"{self._function()} returned {found}, not a data frame; is a return missing?")
        return frame

    def _source(self, spark: SparkSession, source: Endpoint, number: int) -> DataFrame:
        if not isinstance(source, Topic):
            return tables.read(spark, source, self._options.tables)
        frame = self._options.connector.read(spark, source, self._group)
        if self.flow.takes_corrupt:
            return frame
        return without_corrupt(observed(frame, source, number), source)

    def writer(self, frame: DataFrame) -> DataStreamWriter:
        """The writer of the frame to its target; raises `LocalError` if the frame and the target do not match."""
        flow, options = self.flow, self._options
        if isinstance(flow.writes, Topic):
            writer = options.connector.write(frame, flow.writes, flow.mode)
        else:
            writer = tables.write(frame, flow, flow.writes, options.tables).outputMode(flow.mode)
        writer = writer.queryName(flow.name).option(
            "checkpointLocation", f"{options.checkpoints}/{flow.name}"
        )
        if options.once:
            return writer.trigger(availableNow=True)
        if self.realtime:
            trigger: Any = writer.trigger  # Spark's type annotations do not have it yet
            made: DataStreamWriter = trigger(realTime=REALTIME_BATCH)
            return made
        return writer if flow.every is None else writer.trigger(processingTime=flow.every)

    def start(self, writer: DataStreamWriter, now_s: float) -> None:
        """Start the query; raises Spark's error if it rejects the plan."""
        self.due_s, self._started_s = None, now_s
        self._backoff.started(now_s)
        self._query = writer.start()
        self.query_id = self._query.id
        self.progress.state, self.progress.error = "running", None

    def settled(self, now_s: float) -> bool:
        """Whether the start is over: a batch has finished, there is no data, or it has taken too long."""
        if self._query is None or self.progress.batch is not None:
            return True
        return now_s - self._started_s > SETTLING_S_MAX or self._query.status["message"] == _NOTHING_TO_READ

    def on_report(self, batch: Mapping[str, Any] | None) -> None:
        """Apply a report: of a finished batch, or None if there was no data."""
        if batch is None:
            self.progress.rows_per_s = 0.0
        else:
            self.progress.report(batch)
        self._backoff.batch_done()

    def check(self, now_s: float) -> bool:
        """Detect the end or a failure of the query; return whether there was one. A final error is raised."""
        query = self._query
        if query is None or query.isActive:
            return False
        self._query = None
        error = query.exception()
        if error is None:
            self.progress.state = "ended"
        elif is_final(error):
            raise self.rejected(error) from error
        else:
            self.failed(error, now_s)
        return True

    def rejected(self, error: BaseException) -> PlanRejected:
        """End the flow permanently; return the exception to raise."""
        self._query, self.due_s = None, None
        self.progress.state, self.progress.error = "failed", self._message(error)
        return PlanRejected(f"flow {self.flow.name}: {self.progress.error}")

    def failed(self, error: BaseException, now_s: float) -> None:
        """Schedule the next start, or give up."""
        self._query = None
        self.progress.error = self._message(error)
        self.due_s = self._backoff.failed(now_s)
        self.progress.restarts = self._backoff.total
        self.progress.state = "failed" if self.due_s is None else "waiting"

    def _function(self) -> str:
        """The name and the position of the function of the flow."""
        code = getattr(self.flow.function, "__code__", None)
        if code is None:
            return "the function"
        return f"{code.co_name} ({Path(code.co_filename).name}, line {code.co_firstlineno})"

    def _message(self, error: BaseException) -> str:
        code = getattr(self.flow.function, "__code__", None)
        return error_message(error) + (location_of(error, code.co_filename) if code is not None else "")

    @property
    def finished(self) -> bool:
        return self.progress.state in {"ended", "failed"}

    def stop(self) -> None:
        query, self._query = self._query, None
        if not self.finished:
            self.progress.state = "stopped"
        if query is not None and query.isActive:
            query.stop()
