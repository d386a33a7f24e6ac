"""Simulates the quorum's core while its voters change: replicas are added, removed and updated under all faults.

A replica whose disk is replaced returns with another directory id, and is another replica: it does not count as
the voter that it was. The changes and the replaced disks leave a majority of every set of voters that may be in force.
Checked in addition to the invariants of `quorum`:

- Consecutive sets of voters differ in one replica at most, so that their majorities intersect.
- No log has more than one change of the members that is not committed. A leader changes the members only when it has
  committed a record of its epoch, and commits what a majority of the voters in force has on disk.
- A change that is reported as done is committed.
- When faults end, a replica can be added, a lost one removed, and the leader removed; another leader is elected.
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Iterable
from itertools import pairwise

from ottla.base.errors import ErrorCode
from ottla.base.rng import Random
from ottla.quorum.quorum import ListenerAddress
from ottla.quorum.raft.core import Core
from ottla.quorum.raft.messages import (
    Changed,
    Effect,
    ElectionState,
    OffsetAndEpoch,
    ProbeVoter,
    VotersChanged,
)
from ottla.quorum.raft.roles import Role
from ottla.quorum.raft.timeouts import Timeouts
from ottla.quorum.raft.voter_history import VoterHistory, VotersAt
from ottla.quorum.raft.voters import KRAFT_VERSIONS, ReplicaKey, Voter, VoterSet
from ottla.testing.cores.event_queue import Violation
from ottla.testing.cores.memory_log import EMPTY, Image, MemoryLog
from ottla.testing.cores.quorum import QuorumSimulation, Replica
from ottla.wire.messages.control import KRaftVersionRecord

_CHANGE_MS = 2_000
_SETTLED_MS = 8_000
_NO_VOTERS = VoterSet(())


class VotersSimulation(QuorumSimulation):
    """One run."""

    sizes = (1, 1, 2, 3, 3)
    observers = (1, 2, 3)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._disks = dict.fromkeys(range(len(self.replicas)), 1)
        self._adding: dict[int, tuple[Replica, int]] = {}
        """The leader that adds a node, and its life, until that leader has responded."""
        self._results: dict[Hashable, ErrorCode] = {}
        self._changes = 0
        self._leading: dict[int, tuple[int, int, VoterSet]] = {}
        """The life, the high watermark and the voters of a node after its last step."""
        first = VoterSet(Voter(self.key(voter.key.node_id)) for voter in self.voters)
        formatted = Image(OffsetAndEpoch(0, 0), (), (KRaftVersionRecord(kraft_version=1), first.record()))
        for node_id in self.voters.ids:
            self.replicas[node_id].image = formatted
        self._all_ids = tuple(range(len(self.replicas)))
        self.later(self.rng.expovariate(1 / 500), self.operate)

    def key(self, node_id: int) -> ReplicaKey:
        """The replica that a node is at present."""
        return ReplicaKey(node_id, uuid.UUID(int=self._disks[node_id]))

    def new_core(self, replica: Replica, rng: Random) -> Core:
        others = [node_id for node_id in self._all_ids if node_id != replica.node_id]
        key = self.key(replica.node_id)
        return Core(key, _NO_VOTERS, replica.log, replica.state, rng, Timeouts(), bootstrap=others)

    # Faults

    def replace_disk(self, replica: Replica) -> None:
        """Restart a node with an empty disk, if a majority of all voters remains; it is another replica then."""
        adds = self._adding.get(replica.node_id)
        is_being_added = adds is not None and adds[0].life == adds[1]
        old = self.key(replica.node_id)
        if is_being_added or any(not self.survives(voters, old) for voters in self.sets_in_force()):
            return
        self.crash(replica)
        self.summary.replaced += 1
        replica.image, replica.state = EMPTY, ElectionState()
        self._disks[replica.node_id] += 1

    def survives(self, voters: VoterSet, lost: ReplicaKey | None = None) -> bool:
        """Whether a majority of these voters exists, without the lost one."""
        alive = [voter for voter in voters if voter.key == self.key(voter.key.node_id) and voter.key != lost]
        return len(alive) >= voters.majority

    def sets_in_force(self) -> Iterable[VoterSet]:
        for replica in self.replicas:
            yield from (each.voters for each in self.history(replica)[-2:])

    def history(self, replica: Replica) -> list[VotersAt]:
        if replica.core is not None:
            return replica.core.history.sets
        return VoterHistory(_NO_VOTERS, MemoryLog(replica.image)).sets

    # Changes

    def operate(self) -> None:
        """Request a random change of a replica in the role of leader."""
        if not self.chaos:
            return
        self.later(self.rng.expovariate(1 / 500), self.operate)
        leaders = [one for one in self.replicas if one.core is not None and one.core.leadership is not None]
        if not leaders:
            return
        leader = self.rng.choice(leaders)
        match self.rng.randrange(5):
            case 0 | 1:
                self.add(leader, self.rng.choice(self._all_ids))
            case 2 | 3:
                self.remove_any(leader)
            case 4:
                self.update_any(leader)

    def add(self, leader: Replica, node_id: int) -> int:
        voter, token = Voter(self.key(node_id)), self._token()
        wait = self.rng.random() < 0.5 or not self.chaos
        self._adding[node_id] = (leader, leader.life)
        self.step(
            leader,
            lambda core: core.add_voter(self.now, token, voter, _CHANGE_MS, wait_for_commit=wait),
        )
        return token

    def remove_any(self, leader: Replica) -> None:
        voters = _core(leader).voters
        keys = [key for key in sorted(voters.keys) if self.survives(voters.without(key))]
        if len(voters) > 1 and keys:
            self.remove(leader, self.rng.choice(keys))

    def remove(self, leader: Replica, key: ReplicaKey) -> int:
        token = self._token()

        def remove(core: Core) -> None:
            # A paused leader gets the request later: its voters, or their disks, may be others then.
            if self.survives(core.voters.without(key)):
                core.remove_voter(self.now, token, key, _CHANGE_MS)

        self.step(leader, remove)
        return token

    def update_any(self, leader: Replica) -> None:
        key = self.rng.choice(sorted(_core(leader).voters.keys))
        voter = Voter(key, (ListenerAddress("CONTROLLER", "host", self.rng.randrange(1, 65536)),))
        token = self._token()
        self.step(leader, lambda core: core.update_voter(self.now, token, voter))

    def _token(self) -> int:
        self._changes += 1
        return self._changes

    def changed(self, replica: Replica, effect: Effect) -> None:
        match effect:
            case ProbeVoter(voter):
                self.probe(replica, voter)
            case Changed(token, error, _):
                self._results[token] = error
                self._adding = {each: by for each, by in self._adding.items() if by[0] is not replica}
                if error is ErrorCode.NONE:
                    self.summary.changes += 1
            case VotersChanged():
                self.check_sets(replica)
            case _:
                pass

    def probe(self, leader: Replica, voter: Voter) -> None:
        node_id, life = voter.key.node_id, leader.life
        arrives = self.replicas[node_id].core is not None and self.passes(leader.node_id, node_id)
        versions = KRAFT_VERSIONS if arrives and self.passes(node_id, leader.node_id) else None

        def responded() -> None:
            if leader.life == life:
                self.step(leader, lambda core: core.probed(self.now, voter.key, versions))

        self.later(self.link_ms(), responded)

    # Invariants

    def finish(self, replica: Replica, core: Core) -> None:
        self.check_majority(replica, core)
        super().finish(replica, core)

    def check_majority(self, replica: Replica, core: Core) -> None:
        """A new high watermark of a leader is durable on a majority of the voters in force before or after the step."""
        life, high_watermark, before = self._leading.get(replica.node_id, (-1, -1, core.voters))
        self._leading[replica.node_id] = (replica.life, core.high_watermark, core.voters)
        if core.leadership is None or life != replica.life or core.high_watermark <= high_watermark:
            return
        for voters in (core.voters, before):
            having = [voter for voter in voters if self.has(voter.key, core.high_watermark)]
            if len(having) >= voters.majority:
                return
        raise Violation(f"node {replica.node_id} commits {core.high_watermark} without a majority")

    def has(self, key: ReplicaKey, offset: int) -> bool:
        """Whether the disk of this replica has everything below the offset, or may have had it when it was replaced."""
        replica = self.replicas[key.node_id]
        if key != self.key(key.node_id):
            return True
        log = replica.log if replica.core is not None else MemoryLog(replica.image)
        return log.durable_offset >= offset

    def check_sets(self, replica: Replica) -> None:
        sets = _core(replica).history.sets
        uncommitted = 0
        for before, after in pairwise(sets):
            added, removed = after.voters.keys - before.voters.keys, before.voters.keys - after.voters.keys
            if len(added) + len(removed) > 1:
                raise Violation(f"node {replica.node_id}: one record adds {added} and removes {removed}")
            uncommitted += bool(added or removed) and after.offset >= self._committed_end
            self.check_change(replica, after.offset, is_change=bool(added or removed))
        if uncommitted > 1:
            raise Violation(f"node {replica.node_id} has {uncommitted} uncommitted changes of the voters")

    def check_change(self, replica: Replica, offset: int, *, is_change: bool) -> None:
        leadership = _core(replica).leadership
        if leadership is None or offset < leadership.progress.epoch_start or not is_change:
            return
        if leadership.high_watermark <= leadership.progress.epoch_start:
            raise Violation(f"node {replica.node_id} changes the voters before it has committed its epoch")

    def check_failover(self) -> None:
        """Change the voters without faults, then kill the leader if a majority remains."""
        self.check_changes()
        leader = self.leader()
        self.voters = _core(leader).voters
        if self.survives(self.voters, self.key(leader.node_id)):
            super().check_failover()

    def leader(self) -> Replica:
        return next(one for one in self.replicas if one.core is not None and one.core.role is Role.LEADER)

    def check_changes(self) -> None:
        """Add a node, remove a voter that is lost, and remove the leader."""
        self._settle([])
        leader = self.leader()
        core = _core(leader)
        new = [node_id for node_id in self._all_ids if core.voters.get(node_id) is None]
        if new:
            self._settle([self.add(leader, new[0])])
        lost = [key for key in sorted(core.voters.keys) if key != self.key(key.node_id)]
        if lost and self.survives(core.voters.without(lost[0])):
            self._settle([self.remove(leader, lost[0])])
        voters = core.voters
        if len(voters) > 1 and self.survives(voters.without(core.local)):
            self._settle([self.remove(leader, core.local)])
            if self.leader() is leader or core.role is not Role.FOLLOWER:
                raise Violation(f"node {leader.node_id} leads after it has been removed from the voters")

    def _settle(self, tokens: list[int]) -> None:
        """Wait until these changes are done and all replicas follow one leader."""
        self.run_until(self.now + _SETTLED_MS)
        for token in tokens:
            if self._results.get(token) is not ErrorCode.NONE:
                raise Violation(f"a change ended with {self._results.get(token)} after the faults have ended")
        self.check_converged()


def _core(replica: Replica) -> Core:
    if replica.core is None:
        raise Violation(f"node {replica.node_id} does not run")
    return replica.core
