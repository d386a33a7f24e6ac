"""How pipelines are drawn in a terminal: tables of flows, their progress, past runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ottla.pipelines.declare import Pipeline
from ottla.pipelines.progress import FlowProgress, RunProgress

_COLOURS = {
    "starting": "yellow",
    "running": "green",
    "waiting": "yellow",
    "ended": "cyan",
    "stopped": "cyan",
    "failed": "red",
}


def pipeline_table(source: str, pipeline: Pipeline, last: RunProgress | None) -> RenderableType:
    """What a pipeline consists of."""
    table = _table(["flow", "reads", "writes", "mode", "every"])
    for flow in pipeline.flows.values():
        reads = ", ".join(map(str, flow.reads))
        cells = (flow.name, reads, str(flow.writes), flow.mode, flow.every or "at once")
        table.add_row(*map(Text, cells))
    return Group(Text(f"{pipeline.name} ({source}): {_fate(last)}", style="italic"), table)


def progress_table(progress: RunProgress) -> RenderableType:
    """A run, live."""
    title = f"{progress.pipeline} on {progress.master}, {progress.bootstrap} through {progress.connector}"
    figures = ["rows", "rows/s", "lag", "batch", "batch ms", "state rows", "late", "left out", "watermark"]
    table = _table(["flow", "state"], figures)
    errors = []
    for name, flow in progress.flows.items():
        table.add_row(name, _state(flow), *_figures(flow))
        if flow.error:
            errors.append(Text(f"{name}: {flow.error}", style="red"))
    return Group(Text(title, style="italic"), table, *errors)


def flow_line(name: str, flow: FlowProgress) -> str:
    """The same of one flow where there is no terminal."""
    rows, speed, lag, batch, batch_ms, state_rows, late, left_out, watermark = _figures(flow)
    line = f"{name}: {flow.state}"
    if flow.batch is not None:
        line += (
            f", {rows} rows, {speed} rows/s, lag {lag}, batch {batch} in {batch_ms} ms, {state_rows} state rows, "
            f"{late} late, {left_out} left out, watermark {watermark}"
        )
    return f"{line} ({flow.error})" if flow.error else line


def status_table(runs: Sequence[RunProgress], now_ms: int) -> RenderableType:
    """Runs of several pipelines, as they were last told."""
    table = _table(
        ["pipeline", "flow", "state", "rows", "rows/s", "lag", "batch", "batch ms", "state rows", "told"]
    )
    errors = []
    for run in runs:
        for name, flow in run.flows.items():
            state = Text("gone", style="red") if run.gone else _state(flow)
            ago = f"{max(0, now_ms - run.updated_ms) // 1000} s ago"
            table.add_row(run.pipeline, name, state, *_figures(flow)[:6], ago)
            if flow.error:
                errors.append(Text(f"{run.pipeline}, {name}: {flow.error}", style="red"))
        if run.error and not any(flow.error for flow in run.flows.values()):
            errors.append(Text(f"{run.pipeline}: {run.error}", style="red"))
    return Group(table, *errors)


def _table(texts: Sequence[str], figures: Sequence[str] = ()) -> Table:
    table = Table(box=None, header_style="bold")
    for heading in texts:
        table.add_column(heading, overflow="fold")
    for heading in figures:
        table.add_column(heading, justify="right")
    return table


def _fate(last: RunProgress | None) -> str:
    if last is None:
        return "never run"
    if last.gone:
        return f"gone, ended without a word as {last.pid}"
    return f"running as {last.pid}" if last.alive else last.state


def _state(flow: FlowProgress) -> Text:
    words = flow.state + (" in real time" if flow.realtime and flow.state == "running" else "")
    if flow.restarts:
        words += f" ({flow.restarts} restarts)"
    return Text(words, style=_COLOURS[flow.state])


def _figures(flow: FlowProgress) -> tuple[str, ...]:
    return (
        f"{flow.rows:,}",
        f"{flow.rows_per_s:,.0f}",
        "-" if flow.lag is None else f"{flow.lag:,}",
        "-" if flow.batch is None else str(flow.batch),
        "-" if flow.batch_ms is None else str(flow.batch_ms),
        f"{flow.state_rows:,}",
        f"{flow.late_rows:,}",
        f"{flow.left_out:,}",
        flow.watermark or "-",
    )
