"""`ottla topics`: list, describe, create, change, trim, clone and delete topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.base.errors import LocalError
from ottla.cli.completion_values import complete_topic
from ottla.cli.confirm import DryRun, Yes, confirmed
from ottla.cli.context import AdminCommand, OnlyPartitions, administration, parse_settings
from ottla.cli.help import Application, examples
from ottla.cli.output import Column, Section, bytes_text, count_text, number, time_text

if TYPE_CHECKING:
    from ottla.admin.session import Session
    from ottla.admin.topics import PartitionInfo, TopicInfo
    from ottla.base.ids import TopicPartition

app = Application(help="List, describe, create, change, trim, clone and delete topics.", no_args_is_help=True)

Topic = Annotated[str, typer.Argument(help="Name of the topic.", autocompletion=complete_topic)]
Topics = Annotated[list[str], typer.Argument(help="Names of topics.", autocompletion=complete_topic)]
Internal = Annotated[bool, typer.Option("--internal", "-i", help="Internal topics as well.")]

_LISTED = (
    Column("topic"),
    number("partitions"),
    number("replication_factor", "replicas"),
    number("offsets", show=count_text),
    number("bytes", "size", bytes_text),
    Column("last_written_ms", "last written", time_text),
    number("under_replicated"),
    number("without_leader", "no leader"),
)
_PARTITIONS = (
    number("partition"),
    Column("leader", show=lambda value: "none" if value == -1 else str(value)),
    number("leader_epoch", "epoch"),
    Column("replicas"),
    Column("isr"),
    Column("elr"),
    number("start_offset", "start"),
    number("end_offset", "end"),
    number("offsets", show=count_text),
    number("bytes", "size", bytes_text),
    Column("max_timestamp_ms", "newest record", time_text),
)
_OFFSETS = (
    Column("topic"),
    number("partition"),
    number("offset"),
    Column("timestamp_ms", "timestamp", time_text),
)
_TRIMMED = (
    Column("topic"),
    number("partition"),
    number("start_offset", "start"),
    number("trim_to"),
    number("deleted"),
)
_CONFIGS = (
    Column("name"),
    Column("value", show=lambda value: "(hidden)" if value is None else value or '""'),
    Column("source"),
    Column("read_only"),
)


@app.command(
    "list",
    cls=AdminCommand,
    epilog=examples("ottla topics list", "ottla topics list --internal", "ottla topics list -o jsonl"),
)
def list_(ctx: typer.Context, internal: Internal = False) -> None:
    """List the topics with their offsets, sizes and the time of their newest record."""
    from ottla.admin.topics import list_topics

    with administration(ctx) as admin:
        rows = [_listed(each) for each in list_topics(admin.session, internal=internal)]
        admin.output.rows(_LISTED, rows, empty="There are no topics. `ottla topics create NAME` creates one.")


def _listed(topic: TopicInfo) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "offsets": topic.offsets,
        "bytes": topic.size,
        "last_written_ms": topic.max_timestamp,
        "under_replicated": topic.under_replicated,
        "without_leader": topic.without_leader,
    }


@app.command(
    cls=AdminCommand, epilog=examples("ottla topics describe orders", "ottla topics describe orders -o json")
)
def describe(ctx: typer.Context, topic: Topic) -> None:
    """Describe a topic: partitions, leaders, replicas, offsets, and the settings that were changed."""
    from ottla.admin.configs import configs
    from ottla.admin.topics import describe_topic

    with administration(ctx) as admin:
        found = describe_topic(admin.session, topic)
        changed = [each for each in configs(admin.session, topic) if each.source == "topic"]
        facts: dict[str, Any] = {
            "topic": found.name,
            "id": found.id,
            "internal": found.internal,
            "replication_factor": found.replication_factor,
            "configs": {each.name: each.value for each in changed},
        }
        if admin.output.is_table:
            facts["configs"] = [f"{each.name}={each.value}" for each in changed]
        rows = [_partition(each) for each in found.partitions]
        admin.output.document(facts, [Section("partitions", _PARTITIONS, rows)])


def _partition(one: PartitionInfo) -> dict[str, Any]:
    return {
        "partition": one.partition,
        "leader": one.leader,
        "leader_epoch": one.leader_epoch,
        "replicas": list(one.replicas),
        "isr": list(one.isr),
        "elr": list(one.elr),
        "start_offset": one.start_offset,
        "end_offset": one.end_offset,
        "offsets": one.offsets,
        "bytes": one.size,
        "max_timestamp_ms": one.max_timestamp,
    }


@app.command(
    cls=AdminCommand,
    epilog=examples(
        "ottla topics create orders",
        "ottla topics create orders -p 6 -r 3 --config retention.ms=86400000 --config cleanup.policy=compact",
        "ottla topics create orders --if-not-exists",
    ),
)
def create(
    ctx: typer.Context,
    topics: Annotated[list[str], typer.Argument(help="Names of the new topics.")],
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="Number of partitions; by default that of the cluster.")
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor", "-r", help="Number of replicas; by default that of the cluster."
        ),
    ] = -1,
    config: Annotated[
        list[str] | None, typer.Option("--config", help="Setting KEY=VALUE. Can be repeated.")
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if a topic exists.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Create topics."""
    from ottla.admin.topics import create_topic, topic_names

    with administration(ctx) as admin:
        known = set(topic_names(admin.session, internal=True)) if if_not_exists else set()
        for name in dict.fromkeys(topics):
            if name in known:
                admin.output.done(f"Topic {name} exists.", topic=name, created=False)
                continue
            create_topic(
                admin.session,
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=parse_settings(config or (), "--config"),
                validate_only=dry_run,
            )
            text = f"Topic {name} can be created (--dry-run)." if dry_run else f"Topic {name} is created."
            admin.output.done(text, topic=name, created=not dry_run)


