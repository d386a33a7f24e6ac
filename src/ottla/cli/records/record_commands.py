"""Options of `ottla produce` and `ottla consume`; `cli.records.produce` and `cli.records.consume` do the work.

Exit codes are those of `cli.terminal.exit_code`. Records that fail, or that were deleted before they were read, give
exit code 1.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from ottla.admin.records.decode import Form
from ottla.admin.records.record_input import Input
from ottla.base.errors import LocalError
from ottla.cli.completion_values import complete_group, complete_topic
from ottla.cli.context import AdminCommand, OnlyPartitions, administration
from ottla.cli.help import Application, examples
from ottla.cli.terminal import FAILED, print_error

if TYPE_CHECKING:
    from ottla.admin.records.avro import Schema
    from ottla.admin.records.browse import Progress
    from ottla.admin.records.send import Sent
    from ottla.cli.records.consume import ConsumeOptions
    from ottla.cli.records.record_output import RecordWriter

produce_app = Application(help="Produce records from options, lines, JSON lines or CSV.")
consume_app = Application(help="Read records between positions, filtered, or follow new ones.")


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
        list[str] | None,
        typer.Option("--header", "-H", help="Header NAME=VALUE, or NAME for a null value. Repeatable."),
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
    from ottla.cli.records.produce import ProduceOptions, run

    with administration(ctx) as admin:
        options = ProduceOptions(
            topic, key, value, null, tuple(header or ()), partition, source, separator, rate, transactional
        )
        options.check()
        if not options.has_record and sys.stdin.isatty():
            admin.output.note(f"Enter {source}, one record each. Ctrl-D ends the input, Ctrl-C stops.")
        sent = run(admin.session, options, sys.stdin.buffer)
        for number, reason in sent.errors:
            print_error(reason if options.has_record else f"line {number}: {reason}")
        facts = {
            "topic": topic,
            "delivered": 0 if sent.aborted else sent.delivered,
            "failed": sent.failed,
            "aborted": sent.aborted,
            "last_partition": sent.last[0] if sent.last else None,
            "last_offset": sent.last[1] if sent.last else None,
        }
        admin.output.done(_summary(topic, sent), **facts)
        if sent.failed or sent.aborted:
            raise typer.Exit(FAILED)


def _summary(topic: str, sent: Sent) -> str:
    if sent.aborted:
        return f"no record delivered to {topic}: the transaction was aborted"
    text = f"{sent.delivered:,} {'record' if sent.delivered == 1 else 'records'} delivered to {topic}"
    if sent.last and sent.delivered == 1:
        text += f", partition {sent.last[0]}, offset {sent.last[1]}"
    return text + (f"; {sent.failed:,} failed" if sent.failed else "")


Offsets = Annotated[
    str | None,
    typer.Option(
        "--offsets",
        "-O",
        metavar="FROM[:TO]",
        help="start, end, 42, +5 (after the start), -10 (before the end), @2026-11-17T10:00, @-1h."
        " By default start; with --follow only new records.",
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where", "-w", help="Condition on key, value.member, headers.name, offset, partition, timestamp."
    ),
]
TextFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help="%t topic, %p partition, %o offset, %k key, %v value, %h headers, %T timestamp, %d date, %K %V sizes.",
    ),
]


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
    offsets: Offsets = None,
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
    where: Where = None,
    key: Annotated[str | None, typer.Option("--key", help="Only records whose key matches the glob.")] = None,
    text_format: TextFormat = None,
    decode: Annotated[Form, typer.Option("--decode", help="How keys and values are shown.")] = Form.AUTO,
    schema: Annotated[
        Path | None, typer.Option("--schema", help="File with the schema of Avro values.")
    ] = None,
    partition: OnlyPartitions = None,
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="Only records of committed transactions.")
    ] = False,
) -> None:
    """Read records, up to the end offsets known at the start unless --follow is given.

    Conditions have = != < <= > >= ~ (glob), and, or, not, null, true, false, numbers, texts in quotes, and times such
    as @-1h. With -o jsonl each line can be produced again.
    """
    from ottla.cli.records.consume import ConsumeOptions, Consumption

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
        if text_format is not None and not admin.output.is_table:
            raise LocalError(f"-f and -o {admin.output.format} contradict each other")
        if decode is Form.AVRO and schema is None:
            raise LocalError("--decode avro needs the schema of the values: --schema FILE")
        out = sys.stdout.buffer
        writer = _writer(out, admin.output.format, text_format, decode, _schema(schema))
        with _progress(options) as on_progress:
            reading = Consumption(admin.session, options, on_progress)
            reading.run(writer, out)
        for tp, lost in reading.lost.items():
            print_error(f"{lost:,} offsets of {tp} were deleted before they were read")
        if reading.lost:
            raise typer.Exit(FAILED)


@contextmanager
def _progress(options: ConsumeOptions) -> Iterator[Callable[[Progress], None] | None]:
    """A bar on the terminal while the records are written elsewhere."""
    if not sys.stderr.isatty() or sys.stdout.isatty() or options.group is not None or options.follow:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    text = TextColumn("{task.completed:,.0f} of {task.total:,.0f} offsets, {task.fields[matched]:,} records")
    with Bar(BarColumn(), text, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1, matched=0)
        yield lambda progress: bar.update(
            task, completed=progress.done, total=progress.total, matched=progress.matched
        )


def _schema(path: Path | None) -> Schema | None:
    from ottla.admin.records.avro import AvroError, parse_schema

    if path is None:
        return None
    try:
        return parse_schema(path.read_text())
    except (OSError, UnicodeDecodeError, AvroError) as error:
        raise LocalError(f"--schema: {path}: {error}") from error


def _writer(
    out: BinaryIO, output: str, text_format: str | None, form: Form, schema: Schema | None
) -> RecordWriter:
    from ottla.cli.records import record_output

    terminal = sys.stdout.isatty()
    if text_format is not None:
        return record_output.FormatWriter(out, text_format, form, schema, terminal=terminal)
    if output == "json":
        return record_output.JsonWriter(out, form, schema)
    if output == "jsonl":
        return record_output.JsonLinesWriter(out, form, schema)
    if output == "csv":
        return record_output.CsvWriter(out, form, schema)
    return record_output.LineWriter(out, form, schema, color=terminal and "NO_COLOR" not in os.environ)
