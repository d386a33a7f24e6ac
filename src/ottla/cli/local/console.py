"""`ottla console`: the web console of a cluster, and its start by `ottla up` and `ottla demo`.

The console needs the packages of the extra `ottla[console]`; without them the command prints what to install, and
`ottla up` and `ottla demo` run without a console.
"""

from __future__ import annotations

import os
import threading
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.base.errors import LocalError
from ottla.cli.context import OwnBootstrap, chosen_target
from ottla.cli.help import examples
from ottla.cli.terminal import report_errors, stop_on_signals

if TYPE_CHECKING:
    from rich.console import Console

    from ottla.console.broker_control import BrokerControl
    from ottla.console.settings import ConsoleSettings

PORT = 8080
PASSWORD = "OTTLA_CONSOLE_PASSWORD"  # noqa: S105 - the name of an environment variable
PACKAGES = ("starlette", "uvicorn", "jinja2")
INSTALL = "pip install 'ottla[console]'"
EXAMPLES = examples(
    "ottla console",
    "ottla console -b 127.0.0.1:19092 --port 8081 --open",
    "ottla console --read-only",
    f"{PASSWORD}=... ottla console --host 0.0.0.0",
)


def console(
    ctx: typer.Context,
    bootstrap: OwnBootstrap = None,
    port: Annotated[
        int, typer.Option(min=1, max=65_535, help="Port; the next free one if it is in use.")
    ] = PORT,
    host: Annotated[
        str, typer.Option(help=f"Address to listen on. Other than loopback only with {PASSWORD}.")
    ] = "127.0.0.1",
    open_: Annotated[bool, typer.Option("--open", help="Open the console in a browser.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse every change.")] = False,
    state: Annotated[Path, typer.Option(help="State directory of the pipelines to show.")] = Path(
        "ottla-pipelines"
    ),
) -> None:
    """Show a cluster in a browser: topics, records, groups, brokers, pipelines."""
    with report_errors() as terminal:
        if missing := missing_packages():
            raise LocalError(f"the console needs {' and '.join(missing)}, which is not installed: {INSTALL}")
        from ottla.console.broker_control import RemoteControl
        from ottla.console.settings import ConsoleSettings
        from ottla.console.web.server import ConsoleServer

        target = chosen_target(ctx, bootstrap)
        settings = ConsoleSettings(
            target.bootstrap,
            dict(target.settings),
            host=host,
            port=port,
            read_only=read_only,
            password=os.environ.get(PASSWORD) or None,
            pipelines=state,
        )
        stop = threading.Event()
        with (
            stop_on_signals(stop, terminal),
            ConsoleServer(settings, RemoteControl(target.bootstrap)) as server,
        ):
            _print(terminal, started_text(server.settings, port))
            if open_:
                webbrowser.open(server.url)
            stop.wait()


def missing_packages() -> list[str]:
    return [name for name in PACKAGES if find_spec(name) is None]


def started_text(settings: ConsoleSettings, wanted_port: int, page: str = "") -> str:
    moved = f" (port {wanted_port} is in use)" if settings.port != wanted_port else ""
    return f"Console: {settings.url}{page}{moved}"


@contextmanager
def console_of(
    terminal: Console,
    bootstrap: str,
    control: BrokerControl | None = None,
    *,
    port: int = PORT,
    state: Path = Path("ottla-pipelines"),
    page: str = "",
    options: Mapping[str, str] | None = None,
    password: str | None = None,
) -> Iterator[None]:
    """A console beside a local cluster for as long as the block lasts; a line instead of it if that is not possible.

    With port 0 there is no console. `page` is the page whose address is printed.
    """
    if port == 0:
        yield
        return
    if missing_packages():
        _print(terminal, f"Console: not installed; {INSTALL}")
        yield
        return
    from ottla.console.settings import ConsoleSettings
    from ottla.console.web.server import ConsoleServer

    try:
        settings = ConsoleSettings(
            bootstrap, dict(options or {}), port=port, pipelines=state, password=password
        )
        server = ConsoleServer(settings, control)
        server.start()
    except LocalError as error:
        _print(terminal, f"Console: {error}")
        yield
        return
    try:
        _print(terminal, started_text(server.settings, port, page))
        yield
    finally:
        server.stop()


def _print(terminal: Console, line: str) -> None:
    terminal.print(line, highlight=False, markup=False, soft_wrap=True)
