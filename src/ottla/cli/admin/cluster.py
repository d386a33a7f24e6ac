"""`ottla cluster`: brokers, quorum, log directories, health, elections; kill and restart of local brokers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.base.errors import LocalError
from ottla.cli.completion_values import complete_topic
from ottla.cli.confirm import DryRun, Yes, confirmed
from ottla.cli.context import (
    AdminCommand,
    GlobalOptions,
    OnlyPartitions,
    administration,
    open_session,
    output_of,
)
from ottla.cli.help import Application, examples
from ottla.cli.output import Column, Section, bytes_text, number, time_text
from ottla.cli.terminal import FAILED, exit_on_errors

if TYPE_CHECKING:
    from ottla.admin.session import Session

app = Application(
    help="Show brokers, quorum, disks and health; elect leaders; kill and restart local brokers.",
    no_args_is_help=True,
)

Broker = Annotated[int, typer.Argument(help="Id of the broker.", min=0)]
_POLL_S = 0.1

_NODES = (
    number("broker"),
    Column("address"),
    Column("rack"),
    Column("state"),
    Column("role"),
    number("leads"),
    number("replicas"),
    number("in_sync"),
)
_QUORUM = (
    number("node"),
    Column("role"),
    number("log_end_offset", "log end"),
    number("lag"),
    Column("last_fetch_ms", "last fetch", time_text),
    Column("last_caught_up_ms", "last caught up", time_text),
    Column("listeners"),
)
_DIRS = (
    number("broker"),
    Column("path"),
    Column("state"),
    number("partitions"),
    number("bytes", "size", bytes_text),
    number("usable_bytes", "usable", bytes_text),
    number("total_bytes", "total", bytes_text),
)
_PROBLEMS = (Column("severity"), Column("problem"), Column("description"), Column("hint"))
_ELECTED = (Column("topic"), number("partition"), Column("result"))
_MOVES = (Column("topic"), number("partition"), number("leader"), number("preferred"))


@app.command(cls=AdminCommand, epilog=examples("ottla cluster info", "ottla cluster info -o json"))
def info(ctx: typer.Context) -> None:
    """Show the cluster in numbers, and its finalized features."""
    from ottla.admin.cluster import cluster_info

    with administration(ctx) as admin:
        found = cluster_info(admin.session)
        features: Any = found.features
        if admin.output.is_table:
            features = [f"{name}={level}" for name, level in found.features.items()]
        admin.output.document(
            {
                "cluster_id": found.cluster_id,
                "bootstrap": admin.target.bootstrap,
                "controller": found.controller,
                "brokers": found.brokers,
                "fenced": found.fenced,
                "topics": found.topics,
                "partitions": found.partitions,
                "features": features,
            }
        )


@app.command(cls=AdminCommand, epilog=examples("ottla cluster nodes", "ottla cluster nodes -o csv"))
def nodes(ctx: typer.Context) -> None:
    """List the brokers with their racks, roles and replicas."""
    from ottla.admin.cluster import nodes as query

    with administration(ctx) as admin:
        rows = [
            {
                "broker": each.node_id,
                "address": each.address,
                "rack": each.rack,
                "state": "fenced" if each.fenced else "running",
                "role": "active controller" if each.controller else "controller" if each.voter else "broker",
                "leads": each.leads,
                "replicas": each.replicas,
                "in_sync": each.in_sync,
            }
            for each in query(admin.session)
        ]
        admin.output.rows(_NODES, rows)


@app.command(cls=AdminCommand, epilog=examples("ottla cluster quorum", "ottla cluster quorum -o json"))
def quorum(ctx: typer.Context) -> None:
    """Show the quorum of the controllers and how far each has replicated the metadata log."""
    from ottla.admin.cluster import quorum as query

    with administration(ctx) as admin:
        found = query(admin.session)
        rows = [
            {
                "node": each.node_id,
                "role": "leader" if each.leader else "voter" if each.voter else "observer",
                "log_end_offset": each.log_end_offset,
                "lag": each.lag,
                "last_fetch_ms": each.last_fetch_ms,
                "last_caught_up_ms": each.last_caught_up_ms,
                "listeners": list(each.listeners),
            }
            for each in found.replicas
        ]
        facts = {"leader": found.leader, "epoch": found.epoch, "high_watermark": found.high_watermark}
        admin.output.document(facts, [Section("replicas", _QUORUM, rows)])


@app.command(cls=AdminCommand, epilog=examples("ottla cluster dirs", "ottla cluster dirs -o json"))
def dirs(ctx: typer.Context) -> None:
    """List the log directories of all brokers with their sizes."""
    from ottla.admin.cluster import log_dirs

    with administration(ctx) as admin:
        found, failed = log_dirs(admin.session)
        rows = [
            {
                "broker": each.node_id,
                "path": each.path,
                "state": each.error or ("cordoned" if each.cordoned else "online"),
                "partitions": each.partitions,
                "bytes": each.size,
                "usable_bytes": each.usable,
                "total_bytes": each.total,
            }
            for each in found
        ]
        admin.output.rows(_DIRS, rows)
        for node, error in failed.items():
            admin.output.note(f"broker {node} did not respond: {error}")
        if failed:
            raise typer.Exit(FAILED)


@app.command(cls=AdminCommand, epilog=examples("ottla cluster health", "ottla cluster health -o json"))
def health(ctx: typer.Context) -> None:
    """List the problems of the cluster and what to do. Exit code 1 if one is critical."""
    from ottla.admin.health import CRITICAL
    from ottla.admin.health import health as query

    with administration(ctx) as admin:
        found = query(admin.session)
        rows = [
            {"severity": each.severity, "problem": each.kind, "description": each.text, "hint": each.hint}
            for each in found
        ]
        admin.output.rows(_PROBLEMS, rows, empty="The cluster is healthy.")
        if any(each.severity == CRITICAL for each in found):
            raise typer.Exit(FAILED)


@app.command(
    cls=AdminCommand,
    epilog=examples(
        "ottla cluster elect --dry-run",
        "ottla cluster elect --topic orders --yes",
        "ottla cluster elect --unclean --topic orders --partition 0",
    ),
)
def elect(
    ctx: typer.Context,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Only this topic.", autocompletion=complete_topic)
    ] = None,
    partition: OnlyPartitions = None,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Elect a replica that is not in sync; records may be lost.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Elect the preferred leaders, so that each broker leads the partitions it should."""
    from ottla.admin.cluster import elect as run
    from ottla.base.ids import TopicPartition

    with administration(ctx) as admin:
        if unclean and topic is None:
            raise LocalError("--unclean needs --topic: it may lose records")
        listed = admin.session.metadata(None if topic is None else [topic]).topics
        if topic is not None and not any(each.partitions for each in listed):
            raise LocalError(f"topic {topic} does not exist")
        wanted: list[dict[str, Any]] = [
            {
                "topic": each.name,
                "partition": one.partition_index,
                "leader": one.leader_id,
                "preferred": one.replica_nodes[0],
            }
            for each in listed
            for one in each.partitions
            if (not partition or one.partition_index in partition)
            and (one.leader_id < 0 if unclean else one.leader_id != one.replica_nodes[0])
        ]
        if not wanted:
            admin.output.done("No partition needs an election.", elected=[])
            return
        if admin.output.is_table:
            admin.output.rows(_MOVES, wanted)
        kind = "an unclean leader" if unclean else "the preferred leader"
        if not confirmed(admin.output, f"Elect {kind} of {len(wanted)} partitions", yes=yes, dry_run=dry_run):
            return
        chosen = [TopicPartition(each["topic"], each["partition"]) for each in wanted]
        results = run(admin.session, chosen, unclean=unclean)
        rows = [
            {"topic": each.topic, "partition": each.partition, "result": each.error or "elected"}
            for each in results
        ]
        admin.output.rows(_ELECTED, rows)
        if any(each.error not in (None, "ELECTION_NOT_NEEDED") for each in results):
            raise typer.Exit(FAILED)


