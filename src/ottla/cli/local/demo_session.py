"""One session of `ottla demo`: the processes, the matches, the devices, and what the terminal shows.

The control thread waits for the pipeline, adds and removes devices, and starts the thread that generates the matches.
An error in one of the two threads is stored as `failure` and ends the demo. The main thread draws and checks the
processes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from ottla.base.clock import SystemClock
from ottla.base.errors import OttlaError
from ottla.base.rng import Random
from ottla.cli.pipelines.process import PipelineProcess
from ottla.cli.pipelines.views import flow_line
from ottla.local.cluster import LocalCluster, rack_of
from ottla.scoreboard.devices import PROTOCOLS, Member, Screen
from ottla.scoreboard.feed import DeliveryFailed, Feed
from ottla.scoreboard.generator import disturbed, faster, season
from ottla.scoreboard.screens import computer, line, mobile

EVENTS, SCOREBOARD = "matches", "scoreboard"
JOINS_IN_QUARTER, LEAVES_IN_QUARTER = 2, 3
"""The quarters in which the second mobile joins and the first one leaves."""
DUPLICATES, LATE = 0.02, 0.03
CHECK_INTERVAL_S = 0.05


class DemoSession:
    """The processes and devices of the demo, and its progress."""

    def __init__(self, cluster: LocalCluster, pipeline: PipelineProcess, matches: int) -> None:
        self.cluster, self.pipeline, self.matches = cluster, pipeline, matches
        self.began_ms = SystemClock().now_ms()
        self.screens = {name: Screen(name, SCOREBOARD, self.began_ms) for name in PROTOCOLS}
        self.activity = "Starting"
        self.failure: str | None = None

    @property
    def finished(self) -> bool:
        return all(screen.board.ended(self.matches, self.began_ms) for screen in self.screens.values())

    def check(self) -> None:
        """Raise `typer.Exit`, with a `failure`, if the pipeline or all brokers have ended."""
        if not any(broker.running for broker in self.cluster.brokers.values()):
            self.failure = f"all broker processes have ended:\n{self.cluster.brokers[0].output()[-2000:]}"
        elif self.failure is None and not self.pipeline.running:
            self.failure = f"the pipeline process has ended: {self.pipeline.errors() or 'see its log'}"
        if self.failure is not None:
            raise typer.Exit(1)

    @property
    def brokers(self) -> str:
        """The brokers with their racks, and whether they run."""
        count = len(self.cluster.brokers)
        return "brokers: " + ", ".join(
            f"{node_id} in {rack_of(node_id, count, self.cluster.racks)}"
            + ("" if broker.running else " (has ended)")
            for node_id, broker in self.cluster.brokers.items()
        )

    def until(self, stop: threading.Event, condition: Callable[[], bool]) -> bool:
        """Wait for the condition; return False if `stop` was set first."""
        while not condition():
            if stop.wait(CHECK_INTERVAL_S):
                return False
        return True


def run_session(
    console: Console,
    session: DemoSession,
    speed: float,
    seed: int,
    *,
    on_check: Callable[[], None] = lambda: None,
) -> None:
    """Play and draw until all matches have ended on all screens; raises `typer.Exit` after a failure.

    `on_check` is called several times a second by the main thread.
    """
    stop = threading.Event()
    control = _thread(session, lambda: _control(session, stop, speed, seed))
    try:
        with _view(console, session) as refresh:
            while not session.finished or control.is_alive():
                session.check()
                on_check()
                stop.wait(CHECK_INTERVAL_S)
                refresh()
            refresh()
    finally:
        stop.set()
        control.join()
        for screen in session.screens.values():
            for member in list(screen.members):
                member.leave()


def _control(session: DemoSession, stop: threading.Event, speed: float, seed: int) -> None:
    """Wait for the pipeline, start the matches, and add and remove members of the groups."""
    session.activity = "Spark is starting (the first start takes longest)"
    if not session.until(stop, lambda: session.pipeline.runs("scoreboard")):
        return
    session.activity = "A mobile and a computer join, each in its own group"
    for screen in session.screens.values():
        Member(screen, session.cluster.bootstrap)
    players = _thread(session, lambda: _feed(session, stop, speed, seed))
    mobiles = session.screens["mobile"]
    if session.until(stop, lambda: _quarter(mobiles) >= JOINS_IN_QUARTER or session.finished):
        Member(mobiles, session.cluster.bootstrap)
    second = mobiles.members[-1]
    if session.until(
        stop, lambda: (_quarter(mobiles) >= LEAVES_IN_QUARTER and bool(second.owned)) or session.finished
    ):
        mobiles.members[0].leave()
    players.join()


def _feed(session: DemoSession, stop: threading.Event, speed: float, seed: int) -> None:
    began_ms = SystemClock().now_ms()
    session.activity = (
        f"{session.matches} matches, {speed:g} times as fast as real time; waiting for the first scores"
    )
    events = faster(season(session.matches, began_ms, seed), began_ms, speed)
    arrivals = disturbed(
        events, Random(seed), duplicates=DUPLICATES, late=LATE, late_ms_max=max(1, round(20_000 / speed))
    )
    Feed(session.cluster.bootstrap, EVENTS).play(arrivals, stop)


def _thread(session: DemoSession, work: Callable[[], None]) -> threading.Thread:
    """Start a thread; an error in it becomes the failure of the session."""

    def run() -> None:
        try:
            work()
        except (OttlaError, DeliveryFailed) as error:
            session.failure = str(error)
        except Exception as error:  # noqa: BLE001 - the thread has no other way to report it
            session.failure = f"{type(error).__name__}: {error}"

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _quarter(screen: Screen) -> int:
    """The highest quarter of all matches."""
    return max((standing.quarter for standing in list(screen.board.standings.values())), default=0)


@contextmanager
def _view(console: Console, session: DemoSession) -> Iterator[Callable[[], None]]:
    if console.is_terminal:
        spinner = Spinner("dots")
        with Live(console=console, refresh_per_second=10) as live:
            yield lambda: live.update(_draw(session, spinner))
        return
    printed = dict.fromkeys(session.screens, 0)
    last: dict[str, str] = {}

    def print_change(subject: str, line: str) -> None:
        if last.get(subject) != line:
            last[subject] = line
            console.print(line, highlight=False, markup=False, soft_wrap=True)

    def refresh() -> None:
        print_change("activity", session.activity)
        print_change("brokers", session.brokers)
        for name, error in session.pipeline.flow_errors().items():
            print_change(f"error of {name}", f"flow {name}: {error}")
        for name, screen in session.screens.items():
            print_change(name, f"{name:>8} group has partitions  {screen.owners}")
            fresh = screen.shown[printed[name] :]  # the threads of the members may append to the list
            for standing in fresh:
                console.print(f"{name:>8}: {line(standing)}", highlight=False, markup=False, soft_wrap=True)
            printed[name] += len(fresh)

    yield refresh


def _draw(session: DemoSession, spinner: Spinner) -> RenderableType:
    boards = {name: dict(screen.board.standings) for name, screen in session.screens.items()}
    if not any(boards.values()):
        spinner.update(text=session.activity)
        errors = session.pipeline.flow_errors().items()
        return Group(spinner, *(Text(f"flow {name}: {error}", style="red") for name, error in errors))
    panels = [
        mobile(boards["mobile"], session.screens["mobile"].owners),
        computer(boards["computer"], session.screens["computer"].owners),
    ]
    flows = session.pipeline.progress.flows if session.pipeline.progress is not None else {}
    lines = [Text(flow_line(name, flow), style="dim", no_wrap=True) for name, flow in flows.items()]
    return Group(
        Text("matches → topic matches → Spark → topic scoreboard → two groups"),
        Text(session.brokers, style="dim"),
        Columns(panels),
        *lines,
    )
