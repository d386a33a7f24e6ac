"""`ottla pipelines`: run, list, status, prepare.

Options become `RunOptions`. Progress is shown as a table in a terminal, as lines elsewhere, or with `--json` as one
JSON object per line. Ctrl-C and SIGTERM stop the run; a second signal interrupts the stop.
Exit codes: 0 the run has ended or was stopped, 1 it has failed, 2 it could not start.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner

from ottla.base.clock import SystemClock
from ottla.base.errors import LocalError
from ottla.cli.context import OwnBootstrap, Target, chosen_target
from ottla.cli.help import Application, examples
from ottla.cli.pipelines.views import (
    flow_line,
    outage_line,
    pipeline_table,
    progress_table,
    run_table,
    status_table,
)
from ottla.cli.terminal import make_folder, report_errors, stop_on_signals
from ottla.pipelines.declare import Pipeline, Table, load
from ottla.pipelines.java.installation import find_java
from ottla.pipelines.progress import RunProgress

if TYPE_CHECKING:
    from ottla.pipelines.runtime.flow_query import RunOptions
    from ottla.pipelines.runtime.runner import Runner

STATE = "ottla-pipelines"
BUILT_IN = ("ottla.scoreboard.pipeline",)
LINE_EVERY_S = 5.0

app = Application(help="Run data pipelines on Spark.", no_args_is_help=True)
State = Annotated[Path, typer.Option(help="Directory for checkpoints, tables, logs and progress.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print progress as JSON, one object per line.")]


@app.command(
    epilog=examples(
        "ottla pipelines run ottla.scoreboard.pipeline",
        "ottla pipelines run examples/pipelines/long_words.py --dry-run",
        "ottla pipelines run examples/pipelines/long_words.py --once --state /tmp/words",
        "ottla pipelines run ottla.scoreboard.pipeline --master 'local[4]' --json",
    )
)
def run(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(metavar="FILE_OR_MODULE", help="Python file or module that declares the pipeline."),
    ],
    bootstrap: OwnBootstrap = None,
    master: Annotated[
        str | None, typer.Option(help="Spark master; by default all cores of this machine.")
    ] = None,
    connector: Annotated[
        str, typer.Option(help="ottla, or kafka: Spark's Kafka connector (needs jars).")
    ] = "ottla",
    realtime: Annotated[
        bool, typer.Option(help="Use Spark's real-time mode and Spark's Kafka connector.")
    ] = False,
    once: Annotated[bool, typer.Option(help="Process all existing records, then end.")] = False,
    dry_run: Annotated[
        bool, typer.Option(help="Print schemas and plans without running the pipeline.")
    ] = False,
    state: State = Path(STATE),
    checkpoints: Annotated[str | None, typer.Option(help="Path or URL of the checkpoints.")] = None,
    tables: Annotated[str | None, typer.Option(help="Path or URL of the tables.")] = None,
    jars: Annotated[
        str | None, typer.Option(help="Jars of Spark's Kafka connector, comma-separated.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE: option for reading and writing topics; can be repeated."),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: Spark setting; can be repeated.")
    ] = None,
    restarts: Annotated[
        int | None, typer.Option(help="Maximum number of consecutive restarts of a flow.")
    ] = None,
    json: JsonLines = False,
) -> None:
    """Run a pipeline until Ctrl-C or SIGTERM, or once."""
    from ottla.pipelines.runtime.flow_query import RunOptions
    from ottla.pipelines.runtime.realtime import MASTER

    with report_errors() as console, _user_output_to_stderr(console, json=json and not dry_run):
        if realtime and once:
            raise LocalError(
                "--realtime never ends and --once ends when all records are read: use only one of them"
            )
        pipeline = _load(source)
        target = chosen_target(ctx, bootstrap)
        home = state / pipeline.name
        options = RunOptions(
            bootstrap=target.bootstrap,
            state=home,
            source=source,
            connector=_connector(connector, target, _pairs("--option", option), realtime=realtime),
            checkpoints=checkpoints or str((home / "checkpoints").absolute()),
            tables=tables or str((home / "tables").absolute()),
            master=master or (MASTER if realtime else "local[*]"),
            realtime=realtime,
            once=once,
            conf=_pairs("--conf", conf),
            jars=tuple(filter(None, (jars or "").split(","))),
            restarts_max=restarts,
        )
        find_java()
        make_folder("--state", home)
        if dry_run:
            _plan(console, pipeline, options)
        elif not _run(console, pipeline, options, json=json):
            raise typer.Exit(1)


@app.command(
    "list", epilog=examples("ottla pipelines list", "ottla pipelines list examples/pipelines/long_words.py")
)
def list_pipelines(
    targets: Annotated[list[str] | None, typer.Argument(metavar="[FILE_OR_MODULE]...")] = None,
    state: State = Path(STATE),
) -> None:
    """List the pipelines of the given files or modules with their flows.

    Without an argument: those that are part of Ottla, and those that have run with this state directory.
    """
    with report_errors() as console:
        _check_packages("pyspark")
        listed = set()
        for name in targets or BUILT_IN:
            pipeline = load(name)
            listed.add(pipeline.name)
            console.print(pipeline_table(name, pipeline, RunProgress.read(state / pipeline.name)))
        for folder in [] if targets else sorted(state.glob("*/")):
            last = RunProgress.read(folder)
            if last is not None and last.pipeline not in listed:
                console.print(run_table(last))


@app.command(
    epilog=examples(
        "ottla pipelines status",
        "ottla pipelines status --json",
        "ottla pipelines status --state demo-data/pipelines",
    )
)
def status(
    names: Annotated[list[str] | None, typer.Argument(metavar="[PIPELINE]...")] = None,
    state: State = Path(STATE),
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the progress of pipelines that run or have run with this state directory."""
    with report_errors() as console:
        folders = [state / name for name in names] if names else sorted(state.glob("*/"))
        found = [progress for folder in folders if (progress := RunProgress.read(folder)) is not None]
        if names and len(found) < len(names):
            known = {progress.pipeline for progress in found}
            missing = ", ".join(name for name in names if name not in known)
            raise LocalError(f"no run of {missing} found in {state}")
        if json:
            console.print_json(msgspec.json.encode([{"alive": p.alive, "run": p} for p in found]).decode())
        elif not found:
            console.print(f"No pipeline has run with the state directory {state} yet.")
        else:
            console.print(status_table(found, SystemClock().now_ms()))


