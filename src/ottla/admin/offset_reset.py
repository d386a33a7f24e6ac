"""Reset of the committed offsets of a group: a plan that can be shown, then one commit.

A plan is made from target offsets. Targets outside the log are moved to its start or end. The group must have no
members when the plan is applied: a member would overwrite the offsets with its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.admin.groups import DESCRIBED, EMPTY, committed, list_groups
from ottla.admin.log_offsets import EARLIEST, LATEST
from ottla.admin.session import Session
from ottla.admin.topics import partitions_of
from ottla.base.errors import ErrorCode, LocalError
from ottla.base.ids import TopicPartition
from ottla.client.raw import Refused

Targets = Mapping[TopicPartition, int]


@dataclass(frozen=True)
class ResetEntry:
    """The change of one partition."""

    topic: str
    partition: int
    committed: int | None
    target: int
    start: int
    end: int
    requested: int
    """The offset before it was moved into the log."""

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def shift(self) -> int | None:
        """By how many offsets the group moves; negative if records are read again."""
        return None if self.committed is None else self.target - self.committed

    @property
    def lag(self) -> int:
        """The lag after the reset."""
        return self.end - self.target


@dataclass(frozen=True)
class ResetPlan:
    """What a reset will commit, ordered by topic and partition."""

    group: str
    state: str
    """The state of the group when the plan was made; `Dead` if it does not exist yet."""
    entries: tuple[ResetEntry, ...]

    @property
    def can_apply(self) -> bool:
        return self.state in (EMPTY, "Dead")


def partitions_to_reset(
    session: Session, group: str, topics: Iterable[str] | None = None
) -> list[TopicPartition]:
    """All partitions of these topics; without topics, those for which the group has committed offsets."""
    if topics is None:
        found = sorted(committed(session, group))
        if not found:
            raise LocalError(f"group {group} has no committed offsets; name the topics to reset")
        return found
    return [tp for name in dict.fromkeys(topics) for tp in partitions_of(session, name)]


def reset_plan(session: Session, group: str, targets: Targets) -> ResetPlan:
    """The plan that moves a group to these offsets. Raise Refused if the group is not of a type that has offsets."""
    listing = next((each for each in list_groups(session) if each.name == group), None)
    if listing is not None and listing.type not in DESCRIBED:
        raise LocalError(
            f"group {group} is a {listing.type} group; only the offsets of consumers can be reset"
        )
    before = committed(session, group) if listing is not None else {}
    starts = session.cluster.list_offsets(dict.fromkeys(targets, EARLIEST))
    ends = session.cluster.list_offsets(dict.fromkeys(targets, LATEST))
    entries = tuple(
        ResetEntry(
            tp.topic,
            tp.partition,
            before[tp].offset if tp in before else None,
            min(max(targets[tp], starts[tp][0]), ends[tp][0]),
            starts[tp][0],
            ends[tp][0],
            targets[tp],
        )
        for tp in sorted(targets)
    )
    return ResetPlan(group, "Dead" if listing is None else listing.state, entries)


def shifted(
    session: Session, group: str, partitions: Iterable[TopicPartition], by: int
) -> dict[TopicPartition, int]:
    """Targets relative to the committed offsets. Raise LocalError if a partition has none."""
    known = committed(session, group)
    targets = {}
    for tp in partitions:
        if tp not in known:
            raise LocalError(f"group {group} has no committed offset for {tp}, so it cannot be shifted")
        targets[tp] = known[tp].offset + by
    return targets


def of_group(session: Session, other: str, topics: Iterable[str] | None = None) -> dict[TopicPartition, int]:
    """The committed offsets of another group as targets. Raise LocalError if it has none."""
    wanted = None if topics is None else set(topics)
    found = {
        tp: one.offset
        for tp, one in committed(session, other).items()
        if wanted is None or tp.topic in wanted
    }
    if not found:
        raise LocalError(f"group {other} has no committed offsets" + (" of these topics" if wanted else ""))
    return found


def apply_reset(session: Session, plan: ResetPlan) -> None:
    """Commit the offsets of a plan. Raise Refused if the group has members now."""
    try:
        session.cluster.commit_offsets(plan.group, {each.tp: each.target for each in plan.entries})
    except Refused as error:
        if error.code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.STALE_MEMBER_EPOCH,
            ErrorCode.ILLEGAL_GENERATION,
        ):
            raise Refused(
                f"resetting group {plan.group}", error.code, "the group has members; stop them first"
            ) from error
        raise
