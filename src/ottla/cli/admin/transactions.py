"""`ottla transactions`: list and describe transactions and producers, find and abort transactions that hang."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.base.errors import LocalError
from ottla.cli.completion_values import complete_topic, complete_transaction
from ottla.cli.confirm import DryRun, Yes, confirmed
from ottla.cli.context import AdminCommand, administration
from ottla.cli.help import Application, examples
from ottla.cli.output import Column, number, seconds_text, time_text

if TYPE_CHECKING:
    from ottla.admin.transactions import ProducerInfo

app = Application(
    help="List and describe transactions; find and abort those that hang.", no_args_is_help=True
)

_LISTED = (
    Column("transactional_id"),
    Column("state"),
    number("producer_id"),
    number("coordinator"),
)
_PRODUCERS = (
    Column("topic"),
    number("partition"),
    number("producer_id"),
    number("epoch"),
    number("last_sequence"),
    Column("last_timestamp_ms", "last record", time_text),
    number("start_offset", "open since offset"),
)
_HANGING = (
    Column("topic"),
    number("partition"),
    number("start_offset"),
    number("producer_id"),
    number("epoch"),
    Column("transactional_id"),
    number("idle_seconds", "idle", seconds_text),
    Column("reason"),
)


@app.command(
    "list",
    cls=AdminCommand,
    epilog=examples("ottla transactions list", "ottla transactions list --state Ongoing -o jsonl"),
)
def list_(
    ctx: typer.Context,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", help="Only this state, such as Ongoing or CompleteCommit. Can be repeated."),
    ] = None,
) -> None:
    """List the transactional ids and the states of their transactions."""
    from ottla.admin.transactions import list_transactions

    with administration(ctx) as admin:
        rows = [
            {
                "transactional_id": each.transactional_id,
                "state": each.state,
                "producer_id": each.producer_id,
                "coordinator": each.coordinator,
            }
            for each in list_transactions(admin.session, states=state or ())
        ]
        admin.output.rows(_LISTED, rows, empty="There are no transactional ids.")


@app.command(cls=AdminCommand, epilog=examples("ottla transactions describe payments-1"))
def describe(
    ctx: typer.Context,
    transactional_id: Annotated[
        str, typer.Argument(help="Transactional id.", autocompletion=complete_transaction)
    ],
) -> None:
    """Describe a transactional id: state, producer, time of its open transaction, partitions."""
    from ottla.admin.transactions import describe as query

    with administration(ctx) as admin:
        found = query(admin.session, transactional_id)
        open_s = None if found.start_ms is None else (admin.session.clock.now_ms() - found.start_ms) / 1000
        facts: dict[str, Any] = {
            "transactional_id": found.transactional_id,
            "state": found.state,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
            "timeout_ms": found.timeout_ms,
            "start_ms": found.start_ms,
            "open_seconds": open_s,
            "partitions": [str(tp) for tp in found.partitions],
        }
        if admin.output.is_table:
            facts |= {"start_ms": time_text(found.start_ms), "open_seconds": seconds_text(open_s)}
        admin.output.document(facts)


@app.command(
    cls=AdminCommand,
    epilog=examples("ottla transactions producers orders", "ottla transactions producers orders -o json"),
)
def producers(
    ctx: typer.Context,
    topics: Annotated[list[str], typer.Argument(help="Names of topics.", autocompletion=complete_topic)],
) -> None:
    """List the active producers of topics: those that have written with a producer id."""
    from ottla.admin.transactions import producers as query

    with administration(ctx) as admin:
        rows = [_producer(each) for each in query(admin.session, topics)]
        admin.output.rows(_PRODUCERS, rows, empty="There are no active producers.")


def _producer(each: ProducerInfo) -> dict[str, Any]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "producer_id": each.producer_id,
        "epoch": each.producer_epoch,
        "last_sequence": each.last_sequence,
        "last_timestamp_ms": each.last_timestamp_ms,
        "start_offset": each.start_offset,
    }


@app.command(
    cls=AdminCommand,
    epilog=examples(
        "ottla transactions hanging", "ottla transactions hanging --topic orders --older-than 1h"
    ),
)
def hanging(
    ctx: typer.Context,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", help="Only this topic. Can be repeated.", autocompletion=complete_topic
        ),
    ] = None,
    older_than: Annotated[
        str, typer.Option("--older-than", help="Only transactions without a record for this long.")
    ] = "15m",
) -> None:
    """Find transactions that are open in a partition and that no coordinator will end."""
    from ottla.admin.positions import parse_duration_ms
    from ottla.admin.transactions import hanging as query

    with administration(ctx) as admin:
        found = query(admin.session, topic or None, older_than_ms=parse_duration_ms(older_than))
        now_ms = admin.session.clock.now_ms()
        rows = [
            {
                **_producer(each.producer),
                "transactional_id": each.transactional_id,
                "idle_seconds": (now_ms - each.producer.last_timestamp_ms) / 1000,
                "reason": each.reason,
            }
            for each in found
        ]
        admin.output.rows(_HANGING, rows, empty="No transaction hangs.")
        if found and admin.output.is_table:
            admin.output.note(
                "`ottla transactions abort --topic T --partition P --start-offset N` ends such a transaction."
            )


@app.command(
    cls=AdminCommand,
    epilog=examples(
        "ottla transactions abort payments-1",
        "ottla transactions abort --topic orders --partition 0 --start-offset 1234 --yes",
    ),
)
def abort(
    ctx: typer.Context,
    transactional_id: Annotated[
        str | None, typer.Argument(help="Transactional id.", autocompletion=complete_transaction)
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", "-t", help="Topic of a hanging transaction.", autocompletion=complete_topic),
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Its partition.")] = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, help="Its first offset there.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Abort the open transaction of a transactional id, or a hanging one in a partition.

    The producer of a transactional id is fenced: its next request fails.
    """
    from ottla.admin import transactions as admin_transactions

    with administration(ctx) as admin:
        if (transactional_id is None) == (topic is None):
            raise LocalError("give a transactional id, or --topic with --partition and --start-offset")
        if transactional_id is not None:
            if confirmed(
                admin.output, f"Abort the transaction of {transactional_id}", yes=yes, dry_run=dry_run
            ):
                admin_transactions.abort(admin.session, transactional_id)
                admin.output.done(f"Aborted the transaction of {transactional_id}.", aborted=transactional_id)
            return
        if partition is None or start_offset is None:
            raise LocalError(
                "--topic needs --partition and --start-offset; `ottla transactions hanging` shows them"
            )
        found = [
            each
            for each in admin_transactions.producers(admin.session, [str(topic)])
            if (each.partition, each.start_offset) == (partition, start_offset)
        ]
        if not found:
            raise LocalError(
                f"{topic}-{partition} has no open transaction that starts at offset {start_offset}"
            )
        what = f"Write an abort marker for producer {found[0].producer_id} to {topic}-{partition}"
        if confirmed(admin.output, what, yes=yes, dry_run=dry_run):
            admin_transactions.abort_hanging(admin.session, found[0])
            admin.output.done(
                f"Aborted the transaction in {topic}-{partition}.", aborted=found[0].producer_id
            )
