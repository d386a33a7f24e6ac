"""`ottla secure`: certificates, an administrator, and settings of brokers and clients that work together."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Annotated

import typer

from ottla.base.errors import LocalError
from ottla.cli.help import Application, examples
from ottla.cli.terminal import program, report_errors

EXAMPLES = examples(
    "ottla secure init credentials",
    "ottla secure init credentials --hosts b1.example.org,b2.example.org,b3.example.org",
    "ottla secure init credentials --brokers 3 --port 19092",
)
app = Application(no_args_is_help=True, epilog=EXAMPLES)
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?")


@app.callback()
def secure() -> None:
    """Create what a cluster with TLS, authentication and ACLs needs."""


@app.command(epilog=EXAMPLES)
def init(
    folder: Annotated[Path, typer.Argument(help="Folder for the credentials; new or empty.")] = Path(
        "credentials"
    ),
    hosts: Annotated[
        str, typer.Option(help="Name or address of each node, separated by commas.")
    ] = "localhost",
    brokers: Annotated[
        int, typer.Option(min=1, max=10, help="Number of nodes on the one host; their ports follow.")
    ] = 1,
    port: Annotated[
        int, typer.Option(min=1, max=65_000, help="Port for clients; the next two are for nodes.")
    ] = 9092,
    data: Annotated[Path, typer.Option(help="Directory for the data of each node, on its machine.")] = Path(
        "ottla-data"
    ),
) -> None:
    """Create a certificate authority, node certificates, an administrator with SCRAM, and the settings of all."""
    from ottla.base.clock import SystemClock
    from ottla.local.secure.folder import SecureFolder
    from ottla.local.secure.plan import plan_nodes

    with report_errors() as console:
        names = [name.strip() for name in hosts.split(",") if name.strip()]
        if wrong := [name for name in names if not _HOST.fullmatch(name)]:
            raise LocalError(f"--hosts: {wrong[0]!r} is not the name or the address of a host")
        if not names or (brokers > 1 and len(names) > 1):
            raise LocalError("--hosts names one host with --brokers, or each host of a node without it")
        addresses, plans = plan_nodes(names * brokers, port, data)
        made = SecureFolder(folder)
        now = dt.datetime.fromtimestamp(SystemClock().now_ms() / 1000, dt.UTC)
        made.create("Ottla", ",".join(addresses), plans, now)
        run = program()
        lines = [
            f"Created {folder}: certificates for {len(plans)} node{'s' if len(plans) > 1 else ''}, "
            "the administrator, settings.",
            "",
            "Start each node with its settings; the administrator is created with the cluster:",
            *(
                f"  {run} broker --config {made.server_properties(plan.node_id)} --add-scram-file {made.first_users}"
                for plan in plans
            ),
            "Use the cluster as the administrator:",
            f"  {run} -c {made.client_settings} topics list",
            f"Keep {folder / 'ca-key.pem'} and {made.client_settings} secret. {made.authority_certificate} is for all "
            "clients.",
        ]
        for line in lines:
            console.print(line, highlight=False, markup=False, soft_wrap=True)