@app.command(cls=AdminCommand, epilog=examples("ottla cluster kill 1", "ottla cluster kill 1 --yes"))
def kill(ctx: typer.Context, broker: Broker, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Kill a broker of `ottla up` (SIGKILL), for example to watch a failover."""
    _perform(ctx, "kill", broker, yes=yes, dry_run=dry_run)


@app.command(cls=AdminCommand, epilog=examples("ottla cluster pause 1"))
def pause(ctx: typer.Context, broker: Broker, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Pause a broker of `ottla up` (SIGSTOP): it does nothing, and its connections stay open."""
    _perform(ctx, "pause", broker, yes=yes, dry_run=dry_run)


@app.command(cls=AdminCommand, epilog=examples("ottla cluster resume 1"))
def resume(ctx: typer.Context, broker: Broker, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Continue a broker of `ottla up` that was paused."""
    _perform(ctx, "resume", broker, yes=yes, dry_run=dry_run)


@app.command(cls=AdminCommand, epilog=examples("ottla cluster restart 1", "ottla cluster restart 1 --yes"))
def restart(ctx: typer.Context, broker: Broker, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Restart a broker of `ottla up`, or start it again, and wait until it is registered."""
    _perform(ctx, "restart", broker, yes=yes, dry_run=dry_run)


def _perform(ctx: typer.Context, action: str, broker: int, *, yes: bool, dry_run: bool) -> None:
    from ottla.admin.contexts import local_cluster
    from ottla.local.control import send

    with exit_on_errors():
        options: GlobalOptions = ctx.obj
        output = output_of(options)
        with open_session(options) as (session, target):
            found = local_cluster(target.bootstrap)
            if found is None or found.data is None:
                raise LocalError(
                    f"only brokers of `ottla up` can be killed and restarted, and none runs at {target.bootstrap}"
                )
            if not confirmed(output, f"{action.capitalize()} broker {broker}", yes=yes, dry_run=dry_run):
                return
            text = send(found.data, action, broker, timeout_s=session.timeout_s)
            if action == "restart":
                _wait_listed(session, broker)
                text = "is running"
            output.done(f"Broker {broker} {text}.", broker=broker, result=text)


def _wait_listed(session: Session, broker: int) -> None:
    """Wait until the cluster lists a broker. Raise LocalError at the timeout."""
    pause = threading.Event()
    for _ in range(int(session.timeout_s / _POLL_S)):
        if broker in session.nodes():
            return
        pause.wait(_POLL_S)
    raise LocalError(f"broker {broker} is starting, but is not registered after {session.timeout_s:g} s")
