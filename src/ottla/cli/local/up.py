"""`ottla up`: a cluster of several brokers on this machine, in this terminal.

Starts the brokers on loopback, shows brokers, leaders, in-sync replicas and rates, and accepts keys that kill, pause,
stop and restart a broker. The web console of the cluster has the same actions. If the output is not a terminal, each
change is printed as a line. Ctrl-C and SIGTERM stop all brokers cleanly. The data are kept: the next start with the
same directory opens the same cluster.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.base.errors import LocalError
from ottla.cli.help import examples
from ottla.cli.terminal import make_folder, print_error, program, report_errors, stop_on_signals

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.cli.local.cluster_watch import ClusterWatch
    from ottla.console.broker_control import Action
    from ottla.local.cluster import LocalCluster
    from ottla.local.cluster_directory import ClusterDescription
    from ottla.local.secure.folder import SecureFolder

KEYS: dict[str, Action] = {"k": "kill", "p": "pause", "s": "stop", "r": "restart"}
CONSOLE_PORT = 8080
REFRESH_S = 0.1
REDRAWN_AFTER = 10
"""The tables are drawn again after so many refreshes without a change: another program may have written over them."""
BROKERS_MAX = 10
_NOT_RUNNING = "does not run"
EXAMPLES = examples(
    "ottla up",
    "ottla up --brokers 6 --racks R1,R2 --data cluster-data",
    "ottla up --brokers 1 --port 19092",
    "ottla up --secure --data secure-data",
    "ottla up | tee cluster.log",
)


def up(
    brokers: Annotated[
        int | None,
        typer.Option(
            min=1, max=BROKERS_MAX, help="Number of brokers; by default that of the directory, else 3."
        ),
    ] = None,
    racks: Annotated[
        str | None,
        typer.Option(help="Names of racks, separated by commas; the brokers are divided among them."),
    ] = None,
    data: Annotated[Path, typer.Option(help="Directory for the data of all brokers.")] = Path("cluster-data"),
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="Port of the first broker, 9092 by default; the others follow."),
    ] = None,
    console_port: Annotated[
        int,
        typer.Option(min=0, max=65_535, help="Port of the web console, or the next free one; 0 for none."),
    ] = CONSOLE_PORT,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure", help="Use TLS, authentication and ACLs; credentials are created below --data."
        ),
    ] = False,
) -> None:
    """Start a cluster on this machine, show its state, and kill, pause and restart its brokers by keys."""
    from ottla.local.cluster_directory import check_ports, check_unused, describe, save

    with report_errors() as console:
        names = None if racks is None else [name.strip() for name in racks.split(",") if name.strip()]
        make_folder("--data", data)
        description = describe(data, brokers, names, port, secure=secure)
        check_unused(data)
        check_ports(description)
        save(data, description)
        stop = threading.Event()
        with stop_on_signals(stop, console):
            _run(console, data, description, stop, console_port)


def _run(
    console: Console, data: Path, description: ClusterDescription, stop: threading.Event, console_port: int
) -> None:
    from ottla.cli.local.cluster_start import started
    from ottla.local.cluster import LocalCluster
    from ottla.local.secure.folder import SecureFolder

    secure = SecureFolder(data / "secure") if description.secure else None
    cluster = LocalCluster(
        data,
        description.brokers,
        racks=description.racks,
        ports=description.ports(),
        secure=secure,
        voters=description.voters,
    )
    _print(console, f"Starting the brokers {cluster.bootstrap}; data in {data}")
    with started(cluster, stop):
        if not stop.is_set():
            _operate(console, cluster, secure, stop, console_port)
    again = f"{program()} up --data {shlex.quote(str(data))}"
    _print(console, f"Stopped all brokers. The data are in {data}; `{again}` starts them again.")


def _operate(
    console: Console,
    cluster: LocalCluster,
    secure: SecureFolder | None,
    stop: threading.Event,
    console_port: int,
) -> None:
    """Show the cluster, and execute the commands of users, until `stop` is set."""
    from ottla.cli.keyboard import keyboard
    from ottla.cli.local.cluster_watch import ClusterWatch
    from ottla.cli.local.console import console_of
    from ottla.console.broker_control import ActionQueue
    from ottla.local.control import ControlInbox
    from ottla.local.secure.folder import CONSOLE_PASSWORD

    options = {} if secure is None else secure.read_client_settings()
    options.pop("bootstrap.servers", None)
    _print(console, f"Ready: bootstrap.servers={cluster.bootstrap}")
    if secure is not None:
        _print(console, f"Clients: settings and credentials of the administrator in {secure.client_settings}")
        _print(console, f"Console: its password is in {secure.path / CONSOLE_PASSWORD}")
    watch = ClusterWatch(cluster)
    watch.start()
    commands = Commands(cluster, watch)
    control = ActionQueue(watch.states)
    try:
        with (
            _announced(cluster.bootstrap, cluster.data, options),
            console_of(
                console,
                cluster.bootstrap,
                control,
                port=console_port,
                options=options,
                password=None if secure is None else secure.console_password(),
            ),
            ControlInbox(cluster.data) as inbox,
            keyboard() as keys,
            _view(console, watch, commands) as refresh,
        ):
            while not stop.is_set() and not commands.quit:
                commands.press(keys.read(REFRESH_S))
                control.execute_pending(commands.run)
                for request in inbox.requests():
                    inbox.respond(request, *commands.perform(request.action, request.broker))
                inbox.publish_states(watch.states())
                refresh()
    finally:
        watch.close()


@contextmanager
def _announced(bootstrap: str, data: Path, options: Mapping[str, str]) -> Iterator[None]:
    """Write the context `local` while the cluster runs, so that other commands find it without an address."""
    from ottla.admin.contexts import LOCAL, Context, ContextFolder

    folder = ContextFolder.of_user()
    made = Context(LOCAL, bootstrap, options, data.resolve(), os.getpid())
    try:
        folder.save(made)
    except LocalError as error:
        print_error(f"other commands need -b {bootstrap}: {error}")
    try:
        yield
    finally:
        with suppress(LocalError):
            if folder.load(LOCAL) == made:
                folder.delete(LOCAL)


class Commands:
    """What the keys and the commands of other processes do. A digit selects a broker, a letter acts on it."""

    def __init__(self, cluster: LocalCluster, watch: ClusterWatch) -> None:
        self._cluster = cluster
        self._watch = watch
        self.selected = 0
        self.note = ""
        self.quit = False

    def perform(self, action: str, node_id: int) -> tuple[str, bool]:
        """Perform a command of another process; return its result, and whether it was done."""
        broker = self._cluster.brokers.get(node_id)
        if broker is None:
            return f"there is no broker {node_id} in this cluster", False
        if action in ("pause", "resume") and broker.running and broker.paused == (action == "pause"):
            return "is paused" if broker.paused else "is not paused", False
        wanted: dict[str, Action] = {"resume": "pause", **{each: each for each in KEYS.values()}}
        if action not in wanted:
            return f"there is no action {action}", False
        text = self.run(wanted[action], node_id)
        return text, text != _NOT_RUNNING

    def press(self, key: str) -> None:
        if key.isdigit() and int(key) in self._cluster.brokers:
            self.selected = int(key)
        elif key == "q":
            self.quit = True
        elif key in KEYS:
            self.run(KEYS[key], self.selected)

    def run(self, action: Action, node_id: int) -> str:
        """Execute an action on a broker; return what was done."""
        execute: dict[Action, Callable[[int], str]] = {
            "kill": self._kill,
            "pause": self._pause,
            "stop": self._stop,
            "restart": self._restart,
        }
        done = execute[action](node_id)
        self.note = f"broker {node_id}: {done}"
        return done

    def _kill(self, node_id: int) -> str:
        if not self._cluster.brokers[node_id].running:
            return _NOT_RUNNING
        self._watch.ended_as[node_id] = "killed"
        self._cluster.kill(node_id)
        return "killed"

    def _pause(self, node_id: int) -> str:
        broker = self._cluster.brokers[node_id]
        if not broker.running:
            return _NOT_RUNNING
        if broker.paused:
            broker.resume()
            return "resumed"
        broker.pause()
        return "paused"

    def _stop(self, node_id: int) -> str:
        broker = self._cluster.brokers[node_id]
        if not broker.running:
            return _NOT_RUNNING
        self._watch.ended_as[node_id] = "stopped"
        broker.request_stop()
        return "is stopping"

    def _restart(self, node_id: int) -> str:
        broker = self._cluster.brokers[node_id]
        if broker.running:
            broker.stop()
        self._watch.ended_as.pop(node_id, None)
        broker.launch()
        return "is starting"


@contextmanager
def _view(console: Console, watch: ClusterWatch, commands: Commands) -> Iterator[Callable[[], None]]:
    from ottla.cli.local.cluster_view import Snapshot, changes, draw

    if console.is_terminal:
        from rich.live import Live

        shown: object = None
        calls = count()

        def redraw() -> None:
            nonlocal shown
            state = (
                watch.snapshot,
                commands.selected,
                commands.note,
                console.size,
                next(calls) // REDRAWN_AFTER,
            )
            if state != shown:
                shown = state
                live.update(draw(watch.snapshot, commands.selected, commands.note), refresh=True)

        with Live(console=console, auto_refresh=False) as live:
            yield redraw
        return
    before = Snapshot()

    def refresh() -> None:
        nonlocal before
        after = watch.snapshot
        for line in changes(before, after):
            _print(console, line)
        before = after

    yield refresh


def _print(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)
