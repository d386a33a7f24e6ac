"""Page Pipelines: Spark flows as a graph topic, flow, topic, with rates, batch time, lag, watermark and errors.

The runs are those of the state directory of the pipelines, where each run writes its progress. The offsets/s of topics
are those of the poller.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ottla.base.clock import SystemClock
from ottla.console.page import Console, Context, Page, View
from ottla.console.presentation.graph import Graph, layout
from ottla.pipelines.progress import RunProgress

ACTIVE = ("running", "waiting")


@dataclass(frozen=True)
class RunView:
    """One run with its graph."""

    run: RunProgress
    graph: Graph

    @property
    def state(self) -> str:
        return "dead" if self.run.dead else self.run.state


def context(console: Console, view: View) -> Context:
    return {
        "snapshot": view.snapshot,
        "runs": [run_view(each) for each in read_runs(console.pipelines)],
        "folder": str(console.pipelines),
        "now_ms": SystemClock().now_ms(),
        "command": f"ottla pipelines status --state {console.pipelines}",
    }


def read_runs(folder: Path) -> list[RunProgress]:
    """The last run of each pipeline, those that run now first."""
    found = [run for each in sorted(folder.glob("*/")) if (run := RunProgress.read(each)) is not None]
    return sorted(found, key=lambda run: (not run.alive, run.pipeline))


def run_view(run: RunProgress) -> RunView:
    flows = {name: (flow.reads, flow.writes) for name, flow in run.flows.items()}
    active = frozenset(
        f"flow {name}" for name, flow in run.flows.items() if run.alive and flow.rows_per_s > 0
    )
    return RunView(run, layout(flows, active))


PAGE = Page("/pipelines", "pipelines.html", context, "pipelines", live=("pipelines_body",))
