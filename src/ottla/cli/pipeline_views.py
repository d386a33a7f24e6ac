"""How pipelines are drawn in a terminal: tables of flows, their progress, past runs. Pure.

A table of figures that is wider than the terminal would be broken into pieces: then there is a line for each flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ottla.pipelines.declare import Pipeline
from ottla.pipelines.progress import FlowProgress, RunProgress

_FIGURES: Final = ("rows", "rows/s", "lag", "batch", "batch ms", "state rows", "late", "left out")
_ANY_WIDTH: Final = 10_000
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
    table = _table(["flow", "state"], [*_FIGURES, "watermark"])
    lines, errors = [], []
    for name, flow in progress.flows.items():
        table.add_row(name, _state(flow), *_figures(flow), _watermark(flow))
        lines.append(Text(flow_line(name, flow), style=_COLOURS[flow.state]))
        if flow.error:
            errors.append(Text(f"{name}: {flow.error}", style="red"))
    return Group(Text(title, style="italic"), _Fitting(table, errors, lines))


def flow_line(name: str, flow: FlowProgress) -> str:
    """The same of one flow where there is no terminal, or a narrow one."""
    line = f"{name}: {flow.state}"
    if flow.batch is not None:
        rows, speed, lag, batch, batch_ms, state_rows, late, left_out = _figures(flow)
        line += (
            f", {rows} rows, {speed} rows/s, lag {lag}, batch {batch} in {batch_ms} ms, {state_rows} state rows, "
            f"{late} late, {left_out} left out, watermark {_watermark(flow)}"
        )
    return f"{line} ({flow.error})" if flow.error else line


def status_table(runs: Sequence[RunProgress], now_ms: int) -> RenderableType:
    """Runs of several pipelines, as they were last told."""
    table = _table(["pipeline", "flow", "state"], [*_FIGURES, "told"])
    lines, errors, whole = [], [], []
    for run in runs:
        ago = f"{max(0, now_ms - run.updated_ms) // 1000} s ago"
        for name, flow in run.flows.items():
            state = Text("gone", style="red") if run.gone else _state(flow)
            table.add_row(run.pipeline, name, state, *_figures(flow), ago)
            gone = ", but its process is gone" if run.gone else ""
            lines.append(Text(f"{run.pipeline}, {flow_line(name, flow)}{gone}, told {ago}"))
            if flow.error:
                errors.append(Text(f"{run.pipeline}, {name}: {flow.error}", style="red"))
        if run.error and not any(flow.error for flow in run.flows.values()):
            whole.append(Text(f"{run.pipeline}: {run.error}", style="red"))
    return Group(_Fitting(table, errors, lines), *whole)


@dataclass(frozen=True)
class _Fitting:
    """A table with the errors below it where it fits, lines with everything where it does not."""

    table: Table
    errors: Sequence[Text]
    lines: Sequence[Text]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wanted = Measurement.get(console, options.update_width(_ANY_WIDTH), self.table).maximum
        if wanted <= options.max_width:
            yield Group(self.table, *self.errors)
        else:
            yield Group(*self.lines)


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
    """In the order of `_FIGURES`."""
    return (
        f"{flow.rows:,}",
        f"{flow.rows_per_s:,.0f}",
        "-" if flow.lag is None else f"{flow.lag:,}",
        "-" if flow.batch is None else str(flow.batch),
        "-" if flow.batch_ms is None else str(flow.batch_ms),
        f"{flow.state_rows:,}",
        f"{flow.late_rows:,}",
        f"{flow.left_out:,}",
    )


def _watermark(flow: FlowProgress) -> str:
    return flow.watermark or "-"
