"""Pages Groups and Group: members, lag in offsets and in seconds with its trend, reset of offsets with a preview."""

from __future__ import annotations

import shlex

from ottla.admin.groups import GroupInfo, PartitionLag, delete_groups, describe_group
from ottla.admin.offset_reset import ResetPlan, apply_reset, partitions_to_reset, reset_plan, shifted
from ottla.admin.positions import Kind, log_bounds, parse_position, resolve
from ottla.base.clock import SystemClock
from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.client.raw import Refused
from ottla.console.page import Action, Console, Context, NotFound, Page, View
from ottla.console.pages.topics import matches


def groups_context(console: Console, view: View) -> Context:
    query = view.get("q")
    groups = [group for group in view.snapshot.groups if matches(group.name, query)]
    return {"snapshot": view.snapshot, "groups": groups, "query": query}


def group_context(console: Console, view: View) -> Context:
    name = view.params["group"]
    group = view.snapshot.group(name) or new_group(console, name)
    to, topic, partition = view.get("to"), view.get("topic"), view.get("partition")
    plan, problem = None, ""
    if to:
        try:
            plan = plan_of(console, name, to, topic, partition)
        except LocalError as error:
            problem = str(error)
    return {
        "snapshot": view.snapshot,
        "group": group,
        "owners": owners(group),
        "to": to,
        "topic": topic,
        "partition": partition,
        "plan": plan,
        "problem": problem,
        "command": reset_command(name, to or "start", topic, partition),
        "delete_command": shlex.join(["ottla", "groups", "delete", name]),
        "read_only": console.settings.read_only,
        "token": console.token,
        "history": view.snapshot.lag_history.get(name, ()),
        "seconds": view.snapshot.lag_seconds_history.get(name, ()),
    }


def new_group(console: Console, name: str) -> GroupInfo:
    """A group that is newer than the snapshot. Raises NotFound."""
    try:
        return describe_group(console.session, name)
    except (Refused, LocalError) as error:
        raise NotFound(f"There is no group {name}.") from error


def owners(group: GroupInfo) -> dict[TopicPartition, PartitionLag]:
    return {each.tp: each for each in group.partitions}


def plan_of(console: Console, group: str, to: str, topic: str, partition: str) -> ResetPlan:
    """What a reset would commit. Raises LocalError for a position or partition that is not valid."""
    session = console.session
    partitions = partitions_to_reset(session, group, [topic] if topic else None)
    if partition:
        partitions = [each for each in partitions if str(each.partition) == partition]
    if not partitions:
        raise LocalError("The group has no position in such a partition.")
    if to.startswith("shift "):
        by = to.removeprefix("shift ").strip()
        if not by.lstrip("+-").isdigit():
            raise LocalError(f"shift: {by[:40]!r} is not a number")
        return reset_plan(session, group, shifted(session, group, partitions, int(by)))
    position = parse_position(to)
    if position.kind is Kind.OFFSET:
        return reset_plan(session, group, dict.fromkeys(partitions, position.number))
    bounds = log_bounds(session.cluster, partitions)
    return reset_plan(session, group, resolve(session.cluster, position, bounds, SystemClock().now_ms()))


def reset_command(group: str, to: str, topic: str, partition: str) -> str:
    """The command that does the same."""
    words = ["ottla", "groups", "reset", group]
    words += ["--shift", to.removeprefix("shift ").strip()] if to.startswith("shift ") else ["--to", to]
    words += ["-t", topic] if topic else []
    words += ["-p", partition] if partition else []
    return shlex.join(words)


def run_reset(console: Console, view: View) -> str:
    name = view.params["group"]
    plan = plan_of(console, name, view.get("to"), view.get("topic"), view.get("partition"))
    apply_reset(console.session, plan)
    return f"Group {name}: {len(plan.entries)} offsets are set."


def run_delete(console: Console, view: View) -> str:
    delete_groups(console.session, [view.params["group"]])
    return f"Deleted group {view.params['group']}"


GROUPS = Page("/groups", "groups.html", groups_context, "groups", live=("groups_table",))
GROUP = Page("/groups/{group:path}", "group.html", group_context, "groups", live=("group_body",))
RESET = Action("/groups/{group:path}/reset", run_reset)
DELETE = Action("/groups/{group:path}/delete", run_delete)
