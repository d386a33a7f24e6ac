"""`ottla groups`: list and describe groups with their lag, reset and delete their offsets, delete groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.base.errors import LocalError
from ottla.cli.completion_values import complete_group, complete_topic
from ottla.cli.confirm import DryRun, Yes, confirmed
from ottla.cli.context import AdminCommand, OnlyPartitions, administration
from ottla.cli.help import Application, examples
from ottla.cli.output import Column, Section, count_text, number, seconds_text

if TYPE_CHECKING:
    from ottla.admin.groups import GroupInfo, MemberInfo
    from ottla.admin.offset_reset import ResetPlan
    from ottla.admin.session import Session
    from ottla.base.ids import TopicPartition

app = Application(
    help="List and describe groups with their lag; reset and delete their offsets.", no_args_is_help=True
)

Group = Annotated[str, typer.Argument(help="Name of the group.", autocompletion=complete_group)]
Groups = Annotated[list[str], typer.Argument(help="Names of groups.", autocompletion=complete_group)]
OnlyTopics = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", help="Only this topic. Can be repeated.", autocompletion=complete_topic),
]

_LISTED = (
    Column("group"),
    Column("type"),
    Column("state"),
    number("members"),
    number("topics"),
    number("lag", show=count_text),
    number("lag_seconds", "lag time", seconds_text),
    number("coordinator"),
)
_NAMED = (Column("group"), Column("type"), Column("state"), number("coordinator"))
_LAGS = (
    Column("topic"),
    number("partition"),
    number("current_offset", "current-offset"),
    number("log_end_offset", "log-end-offset"),
    number("lag", show=count_text),
    number("lag_seconds", "lag time", seconds_text),
    Column("consumer_id", "consumer-id"),
    Column("host"),
    Column("client_id", "client-id"),
)
_MEMBERS = (
    Column("consumer_id", "consumer-id"),
    Column("instance_id", "instance-id"),
    Column("client_id", "client-id"),
    Column("host"),
    number("epoch"),
    number("partitions"),
    Column("assignment"),
    Column("target"),
    Column("subscription"),
)
_PLAN = (
    Column("topic"),
    number("partition"),
    number("current_offset", "current-offset"),
    number("new_offset", "new-offset"),
    number("shift", show=lambda value: "-" if value is None else f"{value:+,}"),
    number("log_start_offset", "log-start"),
    number("log_end_offset", "log-end"),
    number("new_lag", "new lag", count_text),
)


@app.command(
    "list",
    cls=AdminCommand,
    epilog=examples(
        "ottla groups list", "ottla groups list --state Stable", "ottla groups list --no-lag -o jsonl"
    ),
)
def list_(
    ctx: typer.Context,
    state: Annotated[str | None, typer.Option("--state", help="Only groups in this state.")] = None,
    kind: Annotated[
        str | None,
        typer.Option("--type", help="Only groups of this type: classic, consumer, share, streams."),
    ] = None,
    lag: Annotated[bool, typer.Option("--lag/--no-lag", help="Members and lag of each group.")] = True,
) -> None:
    """List the groups with their members and lag."""
    from ottla.admin.groups import describe_groups, list_groups

    with administration(ctx) as admin:
        listed = [
            each
            for each in list_groups(admin.session)
            if (state is None or each.state.lower() == state.lower())
            and (kind is None or each.type == kind.lower())
        ]
        empty = "There are no groups."
        if not lag:
            rows = [
                {"group": each.name, "type": each.type, "state": each.state, "coordinator": each.coordinator}
                for each in listed
            ]
            admin.output.rows(_NAMED, rows, empty=empty)
            return
        found = describe_groups(admin.session, [each.name for each in listed], missing_ok=True)
        admin.output.rows(_LISTED, [_listed(each) for each in found], empty=empty)


def _listed(group: GroupInfo) -> dict[str, Any]:
    return {
        "group": group.name,
        "type": group.type,
        "state": group.state,
        "members": len(group.members),
        "topics": len(group.topics),
        "lag": group.lag,
        "lag_seconds": group.lag_seconds,
        "coordinator": group.coordinator,
    }


@app.command(
    cls=AdminCommand,
    epilog=examples("ottla groups describe billing", "ottla groups describe billing -t orders -o csv"),
)
def describe(ctx: typer.Context, group: Group, topic: OnlyTopics = None) -> None:
    """Describe a group: its state, and its lag in records and in seconds for each partition.

    The lag in seconds is the age of the record at the committed offset.
    """
    from ottla.admin.groups import describe_group

    with administration(ctx) as admin:
        found = describe_group(admin.session, group)
        facts: dict[str, Any] = {
            "group": found.name,
            "type": found.type,
            "state": found.state,
            "coordinator": found.coordinator,
            "assignor": found.assignor or None,
            "members": len(found.members),
            "lag": found.lag,
            "lag_seconds": found.lag_seconds,
        }
        if found.epoch is not None:
            facts |= {"epoch": found.epoch, "assignment_epoch": found.assignment_epoch}
        if admin.output.is_table:
            facts |= {"lag": count_text(found.lag), "lag_seconds": seconds_text(found.lag_seconds)}
        rows = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "current_offset": each.committed,
                "log_end_offset": each.end,
                "lag": each.lag,
                "lag_seconds": each.lag_seconds,
                "consumer_id": each.member_id,
                "host": each.host,
                "client_id": each.client_id,
            }
            for each in found.partitions
            if not topic or each.topic in topic
        ]
        admin.output.document(facts, [Section("partitions", _LAGS, rows)])


@app.command(
    cls=AdminCommand,
    epilog=examples("ottla groups members billing", "ottla groups members billing -o json"),
)
def members(ctx: typer.Context, group: Group) -> None:
    """List the members of a group with their partitions. In consumer groups also those they will have."""
    from ottla.admin.groups import describe_group

    with administration(ctx) as admin:
        found = describe_group(admin.session, group, lag=False)
        admin.output.rows(
            _MEMBERS, [_member(each) for each in found.members], empty=f"Group {group} has no members."
        )


def _member(member: MemberInfo) -> dict[str, Any]:
    return {
        "consumer_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "partitions": len(member.assigned),
        "assignment": [str(tp) for tp in member.assigned],
        "target": None if member.target is None else [str(tp) for tp in member.target],
        "subscription": [*member.topics, *([member.regex] if member.regex else [])],
    }


@app.command(
    cls=AdminCommand,
    epilog=examples(
        "ottla groups reset billing --to start --dry-run",
        "ottla groups reset billing --to @-1h -t orders",
        "ottla groups reset billing --to @2026-11-17T10:00 --yes",
        "ottla groups reset billing --shift -100 -t orders -p 0",
        "ottla groups reset billing --by-duration 1h",
        "ottla groups reset billing --from-group billing-old",
    ),
)
def reset(
    ctx: typer.Context,
    group: Group,
    to: Annotated[
        str | None, typer.Option("--to", help="Position: start, end, OFFSET, +N, -N, @TIME, @-DURATION.")
    ] = None,
    shift: Annotated[int | None, typer.Option("--shift", help="Move by N offsets, back if negative.")] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", help="Move to the records of this long ago, such as 1h.")
    ] = None,
    from_group: Annotated[
        str | None,
        typer.Option(
            "--from-group", help="Take the offsets of another group.", autocompletion=complete_group
        ),
    ] = None,
    topic: OnlyTopics = None,
    partition: OnlyPartitions = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Reset the committed offsets of a group without members.

    Without --topic, all partitions for which the group has offsets are reset.
    """
    from ottla.admin.offset_reset import apply_reset, reset_plan

    with administration(ctx) as admin:
        given = {"--to": to, "--shift": shift, "--by-duration": by_duration, "--from-group": from_group}
        named = [name for name, value in given.items() if value is not None]
        if len(named) != 1:
            raise LocalError(
                f"give one of {', '.join(given)}" + (f", not {' and '.join(named)}" if named else "")
            )
        position = f"@-{by_duration}" if by_duration is not None else to
        targets = _targets(admin.session, group, position, shift, from_group, topic)
        if partition:
            targets = {tp: offset for tp, offset in targets.items() if tp.partition in partition}
        if not targets:
            raise LocalError("no partition is left to reset")
        plan = reset_plan(admin.session, group, targets)
        admin.output.rows(_PLAN, _planned(plan))
        for each in plan.entries:
            if each.requested != each.target:
                admin.output.note(
                    f"{each.tp} has no offset {each.requested}: its log starts at {each.start} and ends at {each.end}; "
                    f"{each.target} is used"
                )
        if not dry_run and not plan.can_apply:
            raise LocalError(f"group {group} is {plan.state}, so it has members; stop them first")
        what = f"Reset {len(plan.entries)} partitions of group {group}"
        if confirmed(admin.output, what, yes=yes, dry_run=dry_run):
            apply_reset(admin.session, plan)
            admin.output.note(f"Reset {len(plan.entries)} partitions of group {group}.")


