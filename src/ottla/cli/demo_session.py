"""The stage of `ottla demo`: what has been started, who plays and who watches, and how it is drawn.

A thread directs: it waits for the pipeline, lets devices join and leave, and starts the thread that plays the matches.
Either of them ends the demo by leaving a `failure`. The main thread draws and looks after the processes.
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
from ottla.cli.pipeline_process import PipelineProcess
from ottla.cli.pipeline_views import flow_line
from ottla.local.broker_process import BrokerProcess
from ottla.scoreboard.devices import PROTOCOLS, Member, Screen
from ottla.scoreboard.feed import DeliveryFailed, Feed
from ottla.scoreboard.generator import disturbed, faster, season
from ottla.scoreboard.screens import computer, line, mobile

EVENTS, SCOREBOARD = "matches", "scoreboard"
JOINS_IN_QUARTER, LEAVES_IN_QUARTER = 2, 3
"""In which quarter the second mobile joins, and the first one leaves."""
DUPLICATES, LATE = 0.02, 0.03
LOOK_EVERY_S = 0.05


class DemoSession:
    """Everything that the demo has started, and how far it is."""

    def __init__(self, broker: BrokerProcess, pipeline: PipelineProcess, matches: int) -> None:
        self.broker, self.pipeline, self.matches = broker, pipeline, matches
        self.began_ms = SystemClock().now_ms()
        self.screens = {name: Screen(name, SCOREBOARD, self.began_ms) for name in PROTOCOLS}
        self.doing = "Starting"
        self.failure: str | None = None

    @property
    def over(self) -> bool:
        return all(screen.board.ended(self.matches, self.began_ms) for screen in self.screens.values())

    def check(self) -> None:
        """Ends the demo with an explanation when a part of it has ended."""
        if not self.broker.running:
            self.failure = f"the broker has ended:\n{self.broker.output()[-2000:]}"
        elif self.failure is None and not self.pipeline.running:
            self.failure = f"the pipeline has ended: {self.pipeline.errors() or 'see its log'}"
        if self.failure is not None:
            raise typer.Exit(1)

    def until(self, stop: threading.Event, condition: Callable[[], bool]) -> bool:
        """Waits for the condition; False when it is time to go instead."""
        while not condition():
            if stop.wait(LOOK_EVERY_S):
                return False
        return True


def show(console: Console, stage: DemoSession, speed: float, seed: int) -> None:
    """Plays and draws until every match is over on every screen; raises `typer.Exit` when a part of it fails."""
    stop = threading.Event()
    director = _thread(stage, lambda: _direct(stage, stop, speed, seed))
    try:
        with _view(console, stage) as refresh:
            while not stage.over or director.is_alive():
                stage.check()
                stop.wait(LOOK_EVERY_S)
                refresh()
            refresh()
    finally:
        stop.set()
        director.join()
        for screen in stage.screens.values():
            for member in list(screen.members):
                member.leave()


def _direct(stage: DemoSession, stop: threading.Event, speed: float, seed: int) -> None:
    """Waits for the pipeline, plays the matches, and sends members in and out."""
    stage.doing = "Spark is starting (the first time takes longest)"
    if not stage.until(stop, lambda: stage.pipeline.runs("scoreboard")):
        return
    stage.doing = "A mobile and a computer join, each a group of its own"
    for screen in stage.screens.values():
        Member(screen, stage.broker.bootstrap)
    players = _thread(stage, lambda: _feed(stage, stop, speed, seed))
    mobiles = stage.screens["mobile"]
    if stage.until(stop, lambda: _quarter(mobiles) >= JOINS_IN_QUARTER or stage.over):
        Member(mobiles, stage.broker.bootstrap)
    arrived = mobiles.members[-1]
    if stage.until(
        stop, lambda: (_quarter(mobiles) >= LEAVES_IN_QUARTER and bool(arrived.owned)) or stage.over
    ):
        mobiles.members[0].leave()
    players.join()


def _feed(stage: DemoSession, stop: threading.Event, speed: float, seed: int) -> None:
    began_ms = SystemClock().now_ms()
    stage.doing = (
        f"{stage.matches} matches, {speed:g} times as fast as real ones; waiting for the first scores"
    )
    events = faster(season(stage.matches, began_ms, seed), began_ms, speed)
    arrivals = disturbed(
        events, Random(seed), duplicates=DUPLICATES, late=LATE, late_ms_max=max(1, round(20_000 / speed))
    )
    Feed(stage.broker.bootstrap, EVENTS).play(arrivals, stop)


def _thread(stage: DemoSession, work: Callable[[], None]) -> threading.Thread:
    """Works beside; what goes wrong there is the failure of the demo."""

    def run() -> None:
        try:
            work()
        except (OttlaError, DeliveryFailed) as error:
            stage.failure = str(error)
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            stage.failure = f"{type(error).__name__}: {error}"

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _quarter(screen: Screen) -> int:
    """The quarter of the match that is furthest."""
    return max((standing.quarter for standing in list(screen.board.standings.values())), default=0)


@contextmanager
def _view(console: Console, stage: DemoSession) -> Iterator[Callable[[], None]]:
    if console.is_terminal:
        spinner = Spinner("dots")
        with Live(console=console, refresh_per_second=10) as live:
            yield lambda: live.update(_draw(stage, spinner))
        return
    printed = dict.fromkeys(stage.screens, 0)
    told: dict[str, str] = {}

    def tell(about: str, words: str) -> None:
        if told.get(about) != words:
            told[about] = words
            console.print(words, highlight=False, markup=False, soft_wrap=True)

    def refresh() -> None:
        tell("doing", stage.doing)
        for name, error in stage.pipeline.troubles().items():
            tell(f"trouble of {name}", f"flow {name}: {error}")
        for name, screen in stage.screens.items():
            tell(name, f"{name:>8} group has partitions  {screen.owners}")
            fresh = screen.shown[printed[name] :]  # its members may add to the list meanwhile
            for standing in fresh:
                console.print(f"{name:>8}: {line(standing)}", highlight=False, markup=False, soft_wrap=True)
            printed[name] += len(fresh)

    yield refresh


def _draw(stage: DemoSession, spinner: Spinner) -> RenderableType:
    boards = {name: dict(screen.board.standings) for name, screen in stage.screens.items()}
    if not any(boards.values()):
        spinner.update(text=stage.doing)
        troubles = stage.pipeline.troubles().items()
        return Group(spinner, *(Text(f"flow {name}: {error}", style="red") for name, error in troubles))
    panels = [
        mobile(boards["mobile"], stage.screens["mobile"].owners),
        computer(boards["computer"], stage.screens["computer"].owners),
    ]
    flows = stage.pipeline.progress.flows if stage.pipeline.progress is not None else {}
    lines = [Text(flow_line(name, flow), style="dim", no_wrap=True) for name, flow in flows.items()]
    return Group(
        Text("matches → topic matches → Spark → topic scoreboard → two groups"), Columns(panels), *lines
    )
