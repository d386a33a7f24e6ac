"""One flow under way: its streaming query, started, watched, started again.

    waiting --start--> running --the query ended by itself--> ended     (a triggered run)
       ^                  |
       +---- back-off ----+--the query failed--> failed, when there were too many failures

What is wrong with the declaration shows when the writer is made (`writer`), or in the first batch as a refusal of
Spark's. Either is final: `PlanRefused` ends the run. What else goes wrong in a query may be over the next time.

A checkpoint belongs to one query: a flow is never started twice at a time. Used by the runner's thread only; what
Spark's listener reports is handed over by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.base.errors import LocalError
from ottla.pipelines.declare import Flow, Topic
from ottla.pipelines.io import tables
from ottla.pipelines.io.connectors import Connector
from ottla.pipelines.progress import FlowProgress
from ottla.pipelines.runtime.restart_backoff import RESTARTS_ONCE, Backoff
from ottla.pipelines.spark_errors import PlanRefused, error_message, is_final, location_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

REALTIME_BATCH: Final = "5 seconds"
SETTLING_S_MAX: Final = 20.0
_NOTHING_TO_READ: Final = "Waiting for data to arrive"


@dataclass(frozen=True)
class RunOptions:
    """How a pipeline is run."""

    bootstrap: str
    state: Path
    """The folder of this pipeline's log, progress and, unless told otherwise, checkpoints and tables."""
    connector: Connector
    checkpoints: str
    tables: str
    master: str = "local[*]"
    realtime: bool = False
    once: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[str, ...] = ()
    restarts_max: int | None = None
    """None for the default: a triggered run gives up some time, a continuous one never."""

    @property
    def restarts(self) -> int | None:
        return RESTARTS_ONCE if self.once and self.restarts_max is None else self.restarts_max


class FlowQuery:
    """A flow and what has become of it."""

    def __init__(self, pipeline: str, flow: Flow, options: RunOptions) -> None:
        self.flow = flow
        self.realtime = options.realtime and isinstance(flow.writes, Topic)
        self.progress = FlowProgress(state="waiting", realtime=self.realtime)
        self.due_s: float | None = 0.0
        self._group = f"{pipeline}.{flow.name}"
        self._options = options
        self._backoff = Backoff(options.restarts)
        self._query: StreamingQuery | None = None
        self.query_id: str | None = None
        """Of the query, as its checkpoint keeps it; None before the first start."""
        self._started_s = 0.0

    def frame(self, spark: SparkSession) -> DataFrame:
        """What the flow's function makes of what it reads."""
        options = self._options
        sources = [
            options.connector.read(spark, place, self._group)
            if isinstance(place, Topic)
            else tables.read(spark, place, options.tables)
            for place in self.flow.reads
        ]
        frame = self.flow.function(*sources)
        if not hasattr(frame, "writeStream"):
            what = "None" if frame is None else f"a {type(frame).__name__}"
            raise LocalError(f"{self._function()} returned {what}, not a data frame: is a return missing?")
        return frame

    def writer(self, frame: DataFrame) -> DataStreamWriter:
        """What writes the flow's frame to where it belongs; a declaration that does not fit is refused here."""
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
            trigger: Any = writer.trigger  # Spark's own types do not know real time yet
            made: DataStreamWriter = trigger(realTime=REALTIME_BATCH)
            return made
        return writer if flow.every is None else writer.trigger(processingTime=flow.every)

    def start(self, writer: DataStreamWriter, now_s: float) -> None:
        """Starts the query; raises what Spark says about a plan that is wrong."""
        self.due_s, self._started_s = None, now_s
        self._backoff.started(now_s)
        self._query = writer.start()
        self.query_id = self._query.id
        self.progress.state, self.progress.error = "running", None

    def settled(self, now_s: float) -> bool:
        """Whether it is past its start: a batch is done, there is nothing to read, or it takes too long."""
        if self._query is None or self.progress.batch is not None:
            return True
        return now_s - self._started_s > SETTLING_S_MAX or self._query.status["message"] == _NOTHING_TO_READ

    def reported(self, batch: Mapping[str, Any] | None) -> None:
        """A batch is done, or (None) there was nothing to do."""
        if batch is None:
            self.progress.rows_per_s = 0.0
        else:
            self.progress.report(batch)
        self._backoff.worked()

    def look(self, now_s: float) -> bool:
        """Notices an end or a failure; whether something has changed. Raises `PlanRefused` for a final one."""
        query = self._query
        if query is None or query.isActive:
            return False
        self._query = None
        error = query.exception()
        if error is None:
            self.progress.state = "ended"
        elif is_final(error):
            raise self.refused(error) from error
        else:
            self.failed(error, now_s)
        return True

    def refused(self, error: BaseException) -> PlanRefused:
        """Gives up for good; what to raise."""
        self._query, self.due_s = None, None
        self.progress.state, self.progress.error = "failed", self._told(error)
        return PlanRefused(f"flow {self.flow.name}: {self.progress.error}")

    def failed(self, error: BaseException, now_s: float) -> None:
        """Plans the next start, or gives up."""
        self._query = None
        self.progress.error = self._told(error)
        self.due_s = self._backoff.failed(now_s)
        self.progress.restarts = self._backoff.total
        self.progress.state = "failed" if self.due_s is None else "waiting"

    def _function(self) -> str:
        """The flow's function, and where it is."""
        code = getattr(self.flow.function, "__code__", None)
        if code is None:
            return "the function"
        return f"{code.co_name} ({Path(code.co_filename).name}, line {code.co_firstlineno})"

    def _told(self, error: BaseException) -> str:
        code = getattr(self.flow.function, "__code__", None)
        return error_message(error) + (location_of(error, code.co_filename) if code is not None else "")

    @property
    def over(self) -> bool:
        return self.progress.state in {"ended", "failed"}

    def stop(self) -> None:
        query, self._query = self._query, None
        if not self.over:
            self.progress.state = "stopped"
        if query is not None and query.isActive:
            query.stop()
