"""`ottla demo`: basketball matches become live scoreboards, on one machine, in this terminal.

    matches played in seconds -> topic matches -> Spark -> topic scoreboard -> a mobile and a computer

Starts a broker on loopback over the given directory and the scoreboard pipeline on Spark, plays the matches as soon
as the pipeline listens, and shows the scoreboard on the devices of two groups. While the matches go on, a second
mobile joins and the first one leaves, and nothing is missed.

Everything that was started ends with the demo, clients before their broker, also on Ctrl-C and SIGTERM. The data stay:
a second run goes on where the pipeline and the groups have come to.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.terminal import examples, make_folder, print_stopping, report_errors, signal_handlers

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.local.broker_process import BrokerProcess

PIPELINE = "ottla.scoreboard.pipeline"
BROKER_SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}
"""A group of one need not wait for others."""
MASTER = "local[2]"
EXAMPLES = examples(
    "ottla demo", "ottla demo --speed 100 --matches 5", "ottla demo --data /tmp/demo --port 9092"
)


def demo(
    data: Annotated[Path, typer.Option(help="Where everything is kept.")] = Path("demo-data"),
    port: Annotated[int | None, typer.Option(min=1, max=65_535, help="Of the broker; a free one.")] = None,
    speed: Annotated[float, typer.Option(min=0.1, help="1 is real time.")] = 40.0,
    matches: Annotated[int, typer.Option(min=1, help="How many at a time.")] = 3,
    seed: Annotated[int, typer.Option(help="The same seed plays the same matches.")] = 1,
) -> None:
    """Play matches on one broker, keep their scoreboard with Spark, and show it on two kinds of device."""
    from ottla.pipelines.java.installation import find_java

    with report_errors() as console:
        find_java()
        make_folder("--data", data)
        try:
            with _interruptible(console):
                _play(console, data, port, speed, matches, seed)
        except KeyboardInterrupt:
            console.print("Stopped, with everything that the demo had started.")
            raise


def _play(console: Console, data: Path, port: int | None, speed: float, matches: int, seed: int) -> None:
    from ottla.cli.demo_session import DemoSession, show
    from ottla.cli.pipeline_process import PipelineProcess

    with (
        _broker(console, data / "broker", port) as broker,
        PipelineProcess(PIPELINE, broker.bootstrap, data / "pipelines", MASTER) as pipeline,
    ):
        _tell(console, f"Starting the pipeline {PIPELINE} on Spark, log in {data}/pipelines")
        stage = DemoSession(broker, pipeline, matches)
        try:
            show(console, stage, speed, seed)
        finally:
            if stage.failure is not None:
                console.print(stage.failure, style="red", highlight=False, markup=False, soft_wrap=True)
    _explain(console, data)


@contextmanager
def _broker(console: Console, folder: Path, port: int | None) -> Iterator[BrokerProcess]:
    from ottla.base.errors import LocalError
    from ottla.local.broker_process import BrokerNotStarted, BrokerProcess

    broker = BrokerProcess(folder, BROKER_SETTINGS, port=port)
    _tell(console, f"Starting a broker on {broker.bootstrap}, data in {folder}")
    try:
        try:
            broker.start()
        except (BrokerNotStarted, TimeoutError) as error:
            last = str(error).strip().splitlines()[-1]
            raise LocalError(f"the broker does not start: {last.partition('reason=')[2] or last}") from error
        yield broker
    finally:
        broker.stop()


@contextmanager
def _interruptible(console: Console) -> Iterator[None]:
    """Ctrl-C, SIGTERM and the end of the terminal end the demo; once is enough, for ending takes a moment."""
    asked = False

    def ask(*_: object) -> None:
        nonlocal asked
        if not asked:
            asked = True
            print_stopping(console)
            raise KeyboardInterrupt

    with signal_handlers(ask, signal.SIGINT):
        yield


def _tell(console: Console, words: str) -> None:
    console.print(words, highlight=False, markup=False, soft_wrap=True)


def _explain(console: Console, data: Path) -> None:
    console.print("\nBoth groups have shown every match to its end, while mobiles came and went. To explore:")
    for command in (
        f"ottla broker --data {data}/broker",
        f"ottla pipelines status --state {data}/pipelines",
        f"ottla pipelines run {PIPELINE} --state {data}/pipelines",
        "ottla matches play --speed 60",
        "kcat -b 127.0.0.1:9092 -t scoreboard -C -o beginning -e -K ': '",
    ):
        _tell(console, f"  .venv/bin/{command}" if command.startswith("ottla") else f"  {command}")