@app.command(epilog=examples("ottla pipelines prepare"))
def prepare() -> None:
    """Write an archive of Spark's classes, which makes later starts shorter. Takes about half a minute."""
    with report_errors() as console:
        _check_packages("pyspark", "pyarrow")
        find_java()
        from ottla.pipelines.java.class_archive import write_archive

        with console.status("Starting Spark and writing the archive of its classes"):
            path, megabytes = write_archive()
        console.print(f"Wrote {path} ({megabytes:.0f} MB)", highlight=False)


def _run(console: Console, pipeline: Pipeline, options: RunOptions, *, json: bool) -> bool:
    from ottla.pipelines.runtime.runner import Runner

    stop = threading.Event()
    with (
        stop_on_signals(stop, None if json else console),
        _view(console, json=json) as (on_step, on_progress),
    ):
        runner: Runner = Runner(
            pipeline, options, clock=SystemClock(), stop=stop, on_step=on_step, on_progress=on_progress
        )
        succeeded = runner.run()
    if not json:
        end = runner.progress.state
        console.print(
            f"Pipeline {pipeline.name} {end}; log: {options.state / 'spark.log'}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        for name, flow in runner.progress.flows.items():
            if flow.error:
                console.print(f"  {name}: {flow.error}", highlight=False, markup=False, soft_wrap=True)
    return succeeded


def _plan(console: Console, pipeline: Pipeline, options: RunOptions) -> None:
    from ottla.pipelines.runtime.runner import Runner

    console.print(pipeline_table(pipeline.name, pipeline, None))
    runner = Runner(
        pipeline,
        options,
        clock=SystemClock(),
        stop=threading.Event(),
        on_step=lambda line: console.print(line, style="dim", highlight=False, markup=False),
        on_progress=lambda _: None,
    )
    for name, (schema, plan) in runner.plan().items():
        console.rule(f"flow {name}")
        console.print(schema.strip(), highlight=False, markup=False)
        console.print(plan, highlight=False, markup=False, style="dim")


@contextmanager
def _view(
    console: Console, *, json: bool
) -> Iterator[tuple[Callable[[str], None], Callable[[RunProgress], None]]]:
    """The callbacks for steps of the start and for progress: JSON, a live table, or lines."""
    if json:
        yield lambda _: None, lambda progress: _print_json(console, progress)
        return
    if console.is_terminal:
        with Live(Spinner("dots"), console=console, refresh_per_second=4) as live:
            yield (
                lambda line: live.console.print(line, style="dim", highlight=False, markup=False),
                lambda progress: live.update(progress_table(progress)),
            )
        return
    clock, printed_s, states = SystemClock(), [float("-inf")], dict[str, Any]()

    def lines(progress: RunProgress) -> None:
        now_s = clock.monotonic()
        outage = outage_line(progress)
        fresh = {"": (progress.state, outage), **{name: flow.state for name, flow in progress.flows.items()}}
        if fresh == states and now_s - printed_s[0] < LINE_EVERY_S:
            return
        states.update(fresh)
        printed_s[0] = now_s
        for name, flow in progress.flows.items():
            console.print(flow_line(name, flow, outage), highlight=False, markup=False, soft_wrap=True)
        if outage:
            console.print(outage, highlight=False, markup=False, soft_wrap=True)

    yield lambda line: console.print(line, highlight=False, markup=False), lines


@contextmanager
def _user_output_to_stderr(console: Console, *, json: bool) -> Iterator[None]:
    """With `--json`, redirect what the pipeline's own code prints to standard error."""
    if not json:
        yield
        return
    console.file = sys.stdout
    with redirect_stdout(sys.stderr):
        yield


def _print_json(console: Console, progress: RunProgress) -> None:
    console.file.write(f"{msgspec.json.encode(progress).decode()}\n")
    console.file.flush()


def _connector(name: str, target: Target, options: dict[str, str], *, realtime: bool) -> Any:
    """The connector with the settings of the target's context, which the options override."""
    from ottla.pipelines.io.connectors import CONNECTORS, Connector, ConnectorName
    from ottla.pipelines.io.topics import connector_options

    if name not in CONNECTORS:
        raise LocalError(f"--connector must be one of {', '.join(CONNECTORS)}, got {name!r}")
    chosen: ConnectorName = "kafka" if realtime or name == "kafka" else "ottla"
    used = connector_options(target.settings) | options
    return Connector(chosen, target.bootstrap, used, realtime=realtime)


def _pairs(name: str, given: list[str] | None) -> dict[str, str]:
    pairs = [each.partition("=") for each in given or ()]
    if wrong := [key for key, equals, _ in pairs if not equals or not key]:
        raise LocalError(f"{name} must be NAME=VALUE, got {wrong[0]!r}")
    return {key: value for key, _, value in pairs}


def _check_packages(*names: str) -> None:
    """Raise `LocalError` for packages that are not installed, before they are imported."""
    if missing := [name for name in names if find_spec(name) is None]:
        raise LocalError(
            f"pipelines need {' and '.join(missing)}, which is not installed: pip install 'ottla[spark]'"
        )


def _load(target: str) -> Pipeline:
    """Load the pipeline and check that the packages it needs are installed."""
    _check_packages("pyspark", "pyarrow")
    pipeline = load(target)
    endpoints = [endpoint for flow in pipeline.flows.values() for endpoint in (*flow.reads, flow.writes)]
    if any(isinstance(endpoint, Table) and endpoint.format == "delta" for endpoint in endpoints):
        _check_packages("deltalake")
    return pipeline
