"""How a pipeline is doing: what Spark reports of each batch, in the few figures one looks at.

`FlowProgress.of` takes Spark's progress report of a query. `RunProgress` is a whole run, written as JSON to the state
folder whenever it changes, atomically, and read by `ottla pipelines status`. Pure, but for that file.
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
"""The observation, and its one figure, in which a flow counts the rows that it does not use."""
_NO_WATERMARK: Final = "1970-01-01T00:00:00.000Z"
"""What Spark tells before the first event has moved it."""


class FlowProgress(msgspec.Struct, kw_only=True):
    """One flow."""

    state: State = "starting"
    batch: int | None = None
    rows: int = 0
    """Read since the run began."""
    rows_per_s: float = 0.0
    batch_ms: int | None = None
    """How long the last batch took."""
    lag: int | None = None
    """Records that wait to be read; None if the connector does not tell."""
    watermark: str | None = None
    """Events that happened before this are too late."""
    state_rows: int = 0
    late_rows: int = 0
    """Left out for being too late, since the run began."""
    left_out: int = 0
    """Left out by the flow itself, if it observes them as `LEFT_OUT`, since the run began."""
    restarts: int = 0
    error: str | None = None
    realtime: bool = False

    def report(self, progress: Mapping[str, Any]) -> None:
        """Takes in Spark's report of a batch; the same report twice changes nothing."""
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
        self.late_rows += sum(int(each.get("numRowsDroppedByWatermark", 0)) for each in operators)


class RunProgress(msgspec.Struct, kw_only=True):
    """One run of a pipeline."""

    pipeline: str
    pid: int
    started_ms: int
    updated_ms: int
    bootstrap: str
    connector: str
    master: str
    state: State = "starting"
    error: str | None = None
    """Why the whole run has failed; flows that failed have their own."""
    flows: dict[str, FlowProgress] = msgspec.field(default_factory=dict)

    @property
    def alive(self) -> bool:
        """Whether the process that wrote this still runs (on this machine)."""
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
    def gone(self) -> bool:
        """Whether its process has ended without a word."""
        return self.state in {"starting", "running"} and not self.alive

    def write(self, folder: Path) -> None:
        fresh = folder / f"{FILE}.new"
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")
        fresh.replace(folder / FILE)

    @classmethod
    def read(cls, folder: Path) -> RunProgress | None:
        """The last run from this folder; None if there was none, or what is there is not the file we write."""
        try:
            return msgspec.json.decode((folder / FILE).read_bytes(), type=cls)
        except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
            return None


def lag(sources: list[Mapping[str, Any]]) -> int | None:
    """How many records lie between what was read and what is there, over all sources that tell both."""
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


def _offsets(told: Any) -> dict[str, dict[str, int]] | None:
    """Offsets by topic and partition, which arrive as JSON text or as what it says."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return None
    return told if isinstance(told, dict) and all(isinstance(v, dict) for v in told.values()) else None


def _finite(number: Any) -> float:
    """Spark reports infinite and missing rates for batches of no time."""
    value = float(number or 0.0)
    return value if value == value and abs(value) != float("inf") else 0.0  # noqa: PLR0124 - NaN