def _targets(
    session: Session,
    group: str,
    position: str | None,
    shift: int | None,
    from_group: str | None,
    topics: list[str] | None,
) -> dict[TopicPartition, int]:
    from ottla.admin.offset_reset import of_group, partitions_to_reset, shifted
    from ottla.admin.positions import Kind, log_bounds, parse_position, resolve

    if from_group is not None:
        return of_group(session, from_group, topics)
    wanted = None if position is None else parse_position(position)
    partitions = partitions_to_reset(session, group, topics)
    if wanted is None:
        return shifted(session, group, partitions, shift or 0)
    if wanted.kind is Kind.OFFSET:
        return dict.fromkeys(partitions, wanted.number)
    bounds = log_bounds(session.cluster, partitions)
    return resolve(session.cluster, wanted, bounds, session.clock.now_ms())


def _planned(plan: ResetPlan) -> list[dict[str, Any]]:
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "current_offset": each.committed,
            "new_offset": each.target,
            "shift": each.shift,
            "log_start_offset": each.start,
            "log_end_offset": each.end,
            "new_lag": each.lag,
        }
        for each in plan.entries
    ]


@app.command(
    cls=AdminCommand,
    epilog=examples("ottla groups delete billing", "ottla groups delete billing reports --yes"),
)
def delete(ctx: typer.Context, groups: Groups, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete groups without members, with their committed offsets."""
    from ottla.admin.groups import delete_groups, describe_groups

    with administration(ctx) as admin:
        found = describe_groups(admin.session, groups)
        if admin.output.is_table:
            admin.output.rows(_LISTED, [_listed(each) for each in found])
        names = [each.name for each in found]
        if confirmed(admin.output, f"Delete {', '.join(names)} with all offsets", yes=yes, dry_run=dry_run):
            delete_groups(admin.session, names)
            admin.output.done(f"Deleted: {', '.join(names)}.", deleted=names)


@app.command(
    "delete-offsets",
    cls=AdminCommand,
    epilog=examples(
        "ottla groups delete-offsets billing -t orders",
        "ottla groups delete-offsets billing -t orders -p 0 -p 1 --yes",
    ),
)
def delete_offsets(
    ctx: typer.Context,
    group: Group,
    topic: OnlyTopics = None,
    partition: OnlyPartitions = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete committed offsets of a group, of topics to which no member has subscribed."""
    from ottla.admin.groups import committed
    from ottla.admin.groups import delete_offsets as delete_committed

    with administration(ctx) as admin:
        if not topic:
            raise LocalError("name the topics with --topic; `ottla groups delete` deletes a whole group")
        found = {
            tp: one.offset
            for tp, one in sorted(committed(admin.session, group).items())
            if tp.topic in topic and (not partition or tp.partition in partition)
        }
        if not found:
            raise LocalError(f"group {group} has no committed offsets of these partitions")
        rows = [
            {"topic": tp.topic, "partition": tp.partition, "current_offset": offset}
            for tp, offset in found.items()
        ]
        admin.output.rows(_LAGS[:3], rows)
        what = f"Delete {len(found)} offsets of group {group}"
        if confirmed(admin.output, what, yes=yes, dry_run=dry_run):
            delete_committed(admin.session, group, found)
            admin.output.note(f"Deleted {len(found)} offsets of group {group}.")
