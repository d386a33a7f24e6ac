"""The figures of a run, from Spark's reports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla.pipelines.progress import FlowProgress, RunProgress, lag


def report(batch: int, **fields: Any) -> dict[str, Any]:
    return {
        "batchId": batch,
        "numInputRows": 10,
        "processedRowsPerSecond": 50.0,
        "durationMs": {"triggerExecution": 200},
        "sources": [{"endOffset": {"t": {"0": 5, "1": 7}}, "latestOffset": {"t": {"0": 8, "1": 7}}}],
        "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
        "stateOperators": [
            {"numRowsTotal": 3, "numRowsDroppedByWatermark": 1},
            {"numRowsTotal": 4, "numRowsDroppedByWatermark": 0},
        ],
        **fields,
    }


def run(**fields: Any) -> RunProgress:
    given = {"pid": os.getpid(), "started_ms": 1, "updated_ms": 2, "bootstrap": "b", "connector": "ottla"}
    return RunProgress(**{"pipeline": "p", "master": "local[2]", "state": "running", **given, **fields})


def test_batches_add_up() -> None:
    flow = FlowProgress()
    flow.report(report(0))
    flow.report(report(1, numInputRows=5))
    assert (flow.batch, flow.rows, flow.rows_per_s, flow.batch_ms, flow.lag) == (1, 15, 50.0, 200, 3)
    assert (flow.state_rows, flow.late_rows, flow.watermark) == (7, 2, "2026-01-01T00:00:00.000Z")


def test_dropped_rows_of_a_flow_are_counted() -> None:
    flow = FlowProgress()
    flow.report(report(0, observedMetrics={"left_out": {"left_out": 3}, "other": {"rows": 9}}))
    flow.report(report(1, observedMetrics={"left_out": {"left_out": 4}}))
    flow.report(report(2, observedMetrics={"left_out": None}))
    assert flow.left_out == 7


def test_a_report_counts_once() -> None:
    flow = FlowProgress()
    flow.report(report(0))
    flow.report(report(0))
    assert flow.rows == 10


def test_a_pause_is_no_speed() -> None:
    flow = FlowProgress()
    flow.report(report(0))
    flow.report(report(0, numInputRows=0))
    assert (flow.rows, flow.rows_per_s) == (10, 0.0)


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), None, "NaN", "Infinity"])
def test_a_rate_that_is_not_a_number_is_zero(rate: Any) -> None:
    flow = FlowProgress()
    flow.report(report(0, processedRowsPerSecond=rate))
    assert flow.rows_per_s == 0.0


def test_a_watermark_that_has_not_moved_is_none() -> None:
    flow = FlowProgress()
    flow.report(report(0, eventTime={"watermark": "1970-01-01T00:00:00.000Z"}))
    assert flow.watermark is None


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([], None),
        ([{"endOffset": None, "latestOffset": '{"t":{"0":3}}'}], None),
        ([{"endOffset": '{"t":{"0":1}}', "latestOffset": '{"t":{"0":3}}'}], 2),
        ([{"endOffset": '{"t":{"0":1}}', "latestOffset": '{"t":{"0":3,"1":4}}'}], 6),
        ([{"endOffset": '{"t":{"0":9}}', "latestOffset": '{"t":{"0":3}}'}], 0),
        ([{"endOffset": "12", "latestOffset": "13"}], None),
        ([{"endOffset": '{"t":{"0":1}}', "latestOffset": '{"t":{"0":3}}'}] * 2, 4),
    ],
)
def test_lag_is_the_difference_of_the_offsets(sources: Any, expected: int | None) -> None:
    assert lag(sources) == expected


def test_a_run_is_read_back_as_written(tmp_path: Path) -> None:
    written = run(flows={"f": FlowProgress(state="running", batch=3, error="why")})
    written.write(tmp_path)
    assert RunProgress.read(tmp_path) == written
    assert [path.name for path in tmp_path.iterdir()] == ["progress.json"]


def test_where_nothing_has_run_nothing_is_read(tmp_path: Path) -> None:
    assert RunProgress.read(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"pipeline": 5}'])
def test_a_file_that_is_none_of_ours_is_no_run(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "progress.json").write_bytes(content)
    assert RunProgress.read(tmp_path) is None


def test_a_run_is_alive_while_its_process_is() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert run().alive
    assert not run(pid=gone.pid).alive
    assert not run(state="stopped").alive


def test_corrupt_values_are_counted_with_some_positions() -> None:
    flow = FlowProgress()
    for batch in range(8):
        first = {"partition": 0, "offset": batch}
        metrics = {"ottla.corrupt.0.a.b": {"count": 2, "first": first}, "ottla.corrupt.1.c": {"count": 0}}
        flow.report(report(batch, observedMetrics=metrics))
    flow.report(report(9, observedMetrics={"ottla.corrupt.0.t": {"count": 1}, "ottla.corrupt.1.t": None}))
    assert flow.corrupt == 17
    assert flow.corrupt_first == [f"a.b-0 at offset {batch}" for batch in range(5)]
