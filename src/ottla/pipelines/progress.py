"""The progress of a run and of its flows, from Spark's report of each batch.

`RunProgress` is written as JSON to the state directory whenever it changes, atomically, and is read by
`ottla pipelines status`. Pure, except for that file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

State = Literal["starting", "running", "waiting", "ended", "failed", "stopped"]
FILE: Final = "progress.json"
LEFT_OUT: Final = "left_out"
"""The name of the observation, and of its metric, in which a flow counts the rows that it drops."""
CORRUPT_METRIC: Final = "ottla.corrupt."
"""The beginning of the names of observations that count corrupt values; a number and the topic follow."""
CORRUPT_SHOWN_MAX: Final = 5
_NO_WATERMARK: Final = "1970-01-01T00:00:00.000Z"
"""What Spark reports before the first event."""


class FlowProgress(msgspec.Struct, kw_only=True):
    """The progress of one flow."""

    reads: list[str] = msgspec.field(default_factory=list)
    """What the flow reads and writes, such as `topic matches`: the edges of the graph of the pipeline."""
    writes: str | None = None
    state: State = "starting"
    batch: int | None = None
    rows: int = 0
    """Rows read in this run."""
    rows_per_s: float = 0.0
    batch_ms: int | None = None
    """The duration of the last batch."""
    lag: int | None = None
    """Records that are not read yet; None if the connector does not report it."""
    watermark: str | None = None
    """Events with an earlier time are too late."""
    state_rows: int = 0
    late_rows: int = 0
    """Rows dropped in this run because they were too late."""
    left_out: int = 0
    """Rows dropped in this run by the flow itself, if it observes them as `LEFT_OUT`."""
    corrupt: int = 0
    """Values read in this run that do not match the schema of their topic."""
    corrupt_first: list[str] = msgspec.field(default_factory=list)
    """The positions of some of the first ones, one per batch."""
    restarts: int = 0
    error: str | None = None
    realtime: bool = False

    def report(self, progress: Mapping[str, Any]) -> None:
        """Apply Spark's report of a batch; the same report a second time changes nothing."""
        if self.batch == progress["batchId"] and not progress.get("numInputRows"):
            self.rows_per_s = 0.0
            return
        if self.batch == progress["batchId"]:
            return
        self.batch = progress["batchId"]
        self.rows += int(progress.get("numInputRows") or 0)
        self.rows_per_s = _finite(progress.get("processedRowsPerSecond"))
        self.batch_ms = int(progress.get("durationMs", {}).get("triggerExecution", 0))
        self.lag = lag(progress.get("sources", []))
        watermark = progress.get("eventTime", {}).get("watermark", self.watermark)
        self.watermark = None if watermark == _NO_WATERMARK else watermark
        operators = progress.get("stateOperators", [])
        self.state_rows = sum(int(each.get("numRowsTotal", 0)) for each in operators)
        self.left_out += int((progress.get("observedMetrics", {}).get(LEFT_OUT) or {}).get(LEFT_OUT) or 0)
        self._count_corrupt(progress.get("observedMetrics", {}))
        self.late_rows += sum(int(each.get("numRowsDroppedByWatermark", 0)) for each in operators)

    def _count_corrupt(self, metrics: Mapping[str, Any]) -> None:
        for name, values in metrics.items():
            if not name.startswith(CORRUPT_METRIC) or not values or not values.get("count"):
                continue
            self.corrupt += int(values["count"])
            first, topic = values.get("first"), name.removeprefix(CORRUPT_METRIC).partition(".")[2]
            if first and len(self.corrupt_first) < CORRUPT_SHOWN_MAX:
                self.corrupt_first.append(f"{topic}-{first['partition']} at offset {first['offset']}")


class RunProgress(msgspec.Struct, kw_only=True):
    """The progress of one run of a pipeline."""

    pipeline: str
    pid: int
    started_ms: int
    updated_ms: int
    bootstrap: str
    connector: str
    master: str
    source: str = ""
    """The file or module that was run."""
    state: State = "starting"
    error: str | None = None
    """The error of the whole run; a failed flow has its own."""
    outage: str | None = None
    """Why no broker can be reached at present."""
    outage_since_ms: int | None = None
    flows: dict[str, FlowProgress] = msgspec.field(default_factory=dict)

    @property
    def alive(self) -> bool:
        """Whether the process that wrote this is running (on this machine)."""
        if self.state in {"ended", "failed", "stopped"}:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    @property
    def dead(self) -> bool:
        """Whether the process has ended without reporting a result."""
        return self.state in {"starting", "running"} and not self.alive

    def write(self, folder: Path) -> None:
        fresh = folder / f"{FILE}.new"
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")
        fresh.replace(folder / FILE)

    @classmethod
    def read(cls, folder: Path) -> RunProgress | None:
        """The last run with this state directory; None if there is no valid progress file."""
        try:
            return msgspec.json.decode((folder / FILE).read_bytes(), type=cls)
        except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
            return None


def lag(sources: list[Mapping[str, Any]]) -> int | None:
    """The number of records between the read and the latest offsets, over all sources that report both."""
    found: int | None = None
    for source in sources:
        read, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        if read is None or latest is None:
            continue
        waiting = 0
        for topic, partitions in latest.items():
            for partition, offset in partitions.items():
                waiting += max(0, offset - read.get(topic, {}).get(partition, 0))
        found = (found or 0) + waiting
    return found


def _offsets(reported: Any) -> dict[str, dict[str, int]] | None:
    """Offsets by topic and partition, from JSON text or from the decoded object; None if they are neither."""
    if isinstance(reported, str):
        try:
            reported = json.loads(reported)
        except ValueError:
            return None
    is_nested = isinstance(reported, dict) and all(isinstance(each, dict) for each in reported.values())
    return reported if is_nested else None


def _finite(number: Any) -> float:
    """Zero for the infinite and missing rates that Spark reports for batches without a duration."""
    value = float(number or 0.0)
    return value if value == value and abs(value) != float("inf") else 0.0  # noqa: PLR0124 - NaN
