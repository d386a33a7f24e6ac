"""`ottla demo`: live scoreboards of basketball matches, on one machine, in this terminal.

    generated matches -> topic matches -> Spark -> topic scoreboard -> a mobile and a computer

Starts three brokers in two racks on loopback and the scoreboard pipeline on Spark, generates matches when the pipeline
is running, and shows the scoreboard on the devices of two consumer groups. During the matches a second mobile joins its
group and the first one leaves; no record is missed. The demo prints the command that kills a broker: the scores go on.
The web console shows the scoreboard as well, and has a button that kills a broker.

The demo stops all processes that it has started, clients before the brokers, also on Ctrl-C and SIGTERM. The data are
kept: a second demo continues from the checkpoints and the committed offsets.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.base.errors import LocalError
from ottla.cli.help import examples
from ottla.cli.terminal import make_folder, print_stopping, program, report_errors, signal_handlers

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.local.cluster import LocalCluster

PIPELINE = "ottla.scoreboard.pipeline"
BROKER_SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}
"""The groups of the demo have one member at first and do not wait for others."""
BROKERS, RACKS = 3, ("R1", "R2")
CONSOLE_PORT = 8080
MASTER = "local[2]"
EXAMPLES = examples(
    "ottla demo", "ottla demo --speed 100 --matches 5", "ottla demo --data /tmp/demo --port 9092"
)


def demo(
    data: Annotated[Path, typer.Option(help="Directory for all data.")] = Path("demo-data"),
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="Port of the first broker; by default a free one.")
    ] = None,
    speed: Annotated[float, typer.Option(min=0.1, help="Speed factor; 1 is real time.")] = 40.0,
    matches: Annotated[int, typer.Option(min=1, help="Number of parallel matches.")] = 3,
    seed: Annotated[int, typer.Option(help="The same seed gives the same matches.")] = 1,
    console_port: Annotated[
        int,
        typer.Option(min=0, max=65_535, help="Port of the web console, or the next free one; 0 for none."),
    ] = CONSOLE_PORT,
) -> None:
    """Generate matches on three brokers, compute their scoreboard with Spark, and show it on two kinds of device."""
    from ottla.pipelines.java.installation import find_java

    with report_errors() as console:
        find_java()
        make_folder("--data", data)
        try:
            with _interruptible(console):
                _play(console, data, port, speed, matches, seed, console_port)
        except KeyboardInterrupt:
            console.print("Stopped all processes of the demo.")
            raise


def _play(
    console: Console,
    data: Path,
    port: int | None,
    speed: float,
    matches: int,
    seed: int,
    console_port: int,
) -> None:
    from ottla.cli.local.cluster_start import started
    from ottla.cli.local.cluster_watch import ClusterWatch
    from ottla.cli.local.console import console_of
    from ottla.cli.local.demo_session import DemoSession, run_session
    from ottla.cli.local.up import Commands
    from ottla.cli.pipelines.process import PipelineProcess
    from ottla.console.broker_control import ActionQueue

    folder = data / "cluster"
    cluster = _cluster(folder, port)
    _print(console, f"Starting three brokers in two racks on {cluster.bootstrap}; data in {folder}")
    watch = ClusterWatch(cluster)
    commands, control = Commands(cluster, watch), ActionQueue(watch.states)
    with (
        started(cluster),
        console_of(
            console,
            cluster.bootstrap,
            control,
            port=console_port,
            state=data / "pipelines",
            page="scoreboard",
        ),
        PipelineProcess(PIPELINE, cluster.bootstrap, data / "pipelines", MASTER) as pipeline,
    ):
        victim = BROKERS - 1
        _print(console, f"Kill one while the scores go on:  kill -9 {cluster.brokers[victim].pid}")
        _print(console, f"Starting the pipeline {PIPELINE} on Spark; log in {data}/pipelines")
        session = DemoSession(cluster, pipeline, matches)
        try:
            run_session(console, session, speed, seed, on_check=lambda: control.execute_pending(commands.run))
        finally:
            if session.failure is not None:
                console.print(session.failure, style="red", highlight=False, markup=False, soft_wrap=True)
    _print_next_steps(console, data)


def _cluster(folder: Path, port: int | None) -> LocalCluster:
    from ottla.local.cluster import LocalCluster
    from ottla.local.cluster_directory import check_ports, describe, on_free_ports, save

    if (folder.parent / "meta.properties").exists():
        raise LocalError(
            f"--data: {folder.parent} has the data of a single broker; use another directory for the demo"
        )
    make_folder("--data", folder)
    description = describe(folder, BROKERS, RACKS, port)
    if port is None:
        description = on_free_ports(description)
    check_ports(description)
    save(folder, description)
    return LocalCluster(folder, BROKERS, racks=RACKS, config=BROKER_SETTINGS, ports=description.ports())


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
    ottla = program()
    for command in (
        f"{ottla} up --data {data}/cluster --port 9092",
        f"{ottla} pipelines status --state {data}/pipelines",
        f"{ottla} pipelines run {PIPELINE} --state {data}/pipelines",
        f"{ottla} matches play --speed 60",
        "kcat -b 127.0.0.1:9092 -t scoreboard -C -o beginning -e -K ': '",
    ):
        _print(console, f"  {command}")
