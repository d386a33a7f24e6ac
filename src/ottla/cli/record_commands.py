"""Options of `ottla produce` and `ottla consume`; `cli.produce` and `cli.consume` do the work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from ottla.admin.decode import Form
from ottla.admin.record_input import Input
from ottla.base.errors import LocalError
from ottla.cli.completion_values import complete_group, complete_topic
from ottla.cli.context import AdminCommand, administration
from ottla.cli.terminal import FAILED, examples

if TYPE_CHECKING:
    from ottla.admin.avro import Schema
    from ottla.cli.record_output import RecordWriter

produce_app = typer.Typer(help="Produce records from options, lines, JSON lines or CSV.")
consume_app = typer.Typer(help="Read records between positions, filtered, or follow new ones.")


@produce_app.command(
    cls=AdminCommand,
    epilog=examples(
        "ottla produce orders -k 42 -v '{\"total\": 3}' -H source=shop",
        "ottla produce orders -k 42 --null",
        "ottla produce orders -K : < lines.txt",
        "ottla produce orders --input jsonl --transactional < records.jsonl",
        "ottla produce orders --input csv --rate 100 < records.csv",
    ),
)
def produce(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(help="Name of the topic.", autocompletion=complete_topic)],
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key of each record without one.")] = None,
    value: Annotated[
        str | None, typer.Option("--value", "-v", help="Value of one record; without it, the input is read.")
    ] = None,
    null: Annotated[bool, typer.Option("--null", help="One record without a value (a tombstone).")] = False,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="Header NAME=VALUE. Can be repeated.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Partition.")] = None,
    source: Annotated[
        Input, typer.Option("--input", help="Format of the input; jsonl is the output of consume.")
    ] = Input.LINES,
    separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="Text between key and value in lines.")
    ] = None,
    rate: Annotated[float | None, typer.Option("--rate", min=0.001, help="Records per second.")] = None,
    transactional: Annotated[
        bool, typer.Option("--transactional", help="All records in one transaction.")
    ] = False,
) -> None:
    """Produce one record from options, or the records of standard input."""
    from ottla.cli.produce import ProduceOptions, run

    with administration(ctx) as admin:
        options = ProduceOptions(
            topic, key, value, null, tuple(header or ()), partition, source, separator, rate, transactional
        )
        options.check()
        sent = run(admin.session, options, sys.stdin.buffer)
        for number, reason in sent.errors:
            admin.output.note(f"record {number}: {reason}")
        facts = {
            "topic": topic,
            "delivered": sent.delivered,
            "failed": sent.failed,
            "aborted": sent.aborted,
            "last_partition": sent.last[0] if sent.last else None,
            "last_offset": sent.last[1] if sent.last else None,
        }
        text = f"{sent.delivered:,} records delivered to {topic}"
        if sent.last and sent.delivered == 1:
            text += f", partition {sent.last[0]}, offset {sent.last[1]}"
        if sent.failed or sent.aborted:
            text += f"; {sent.failed:,} failed" + ("; the transaction was aborted" if sent.aborted else "")
        admin.output.done(text, **facts)
        if sent.failed or sent.aborted:
            raise typer.Exit(FAILED)


@consume_app.command(
    cls=AdminCommand,
    epilog=examples(
        "ottla consume orders",
        "ottla consume orders --tail 10 --follow",
        "ottla consume orders -O @-1h:end --where 'value.total > 100 and key ~ \"4*\"'",
        "ottla consume orders -O -10 -f '%p %o %k %v'",
        "ottla consume orders -o jsonl | ottla produce copy --input jsonl",
        "ottla consume 'orders-*' -g billing -n 100",
    ),
)
def consume(
    ctx: typer.Context,
    topics: Annotated[
        list[str], typer.Argument(help="Names or globs of topics.", autocompletion=complete_topic)
    ],
    offsets: Annotated[
        str | None,
        typer.Option("--offsets", "-O", help="Positions A:B: start, end, 42, +5, -10, @TIME, @-1h."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=0, help="Records to read, at most.")
    ] = None,
    tail: Annotated[int | None, typer.Option("--tail", min=0, help="Only the newest N records.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new records; Ctrl-C ends.")] = False,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", "-g", help="Read as a member of a group, and commit.", autocompletion=complete_group
        ),
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", help="Only records for which the expression is true.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only records whose key matches the glob.")] = None,
    text_format: Annotated[
        str | None, typer.Option("--format", "-f", help="Format: %t %p %o %k %v %h %T %d %K %V.")
    ] = None,
    decode: Annotated[Form, typer.Option("--decode", help="How keys and values are shown.")] = Form.AUTO,
    schema: Annotated[
        Path | None, typer.Option("--schema", help="File with the schema of Avro values.")
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition. Can be repeated.")
    ] = None,
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="Only records of committed transactions.")
    ] = False,
) -> None:
    """Read records, up to the end offsets known at the start unless --follow is given.

    With -o jsonl each line can be produced again.
    """
    from ottla.cli.consume import ConsumeOptions, Consumption

    with administration(ctx) as admin:
        options = ConsumeOptions(
            tuple(topics),
            offsets,
            count,
            tail,
            follow,
            group,
            where,
            key,
            None if partition is None else tuple(partition),
            read_committed,
        )
        options.check()
        out = sys.stdout.buffer
        reading = Consumption(admin.session, options)
        reading.run(_writer(out, admin.output.format, text_format, decode, _schema(schema)), out)
        for tp, offset in reading.lost.items():
            admin.output.note(f"{tp}: records before offset {offset} were deleted before they were read")


def _schema(path: Path | None) -> Schema | None:
    from ottla.admin.avro import AvroError, parse_schema

    if path is None:
        return None
    try:
        return parse_schema(path.read_text())
    except (OSError, UnicodeDecodeError, AvroError) as error:
        raise LocalError(f"--schema: {path}: {error}") from error


def _writer(
    out: BinaryIO, output: str, text_format: str | None, form: Form, schema: Schema | None
) -> RecordWriter:
    from ottla.cli import record_output

    terminal = sys.stdout.isatty()
    if text_format is not None:
        return record_output.FormatWriter(out, text_format, form, schema, terminal=terminal)
    if output == "json":
        return record_output.JsonWriter(out, form, schema)
    if output == "jsonl":
        return record_output.JsonLinesWriter(out, form, schema)
    if output == "csv":
        return record_output.CsvWriter(out, form, schema)
    return record_output.LineWriter(out, form, schema, color=terminal)
