"""`ottla demo`: live scoreboards of basketball matches, on one machine, in this terminal.

    generated matches -> topic matches -> Spark -> topic scoreboard -> a mobile and a computer

Starts a broker on loopback and the scoreboard pipeline on Spark, generates matches when the pipeline is running, and
shows the scoreboard on the devices of two consumer groups. During the matches a second mobile joins its group and the
first one leaves; no record is missed.

The demo stops all processes that it has started, clients before the broker, also on Ctrl-C and SIGTERM. The data are
kept: a second demo continues from the checkpoints and the committed offsets.
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
"""The groups of the demo have one member at first and do not wait for others."""
MASTER = "local[2]"
EXAMPLES = examples(
    "ottla demo", "ottla demo --speed 100 --matches 5", "ottla demo --data /tmp/demo --port 9092"
)


def demo(
    data: Annotated[Path, typer.Option(help="Directory for all data.")] = Path("demo-data"),
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="Port of the broker; by default a free one.")
    ] = None,
    speed: Annotated[float, typer.Option(min=0.1, help="Speed factor; 1 is real time.")] = 40.0,
    matches: Annotated[int, typer.Option(min=1, help="Number of parallel matches.")] = 3,
    seed: Annotated[int, typer.Option(help="The same seed gives the same matches.")] = 1,
) -> None:
    """Generate matches on one broker, compute their scoreboard with Spark, and show it on two kinds of device."""
    from ottla.pipelines.java.installation import find_java

    with report_errors() as console:
        find_java()
        make_folder("--data", data)
        try:
            with _interruptible(console):
                _play(console, data, port, speed, matches, seed)
        except KeyboardInterrupt:
            console.print("Stopped all processes of the demo.")
            raise


def _play(console: Console, data: Path, port: int | None, speed: float, matches: int, seed: int) -> None:
    from ottla.cli.demo_session import DemoSession, run_session
    from ottla.cli.pipeline_process import PipelineProcess

    with (
        _broker(console, data / "broker", port) as broker,
        PipelineProcess(PIPELINE, broker.bootstrap, data / "pipelines", MASTER) as pipeline,
    ):
        _print(console, f"Starting the pipeline {PIPELINE} on Spark; log in {data}/pipelines")
        session = DemoSession(broker, pipeline, matches)
        try:
            run_session(console, session, speed, seed)
        finally:
            if session.failure is not None:
                console.print(session.failure, style="red", highlight=False, markup=False, soft_wrap=True)
    _print_next_steps(console, data)


@contextmanager
def _broker(console: Console, folder: Path, port: int | None) -> Iterator[BrokerProcess]:
    from ottla.base.errors import LocalError
    from ottla.local.broker_process import BrokerNotStarted, BrokerProcess

    broker = BrokerProcess(folder, BROKER_SETTINGS, port=port)
    _print(console, f"Starting a broker on {broker.bootstrap}; data in {folder}")
    try:
        try:
            broker.start()
        except (BrokerNotStarted, TimeoutError) as error:
            last = str(error).strip().splitlines()[-1]
            raise LocalError(f"the broker did not start: {last.partition('reason=')[2] or last}") from error
        yield broker
    finally:
        broker.stop()


@contextmanager
def _interruptible(console: Console) -> Iterator[None]:
    """End the demo on the first Ctrl-C, SIGTERM or SIGHUP; ignore further ones while it stops."""
    stopping = False

    def on_signal(*_: object) -> None:
        nonlocal stopping
        if not stopping:
            stopping = True
            print_stopping(console)
            raise KeyboardInterrupt

    with signal_handlers(on_signal, signal.SIGINT):
        yield


def _print(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _print_next_steps(console: Console, data: Path) -> None:
    console.print(
        "\nBoth groups have shown all matches to the end, while mobiles joined and left. Next steps:"
    )
    for command in (
        f"ottla broker --data {data}/broker",
        f"ottla pipelines status --state {data}/pipelines",
        f"ottla pipelines run {PIPELINE} --state {data}/pipelines",
        "ottla matches play --speed 60",
        "kcat -b 127.0.0.1:9092 -t scoreboard -C -o beginning -e -K ': '",
    ):
        _print(console, f"  .venv/bin/{command}" if command.startswith("ottla") else f"  {command}")