@app.command(
    cls=AdminCommand,
    epilog=examples(
        "ottla topics delete orders",
        "ottla topics delete orders payments --yes",
        "ottla topics delete orders --dry-run",
    ),
)
def delete(
    ctx: typer.Context,
    topics: Topics,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Ignore topics that do not exist.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete topics with all their records."""
    from ottla.admin.topics import delete_topics, describe_topics, topic_names

    with administration(ctx) as admin:
        wanted = list(dict.fromkeys(topics))
        if if_exists:
            known = set(topic_names(admin.session, internal=True))
            wanted = [each for each in wanted if each in known]
        if not wanted:
            admin.output.done("No topic was deleted.", deleted=[])
            return
        found = describe_topics(admin.session, wanted)
        if admin.output.is_table:
            admin.output.rows(_LISTED, [_listed(each) for each in found])
        if confirmed(admin.output, f"Delete {', '.join(wanted)} with all records", yes=yes, dry_run=dry_run):
            delete_topics(admin.session, wanted)
            admin.output.done(f"Deleted: {', '.join(wanted)}.", deleted=wanted)


@app.command(
    cls=AdminCommand,
    epilog=examples("ottla topics grow orders --to 12", "ottla topics grow orders --to 12 --dry-run"),
)
def grow(
    ctx: typer.Context,
    topic: Topic,
    to: Annotated[int, typer.Option("--to", min=1, help="New number of partitions.")],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Add partitions to a topic. Keys may belong to other partitions afterwards, and partitions cannot be removed."""
    from ottla.admin.topics import add_partitions, describe_topic

    with administration(ctx) as admin:
        before = len(describe_topic(admin.session, topic).partitions)
        if to == before:
            admin.output.done(f"Topic {topic} has {to} partitions.", topic=topic, partitions=to)
            return
        add_partitions(admin.session, topic, to, validate_only=True)
        what = f"Grow {topic} from {before} to {to} partitions; records with the same key may go to other partitions"
        if confirmed(admin.output, what, yes=yes, dry_run=dry_run):
            add_partitions(admin.session, topic, to)
            admin.output.done(f"Topic {topic} has {to} partitions.", topic=topic, partitions=to)


@app.command(
    cls=AdminCommand,
    epilog=examples(
        "ottla topics configs orders",
        "ottla topics configs orders --all",
        "ottla topics configs orders --set retention.ms=3600000",
        "ottla topics configs orders --delete retention.ms",
    ),
)
def configs(
    ctx: typer.Context,
    topic: Topic,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Defaults as well.")] = False,
    assign: Annotated[list[str] | None, typer.Option("--set", help="Set KEY=VALUE. Can be repeated.")] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", help="Delete the setting KEY of the topic. Can be repeated."),
    ] = None,
    append: Annotated[
        list[str] | None, typer.Option("--append", help="Append to a list, KEY=VALUE. Can be repeated.")
    ] = None,
    subtract: Annotated[
        list[str] | None, typer.Option("--subtract", help="Remove from a list, KEY=VALUE. Can be repeated.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Show the settings of a topic, or change them."""
    from ottla.admin.configs import alter_configs
    from ottla.admin.configs import configs as read

    with administration(ctx) as admin:
        if assign or delete or append or subtract:
            alter_configs(
                admin.session,
                topic,
                assign=parse_settings(assign or (), "--set"),
                delete=delete or (),
                append=parse_settings(append or (), "--append"),
                subtract=parse_settings(subtract or (), "--subtract"),
                validate_only=dry_run,
            )
            if dry_run:
                admin.output.note("The settings are valid; nothing was changed (--dry-run)")
        found = [each for each in read(admin.session, topic) if everything or not each.is_default]
        admin.output.rows(
            _CONFIGS,
            [
                {"name": each.name, "value": each.value, "source": each.source, "read_only": each.read_only}
                for each in found
            ],
            empty=f"Topic {topic} has only defaults; --all shows them.",
        )


@app.command(
    cls=AdminCommand,
    epilog=examples(
        "ottla topics offsets orders",
        "ottla topics offsets orders --at @-1h",
        "ottla topics offsets orders --at @2026-11-17T10:00",
        "ottla topics offsets orders --at end",
    ),
)
def offsets(
    ctx: typer.Context,
    topic: Topic,
    at: Annotated[
        str, typer.Option("--at", help="Position: start, end, OFFSET, +N, -N, @TIME, @-DURATION.")
    ] = "end",
) -> None:
    """Show the offset of a position in each partition, and the timestamp of the record there."""
    from ottla.admin.log_offsets import leaders_of, record_timestamps

    with administration(ctx) as admin:
        found = _resolve(admin.session, topic, at)
        stamps = record_timestamps(admin.session, found, leaders_of(admin.session.metadata([topic])))
        admin.output.rows(
            _OFFSETS,
            [
                {"topic": topic, "partition": tp.partition, "offset": offset, "timestamp_ms": stamps.get(tp)}
                for tp, offset in found.items()
            ],
        )


@app.command(
    cls=AdminCommand,
    epilog=examples(
        "ottla topics trim orders --before @-7d",
        "ottla topics trim orders --before 1000 --partition 0",
        "ottla topics trim orders --before end --yes",
    ),
)
def trim(
    ctx: typer.Context,
    topic: Topic,
    before: Annotated[
        str, typer.Option("--before", help="Position: OFFSET, end, +N, -N, @TIME, @-DURATION.")
    ],
    partition: OnlyPartitions = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete the records before a position."""
    from ottla.admin.topics import describe_topic
    from ottla.admin.topics import trim as delete_records

    with administration(ctx) as admin:
        known = {each.tp: each for each in describe_topic(admin.session, topic).partitions}
        targets = _resolve(admin.session, topic, before, partition)
        rows: list[dict[str, Any]] = [
            {
                "topic": topic,
                "partition": tp.partition,
                "start_offset": known[tp].start_offset,
                "trim_to": offset,
                "deleted": max(0, offset - (known[tp].start_offset or 0)),
            }
            for tp, offset in targets.items()
        ]
        admin.output.rows(_TRIMMED, rows)
        total = sum(each["deleted"] for each in rows)
        if total == 0:
            admin.output.note("There is nothing to delete.")
        elif confirmed(admin.output, f"Delete {total:,} offsets of {topic}", yes=yes, dry_run=dry_run):
            delete_records(admin.session, {tp: offset for tp, offset in targets.items() if offset > 0})
            admin.output.note(f"Deleted {total:,} offsets of {topic}.")


def _resolve(
    session: Session, topic: str, text: str, only: list[int] | None = None
) -> dict[TopicPartition, int]:
    """The offsets of a position in the partitions of a topic. Raise LocalError or UnknownTopic."""
    from ottla.admin.positions import log_bounds, parse_position, resolve
    from ottla.admin.topics import partitions_of

    position = parse_position(text)
    partitions = partitions_of(session, topic)
    if only:
        missing = sorted(set(only) - {tp.partition for tp in partitions})
        if missing:
            raise LocalError(f"topic {topic} has no partition {missing[0]}")
        partitions = [tp for tp in partitions if tp.partition in only]
    return resolve(session.cluster, position, log_bounds(session.cluster, partitions), session.clock.now_ms())


@app.command(
    cls=AdminCommand,
    epilog=examples(
        "ottla topics clone orders orders-copy",
        "ottla topics clone orders orders-today --range @-1d",
        "ottla topics clone orders orders --to-bootstrap staging:9092 --config retention.ms=3600000",
    ),
)
def clone(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(help="Topic to copy.", autocompletion=complete_topic)],
    target: Annotated[str, typer.Argument(help="New topic.")],
    offsets: Annotated[
        str, typer.Option("--range", "-O", help="Positions A:B; all records by default.")
    ] = "start",
    to_bootstrap: Annotated[
        str | None, typer.Option("--to-bootstrap", help="Bootstrap servers of another cluster for the copy.")
    ] = None,
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", "-r", help="Number of replicas of the new topic.")
    ] = -1,
    config: Annotated[
        list[str] | None, typer.Option("--config", help="Other setting KEY=VALUE. Can be repeated.")
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add the records to a topic that exists.")] = False,
) -> None:
    """Copy a topic: its settings, and all committed records with their keys, headers and timestamps."""
    from ottla.admin.positions import log_bounds, parse_range, resolve
    from ottla.admin.records.clone import copy_records, prepare_target
    from ottla.admin.session import Session
    from ottla.admin.topics import partitions_of
    from ottla.cli.progress import progress_bar

    with administration(ctx) as admin:
        session, wanted = admin.session, parse_range(offsets)
        settings = admin.target.settings if to_bootstrap is None else {}
        with Session(to_bootstrap or session.bootstrap, settings, timeout_s=session.timeout_s) as other:
            other.connect()
            bounds = log_bounds(session.cluster, partitions_of(session, source), committed=True)
            now_ms = session.clock.now_ms()
            starts = resolve(session.cluster, wanted.start, bounds, now_ms)
            ends = resolve(session.cluster, wanted.end, bounds, now_ms, nearest=True)
            ranges = {tp: (starts[tp], max(starts[tp], ends[tp])) for tp in bounds}
            prepare_target(
                session,
                other,
                source,
                target,
                replication_factor=replication_factor,
                overrides=parse_settings(config or (), "--config"),
                append=append,
            )
            total = sum(end - start for start, end in ranges.values())
            with progress_bar(f"{source} to {target}", total) as advance:
                done = copy_records(session, other, target, ranges, advance)
        admin.output.done(
            f"Copied {done.records:,} records ({bytes_text(done.bytes)}) of {source} to {target}.",
            topic=target,
            records=done.records,
            bytes=done.bytes,
        )
