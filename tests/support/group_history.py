"""Checker of the history of one consumer group.

Every member appends JSON lines to one file, each with a single write, so that the order of the lines is the
order of the events: no clock is needed. A member writes

- `assigned` (partitions that were added, and its generation if the client exposes it),
- `revoked` or `lost` (partitions that were removed), written before the coordinator continues,
- `processed` (partition, offsets), written before it commits them,
- `committed` (partition and the offset after the last processed one), written after the commit succeeded,
- `refused` (a commit that the coordinator refused) and `closed` (it left the group).

The test adds `killed`, `paused` and `resumed`, `cut` when the coordinator becomes unreachable, `mended` when it is
reachable again before sessions expire, and, from one thread, `asked` before and `observed` after an OffsetFetch
request. All partitions are of one topic and start
at offset 0.

A paused member is not checked until it has learned its assignment (`lost`, `revoked` or `assigned`): until then it
continues with its old partitions, which is no anomaly while its commits are refused. The same applies to a member
that was cut off, if its partitions are assigned to others before its next event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Event = Mapping[str, Any]


class Kind(StrEnum):
    TWO_OWNERS = "two owners"
    TWO_OWNERS_IN_A_GENERATION = "two owners in a generation"
    PROCESSED_UNOWNED = "processed unowned"
    WENT_BACK = "went back behind the commit"
    SKIPPED = "skipped"
    COMMIT_WENT_BACK = "commit went back"
    COMMITTED_UNPROCESSED = "committed unprocessed"
    UNPROCESSED = "unprocessed"


@dataclass(frozen=True, slots=True)
class Anomaly:
    kind: Kind
    partition: int
    detail: str


@dataclass
class GroupHistory:
    """The owners of all partitions after the events so far, and the anomalies found."""

    owners: dict[int, str] = field(default_factory=dict)
    processed: dict[int, set[int]] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    observed: dict[int, int] = field(default_factory=dict)
    refusals: int = 0
    _found: list[Anomaly] = field(default_factory=list)
    _unsure: set[str] = field(default_factory=set)
    _cut_off: set[str] = field(default_factory=set)
    _in_generation: dict[tuple[int, int], str] = field(default_factory=dict)
    _next: dict[int, int] = field(default_factory=dict)
    _at_least: dict[int, int] = field(default_factory=dict)
    _asked_at: dict[int, int] = field(default_factory=dict)

    def extend(self, events: Iterable[Event]) -> None:
        for event in events:
            getattr(self, f"_{event['event']}")(event)

    def anomalies(self, produced: Mapping[int, int] | None = None) -> list[Anomaly]:
        """All anomalies; if the number of records per partition is given, also records that were not processed."""
        found = list(self._found)
        for partition, count in (produced or {}).items():
            missing = set(range(count)) - self.processed.get(partition, set())
            if missing:
                found.append(Anomaly(Kind.UNPROCESSED, partition, f"{len(missing)}: {sorted(missing)[:10]}"))
        return found

    def owned_by(self, member: str) -> set[int]:
        return {partition for partition, owner in self.owners.items() if owner == member}

    def _anomaly(self, kind: Kind, partition: int, detail: str) -> None:
        self._found.append(Anomaly(kind, partition, detail))

    def _heard(self, member: str) -> None:
        self._unsure.discard(member)
        self._cut_off.discard(member)

    def _assigned(self, event: Event) -> None:
        member = event["member"]
        self._heard(member)
        for partition in event["partitions"]:
            owner = self.owners.get(partition, member)
            if owner in self._cut_off:
                self._unsure.add(owner)
            elif owner != member:
                self._anomaly(Kind.TWO_OWNERS, partition, f"given to {member} while {owner} has it")
            self.owners[partition] = member
            self._at_least[partition] = self.committed.get(partition, 0)
            self._next.pop(partition, None)
        if "generation" in event:
            for partition in self.owned_by(member):
                owner = self._in_generation.setdefault((event["generation"], partition), member)
                if owner != member:
                    detail = f"{owner} and {member} in generation {event['generation']}"
                    self._anomaly(Kind.TWO_OWNERS_IN_A_GENERATION, partition, detail)

    def _revoked(self, event: Event) -> None:
        member = event["member"]
        self._heard(member)
        for partition in event["partitions"]:
            if self.owners.get(partition) == member:
                del self.owners[partition]

    _lost = _revoked

    def _closed(self, event: Event) -> None:
        self._revoked({**event, "partitions": self.owned_by(event["member"])})

    def _killed(self, event: Event) -> None:
        for member in event["members"]:
            self._closed({"member": member})

    def _paused(self, event: Event) -> None:
        self._killed(event)
        self._unsure.update(event["members"])

    def _cut(self, event: Event) -> None:
        self._cut_off.update(self.owners.values())

    def _mended(self, event: Event) -> None:
        self._cut_off.clear()

    def _resumed(self, event: Event) -> None:
        """Nothing changes before the member itself says something."""

    def _processed(self, event: Event) -> None:
        member, partition = event["member"], event["partition"]
        known = self.processed.setdefault(partition, set())
        if member not in self._unsure:
            if self.owners.get(partition) != member:
                detail = f"by {member} while {self.owners.get(partition)} has it"
                self._anomaly(Kind.PROCESSED_UNOWNED, partition, detail)
            self._check_progress(member, partition, event["offsets"])
        known.update(event["offsets"])

    def _check_progress(self, member: str, partition: int, offsets: list[int]) -> None:
        known = self.processed[partition]
        for offset in offsets:
            expected = self._next.get(partition)
            if expected is None:
                if offset < self._at_least.get(partition, 0):
                    detail = f"{member} starts at {offset}, {self._at_least[partition]} was committed"
                    self._anomaly(Kind.WENT_BACK, partition, detail)
                if offset > 0 and offset - 1 not in known:
                    self._anomaly(Kind.SKIPPED, partition, f"{member} starts at {offset}")
            elif offset != expected:
                kind = Kind.SKIPPED if offset > expected else Kind.WENT_BACK
                self._anomaly(kind, partition, f"{member} comes to {offset} instead of {expected}")
            self._next[partition] = offset + 1

    def _committed(self, event: Event) -> None:
        member, partition, offset = event["member"], event["partition"], event["offset"]
        if member in self._unsure:
            return
        self._cut_off.discard(member)
        if offset < self.committed.get(partition, 0):
            detail = f"{member} commits {offset} after {self.committed[partition]}"
            self._anomaly(Kind.COMMIT_WENT_BACK, partition, detail)
        if offset - 1 not in self.processed.get(partition, set()):
            self._anomaly(Kind.COMMITTED_UNPROCESSED, partition, f"{member} commits {offset}")
        self.committed[partition] = max(offset, self.committed.get(partition, 0))

    def _refused(self, event: Event) -> None:
        self.refusals += 1

    def _asked(self, event: Event) -> None:
        self._asked_at = dict(self.committed)

    def _observed(self, event: Event) -> None:
        offsets = {int(partition): offset for partition, offset in event["offsets"].items()}
        for partition in self._asked_at.keys() | self.observed.keys():
            floor = max(self._asked_at.get(partition, 0), self.observed.get(partition, 0))
            seen = offsets.get(partition, 0)
            if seen < floor:
                self._anomaly(Kind.COMMIT_WENT_BACK, partition, f"{seen} is committed after {floor}")
        self.observed.update(offsets)
