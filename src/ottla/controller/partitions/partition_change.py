"""Changes of one partition: ISR, eligible leader replicas, leader and reassignment. The only author of such records.

The caller sets what changes (`isr`, `replicas`, …) and which election is allowed; `build` completes the consequences in
Kafka 4.3's order and returns the record, or None if nothing changes:

1. A reassignment whose new replicas are all in the ISR is completed (all replicas, if it removes more than it adds).
2. Eligible leader replicas (KIP-966): while the ISR is smaller than `min.insync.replicas`, replicas that leave the ISR
   become eligible, except those that stopped uncleanly; from that size on there are none.
3. A leader is elected if the current one is not in the ISR or not acceptable: from the ISR, else from the eligible
   replicas, else the last known leader if both are empty, else, only in an unclean election, any acceptable replica.
4. The last known leader is stored when a partition loses its leader, and cleared when it has one again.

A record that names a leader raises the leader epoch. Removing replicas raises it even if the leader stays, so that the
removed ones are fenced.

Pure: a function of the partition's image and the arguments.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

from ottla.metadata.image import DIRECTORY_UNASSIGNED, NO_LEADER, PartitionImage
from ottla.metadata.records import PartitionChangeRecord

RECOVERED: Final = 0
RECOVERING: Final = 1
_UNCHANGED_LEADER: Final = -2


class Election(Enum):
    """Which replicas may become the leader."""

    ONLINE = "online"
    """Keep the current leader if possible, else elect one from the ISR or the eligible replicas."""
    PREFERRED = "preferred"
    """As online, but prefer the first replica of the assignment."""
    UNCLEAN = "unclean"
    """As online, but elect a replica that is not in sync if there is no other. Records may be lost."""


class PartitionChange:
    """One change under construction. The attributes are the state that it leads to."""

    def __init__(
        self,
        partition: PartitionImage,
        is_acceptable: Callable[[int], bool],
        *,
        min_insync_replicas: int,
        elr_enabled: bool = True,
    ) -> None:
        """`is_acceptable` returns whether the replica of a broker may lead: broker active, directory online."""
        self.isr = partition.isr
        self.replicas = partition.replicas
        self.removing = partition.removing_replicas
        self.adding = partition.adding_replicas
        self.recovery_state = partition.leader_recovery_state
        self.election = Election.ONLINE
        self.unclean_replicas: frozenset[int] = frozenset()
        """Replicas whose brokers stopped uncleanly: they may have lost records that they had."""
        self.directories: dict[int, uuid.UUID] = {}
        """Directories of replicas that change."""
        self._partition = partition
        self._is_acceptable = is_acceptable
        self._min_insync_replicas = min_insync_replicas
        self._elr_enabled = elr_enabled
        self._elr = partition.eligible_leader_replicas
        self._leader = _UNCHANGED_LEADER
        self._is_unclean = False

    def build(
        self, default_directory: Callable[[int], uuid.UUID] = lambda _: DIRECTORY_UNASSIGNED
    ) -> PartitionChangeRecord | None:
        """The record of the change; topic id and partition index are set by the caller."""
        self._complete_reassignment()
        self._update_elr()
        self._elect()
        if self._leader == _UNCHANGED_LEADER and set(self._partition.replicas) - set(self.replicas):
            self._leader = self._partition.leader
        record = PartitionChangeRecord(leader=self._leader)
        self._set_isr(record)
        self._set_last_known_leader(record)
        self._set_assignment(record, default_directory)
        if self.recovery_state != self._partition.leader_recovery_state:
            record.leader_recovery_state = self.recovery_state
        return None if record == PartitionChangeRecord() else record

    # Steps

    def _complete_reassignment(self) -> None:
        if not self.removing and not self.adding:
            return
        target = [replica for replica in self.replicas if replica not in self.removing]
        isr = [replica for replica in self.isr if replica not in self.removing]
        # If there are fewer replicas afterwards, all of them must be in sync: the ISR must not become smaller for it.
        needed = target if len(self.adding) < len(self.removing) else self.adding
        if target and isr and set(needed) <= set(isr):
            self.replicas, self.isr = tuple(target), tuple(isr)
            self.removing = self.adding = ()

    def _update_elr(self) -> None:
        if not self._elr_enabled or len(self.isr) >= self._min_insync_replicas:
            self._elr = ()
            return
        candidates = dict.fromkeys((*self._elr, *self._partition.isr))
        left_out = self.unclean_replicas.union(self.isr)
        self._elr = tuple(one for one in candidates if one not in left_out and one in self.replicas)

    def _may_lead(self, replica: int) -> bool:
        in_sync = replica in self.isr or (not self.isr and replica in self._elr)
        return in_sync and self._is_acceptable(replica)

    def _candidates(self) -> Iterable[int]:
        if self.election is Election.PREFERRED:
            yield self.replicas[0]
        yield self._partition.leader
        yield from self.replicas

    def _elect(self) -> None:
        leader = next((one for one in self._candidates() if self._may_lead(one)), NO_LEADER)
        if leader == NO_LEADER:
            leader = self._elect_without_sync()
        if leader == self._partition.leader:
            return
        self._leader = leader
        if leader in self._elr:
            # If one replica is enough to commit records, the others would miss them: they are eligible no longer.
            others = self._elr if self._min_insync_replicas > 1 else ()
            self.isr = (leader,)
            self._elr = tuple(one for one in others if one != leader)
        elif self._is_unclean:
            self.isr = (leader,)
            self._elr = ()
            self.recovery_state = RECOVERING

    def _elect_without_sync(self) -> int:
        """The last known leader, or in an unclean election any acceptable replica."""
        last_known = self._partition.last_known_elr
        knows_leader = self._elr_enabled and not self._elr and not self.isr and len(last_known) == 1
        candidates = [one for one in last_known if knows_leader and one in self.replicas]
        if self.election is Election.UNCLEAN:
            candidates += self.replicas
        leader = next((one for one in candidates if self._is_acceptable(one)), NO_LEADER)
        self._is_unclean = leader != NO_LEADER
        return leader

    def _set_isr(self, record: PartitionChangeRecord) -> None:
        if self.isr != self._partition.isr and (self.isr or self._elr_enabled):
            record.isr = list(self.isr)
        if self._elr != self._partition.eligible_leader_replicas:
            record.eligible_leader_replicas = list(self._elr)

    def _set_last_known_leader(self, record: PartitionChangeRecord) -> None:
        last_known = self._partition.last_known_elr
        if not self._elr_enabled:
            if last_known:
                record.last_known_elr = []
        elif record.leader == NO_LEADER and not last_known:
            if self._partition.leader in self.replicas:
                record.last_known_elr = [self._partition.leader]
        elif record.leader >= 0 and last_known:
            record.last_known_elr = []

    def _set_assignment(
        self, record: PartitionChangeRecord, default_directory: Callable[[int], uuid.UUID]
    ) -> None:
        partition = self._partition
        if self.directories or self.replicas != partition.replicas:
            known = {one: partition.directory_of(one) for one in partition.replicas}
            directories = tuple(
                self.directories.get(one) or known.get(one) or default_directory(one) for one in self.replicas
            )
            if directories != tuple(known.values()):
                record.directories = list(directories)
        if self.replicas != partition.replicas:
            record.replicas = list(self.replicas)
        if self.removing != partition.removing_replicas:
            record.removing_replicas = list(self.removing)
        if self.adding != partition.adding_replicas:
            record.adding_replicas = list(self.adding)
