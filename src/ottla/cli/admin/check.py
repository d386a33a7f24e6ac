"""`ottla check`: conditions of a cluster as an exit code, for scripts and monitoring."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.base.errors import LocalError
from ottla.cli.completion_values import complete_group, complete_topic
from ottla.cli.context import AdminCommand, administration
from ottla.cli.help import Application, examples
from ottla.cli.output import Column, seconds_text
from ottla.cli.terminal import FAILED

if TYPE_CHECKING:
    from ottla.admin.session import Session

app = Application(help="Check a cluster; the exit code is 0 if all is well, 1 if not.")
_COLUMNS = (
    Column("check"),
    Column("result", show=lambda value: "ok" if value else "FAILED"),
    Column("description"),
)


@app.command(
    cls=AdminCommand,
    epilog=examples(
        "ottla check",
        "ottla check --brokers 3 --topic orders --topic payments",
        "ottla check --group billing --max-lag 1000 --max-lag-seconds 60",
        "ottla check --quiet || echo 'the cluster has problems'",
    ),
)
def check(
    ctx: typer.Context,
    brokers: Annotated[
        int | None, typer.Option("--brokers", min=1, help="Brokers that must run, at least.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", help="Topic that must exist. Can be repeated.", autocompletion=complete_topic
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", help="Group to check. Can be repeated.", autocompletion=complete_group),
    ] = None,
    max_lag: Annotated[
        int | None, typer.Option("--max-lag", min=0, help="Lag of a group in records, at most.")
    ] = None,
    max_lag_seconds: Annotated[
        float | None, typer.Option("--max-lag-seconds", min=0, help="Lag of a group in seconds, at most.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail as well.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing; use the exit code.")] = False,
) -> None:
    """Check a cluster. Exit codes: 0 all is well, 1 a check failed or no connection, 2 invalid arguments."""
    with administration(ctx) as admin:
        if (max_lag is not None or max_lag_seconds is not None) and not group:
            raise LocalError("--max-lag and --max-lag-seconds need --group")
        rows = [*_cluster(admin.session, brokers, strict), *_topics(admin.session, topic or [])]
        rows += _groups(admin.session, group or [], max_lag, max_lag_seconds)
        try:
            if not quiet:
                admin.output.rows(_COLUMNS, rows)
        finally:  # also if the output is a closed pipe
            if not all(each["result"] for each in rows):
                raise typer.Exit(FAILED)


def _row(name: str, result: bool, description: str) -> dict[str, Any]:
    return {"check": name, "result": result, "description": description}


def _cluster(session: Session, brokers: int | None, strict: bool) -> Iterator[dict[str, Any]]:
    from ottla.admin.health import CRITICAL, WARNING, health

    running = len(session.nodes())
    if brokers is not None:
        yield _row("brokers", running >= brokers, f"{running} run, {brokers} are needed")
    failing = (CRITICAL, WARNING) if strict else (CRITICAL,)
    found = [each for each in health(session) if each.severity in (CRITICAL, WARNING)]
    for each in found:
        yield _row("health", each.severity not in failing, f"{each.severity}: {each.text}")
    if not found:
        yield _row("health", True, f"{running} brokers, no problems")


def _topics(session: Session, wanted: list[str]) -> Iterator[dict[str, Any]]:
    from ottla.admin.topics import topic_names

    known = set(topic_names(session, internal=True)) if wanted else set()
    for name in wanted:
        yield _row("topic", name in known, f"{name} {'exists' if name in known else 'does not exist'}")


def _groups(
    session: Session, wanted: list[str], max_lag: int | None, max_lag_seconds: float | None
) -> Iterator[dict[str, Any]]:
    from ottla.admin.groups import describe_group
    from ottla.client.raw import Refused

    for name in wanted:
        try:
            found = describe_group(session, name)
        except Refused as error:
            yield _row("group", False, str(error))
            continue
        yield _row("group", True, f"{name} is {found.state} with {len(found.members)} members")
        if max_lag is not None:
            lag = found.lag or 0
            yield _row("lag", lag <= max_lag, f"{name}: {lag:,} records, {max_lag:,} are allowed")
        if max_lag_seconds is not None:
            seconds = found.lag_seconds or 0.0
            text = f"{name}: {seconds_text(seconds)}, {seconds_text(max_lag_seconds)} are allowed"
            yield _row("lag time", seconds <= max_lag_seconds, text)
