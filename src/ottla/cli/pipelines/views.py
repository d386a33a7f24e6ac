"""Terminal output for pipelines: tables of flows, progress and past runs. Pure.

If a table is wider than the terminal, one line per flow is printed instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ottla.pipelines.declare import Pipeline
from ottla.pipelines.progress import FlowProgress, RunProgress

_FIGURES: Final = ("rows", "rows/s", "lag", "batch", "batch ms", "state rows", "late", "dropped", "corrupt")
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
    """The flows of a pipeline and the state of its last run."""
    table = _table(["flow", "reads", "writes", "mode", "every"])
    for flow in pipeline.flows.values():
        reads = ", ".join(map(str, flow.reads))
        cells = (flow.name, reads, str(flow.writes), flow.mode, flow.every or "continuous")
        table.add_row(*map(Text, cells))
    return Group(Text(f"{pipeline.name} ({source}): {_last_state(last)}", style="italic"), table)


def progress_table(progress: RunProgress) -> RenderableType:
    """The progress of a run."""
    title = f"{progress.pipeline} on {progress.master}, {progress.bootstrap} through {progress.connector}"
    table = _table(["flow", "state"], [*_FIGURES, "watermark"])
    lines, errors = [], []
    outage = outage_line(progress)
    for name, flow in progress.flows.items():
        table.add_row(name, _state(flow, outage), *_figures(flow, outage), _watermark(flow))
        lines.append(Text(flow_line(name, flow, outage), style="red" if outage else _COLOURS[flow.state]))
        if flow.error:
            errors.append(Text(f"{name}: {flow.error}", style="red"))
        if flow.corrupt_first:
            errors.append(Text(f"{name}: corrupt values, such as {flow.corrupt_first[0]}", style="yellow"))
    above = [Text(title, style="italic"), *([Text(outage, style="bold red")] if outage else [])]
    return Group(*above, _Fitting(table, errors, lines))


def outage_line(progress: RunProgress) -> str | None:
    """That no broker can be reached, since when and why; None if there is no outage."""
    if progress.outage is None or progress.outage_since_ms is None:
        return None
    since = datetime.fromtimestamp(progress.outage_since_ms / 1000, UTC).astimezone()
    return f"No broker can be reached since {since:%H:%M:%S}: {progress.outage}"


def flow_line(name: str, flow: FlowProgress, outage: str | None = None) -> str:
    """The progress of one flow as a line, for output that is not a terminal or for a narrow one."""
    line = f"{name}: {_state(flow, outage)}"
    if flow.batch is not None:
        rows, speed, lag, batch, batch_ms, state_rows, late, left_out, corrupt = _figures(flow, outage)
        line += (
            f", {rows} rows, {speed} rows/s, lag {lag}, batch {batch} in {batch_ms} ms, {state_rows} state rows, "
            f"{late} late, {left_out} dropped, {corrupt} corrupt, watermark {_watermark(flow)}"
        )
        if flow.corrupt_first:
            line += f" (corrupt: {', '.join(flow.corrupt_first)})"
    return f"{line} ({flow.error})" if flow.error else line


def status_table(runs: Sequence[RunProgress], now_ms: int) -> RenderableType:
    """The last reported progress of several pipelines."""
    table = _table(["pipeline", "flow", "state"], [*_FIGURES, "updated"])
    lines, errors, whole = [], [], []
    for run in runs:
        outage = outage_line(run) if run.alive else None
        if outage:
            whole.append(Text(f"{run.pipeline}: {outage}", style="red"))
        ago = f"{max(0, now_ms - run.updated_ms) // 1000} s ago"
        for name, flow in run.flows.items():
            state = Text("dead", style="red") if run.dead else _state(flow, outage)
            table.add_row(run.pipeline, name, state, *_figures(flow, outage), ago)
            dead = ", but its process does not exist any more" if run.dead else ""
            lines.append(Text(f"{run.pipeline}, {flow_line(name, flow, outage)}{dead}, updated {ago}"))
            if flow.error:
                errors.append(Text(f"{run.pipeline}, {name}: {flow.error}", style="red"))
            if flow.corrupt_first:
                listed = ", ".join(flow.corrupt_first)
                errors.append(Text(f"{run.pipeline}, {name}: corrupt values: {listed}", style="yellow"))
        if run.error and not any(flow.error for flow in run.flows.values()):
            whole.append(Text(f"{run.pipeline}: {run.error}", style="red"))
    return Group(_Fitting(table, errors, lines), *whole)


@dataclass(frozen=True)
class _Fitting:
    """A table with the errors below it if it fits into the width, otherwise one line per flow."""

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


def run_table(progress: RunProgress) -> RenderableType:
    """The flows of a pipeline that has run, if its file is not given."""
    table = _table(["flow", "state"])
    for name, flow in progress.flows.items():
        table.add_row(name, _state(flow))
    source = f" ({progress.source})" if progress.source else ""
    return Group(Text(f"{progress.pipeline}{source}: {_last_state(progress)}", style="italic"), table)


def _last_state(last: RunProgress | None) -> str:
    if last is None:
        return "never run"
    if last.dead:
        return f"dead: process {last.pid} ended without reporting a result"
    return f"running, process {last.pid}" if last.alive else last.state


def _state(flow: FlowProgress, outage: str | None = None) -> Text:
    """The state; a flow that waits for a broker does not make progress, whatever its query reports."""
    is_waiting = outage is not None and flow.state in {"running", "waiting"}
    text: str = "no broker" if is_waiting else flow.state
    if flow.state == "running" and not is_waiting:
        text += (" in real time" if flow.realtime else "") + (", first batch" if flow.batch is None else "")
    if flow.restarts:
        text += f" ({flow.restarts} restarts)"
    return Text(text, style="red" if is_waiting else _COLOURS[flow.state])


def _figures(flow: FlowProgress, outage: str | None = None) -> tuple[str, ...]:
    """The figures in the order of `_FIGURES`. The lag is unknown during an outage."""
    return (
        f"{flow.rows:,}",
        f"{flow.rows_per_s:,.0f}",
        "-" if flow.lag is None else "?" if outage else f"{flow.lag:,}",
        "-" if flow.batch is None else str(flow.batch),
        "-" if flow.batch_ms is None else str(flow.batch_ms),
        f"{flow.state_rows:,}",
        f"{flow.late_rows:,}",
        f"{flow.left_out:,}",
        f"{flow.corrupt:,}",
    )


def _watermark(flow: FlowProgress) -> str:
    return flow.watermark or "-"
