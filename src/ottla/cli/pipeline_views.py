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


def pipeline_table(source: str, pipeline: Pipeline, last: RunProgress | None) -> Table:
    """What a pipeline consists of."""
    state = "never run" if last is None else f"running as {last.pid}" if last.alive else last.state
    table = Table(
        title=f"{pipeline.name} ({source}): {state}", title_justify="left", box=None, header_style="bold"
    )
    for heading in ("flow", "reads", "writes", "mode", "every"):
        table.add_column(heading)
    for flow in pipeline.flows.values():
        reads = ", ".join(map(str, flow.reads))
        table.add_row(flow.name, reads, str(flow.writes), flow.mode, flow.every or "at once")
    return table


def progress_table(progress: RunProgress) -> RenderableType:
    """A run, live."""
    title = f"{progress.pipeline} on {progress.master}, {progress.bootstrap} through {progress.connector}"
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    table.add_column("flow")
    table.add_column("state")
    for heading in ("rows", "rows/s", "lag", "batch", "batch ms", "state rows", "late", "watermark"):
        table.add_column(heading, justify="right")
    errors = []
    for name, flow in progress.flows.items():
        table.add_row(name, _state(flow), *_figures(flow))
        if flow.error:
            errors.append(Text(f"{name}: {flow.error}", style="red"))
    return Group(table, *errors)


def flow_line(name: str, flow: FlowProgress) -> str:
    """The same of one flow where there is no terminal."""
    rows, speed, lag, batch, batch_ms, state_rows, late, watermark = _figures(flow)
    line = f"{name}: {flow.state}"
    if flow.batch is not None:
        line += (
            f", {rows} rows, {speed} rows/s, lag {lag}, batch {batch} in {batch_ms} ms, {state_rows} state rows, "
            f"{late} late, watermark {watermark}"
        )
    return f"{line} ({flow.error})" if flow.error else line


def status_table(runs: Sequence[RunProgress], now_ms: int) -> Table:
    """Runs of several pipelines, as they were last told."""
    table = Table(box=None, header_style="bold")
    for heading in ("pipeline", "flow", "state", "rows", "rows/s", "lag", "batch", "batch ms", "state rows"):
        table.add_column(heading)
    table.add_column("told")
    for run in runs:
        gone = not run.alive and run.state in {"starting", "running"}
        for name, flow in run.flows.items():
            state = Text("gone", style="red") if gone else _state(flow)
            ago = f"{max(0, now_ms - run.updated_ms) // 1000} s ago"
            table.add_row(run.pipeline, name, state, *_figures(flow)[:6], ago)
    return table


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
        flow.watermark or "-",
    )
