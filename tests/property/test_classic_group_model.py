"""A classic group under random requests of clients, with delayed commits and changing coordinators.

After every step the counters of the group are correct, and every response is consistent:

- an assignment is the one that the leader of that generation computed for that member, and the log contains it;
- no member is removed because others join, sync or send heartbeats;
- all members of a generation get the same leader and protocol;
- a heartbeat succeeds only in the current generation;
- at the end, after all timeouts, no request waits for a response.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.coordinator.group.classic.transitions import ClassicState
from ottla.coordinator.runtime.decision import Decision
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse
from tests.support.classic_groups import FIRST_DELAY_MS, GROUP, SESSION_MS, ClassicMachine, Protocols, Team
from tests.support.coordination import Harness, R, Stamp, through_bytes

INSTANCES = ("a", "b")
PROTOCOLS: tuple[Protocols, ...] = (
    (("range", b"1"), ("sticky", b"1")),
    (("sticky", b"2"), ("range", b"2")),
    (("range", b"3"),),
)
HOUR_MS = 3_600_000
SIZE_MAX = 5


class SlowLog(Harness[ClassicMachine]):
    """A harness whose commits are delayed: decisions are replayed before they complete."""

    def _load(self) -> None:
        self.waiting: list[Callable[[ErrorCode], None]] = []
        super()._load()

    def apply(self, decision: Decision[R], *, producer_id: int = -1, producer_epoch: int = -1) -> Promise[R]:
        for record in decision.records:
            entry = (through_bytes(record), Stamp(len(self.log), self.clock.now))
            self.log.append(entry)
            self.machine.replay(*entry)
        if decision.on_complete is not None:
            self.waiting.append(decision.on_complete)
        response = decision.response
        return response if isinstance(response, Promise) else Promise.kept(response)

    def commit(self) -> None:
        while self.waiting:
            self.waiting.pop(0)(ErrorCode.NONE)


class ClassicGroupModel(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.team = Team(group_max_size=str(SIZE_MAX))
        self.bench = SlowLog(self.team._make)
        self.team.bench = self.bench
        self.ids: list[str] = []
        self.instance_of: dict[str, str | None] = {}
        self.planners: set[tuple[int, str]] = set()
        self.places: set[str] = set()
        """Members, and static members by instance id, as of the last step."""
        self.lossy = False
        """The last step may have removed a member."""
        self.open: list[tuple[Promise[object], str]] = []

    # Requests

    @rule(protocols=st.sampled_from(PROTOCOLS), version=st.sampled_from([3, 9]))
    def come(self, protocols: Protocols, version: int) -> None:
        self._watch_join(self.team.join(protocols=protocols, version=version), None)

    @rule(instance=st.sampled_from(INSTANCES), protocols=st.sampled_from(PROTOCOLS))
    def come_as_instance(self, instance: str, protocols: Protocols) -> None:
        self._watch_join(self.team.join(instance=instance, protocols=protocols), instance)

    @rule(count=st.integers(1, 3))
    def come_together(self, count: int) -> None:
        """A new client sends both JoinGroup requests."""
        for _ in range(count):
            response = self.team.join(protocols=PROTOCOLS[0])
            self._watch_join(response, None)
            if response.done and response.result().error_code == ErrorCode.MEMBER_ID_REQUIRED:
                member_id = response.result().member_id
                self._watch_join(self.team.join(member_id, protocols=PROTOCOLS[0]), None)

    @rule()
    def all_come_back(self) -> None:
        """All members notice the rebalance and join again."""
        for member_id in self._members():
            instance = self.instance_of[member_id]
            join = self.team.join(member_id, instance=instance, protocols=PROTOCOLS[0])
            self._watch_join(join, instance)

    @rule()
    def all_sync(self) -> None:
        """All members send SyncGroup, followers first."""
        for member_id in reversed(self._members()):
            self._sync(member_id, self.team.group.generation)

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), protocols=st.sampled_from(PROTOCOLS))
    def come_back(self, data: st.DataObject, protocols: Protocols) -> None:
        member_id = self._anybody(data)
        instance = self.instance_of[member_id]
        self._watch_join(self.team.join(member_id, instance=instance, protocols=protocols), instance)

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), behind=st.sampled_from([0, 0, 0, 1]))
    def sync(self, data: st.DataObject, behind: int) -> None:
        group = self.team.groups.find(GROUP)
        generation = (0 if group is None else group.generation) - behind
        self._sync(self._anybody(data), generation)

    def _sync(self, member_id: str, generation: int) -> None:
        plan = {each: f"{generation}:{each}:{member_id}".encode() for each in self.ids}
        group = self.team.groups.find(GROUP)
        if group is not None and group.leader_id == member_id:
            self.planners.add((generation, member_id))
        promise = self.team.sync(member_id, generation, plan, instance=self.instance_of[member_id])
        self.open.append((promise, "sync"))  # type: ignore[arg-type]
        promise.when_done(lambda value, _: self._synced(member_id, generation, value))

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), behind=st.sampled_from([0, 0, 1]))
    def beat(self, data: st.DataObject, behind: int) -> None:
        group = self.team.groups.find(GROUP)
        member_id = self._anybody(data)
        generation = (0 if group is None else group.generation) - behind
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
        try:
            code = self.bench.write(lambda machine: machine.classic.heartbeat(request)).result().error_code
        except ApiError:
            return
        assert group is not None
        assert behind == 0
        assert member_id in group.members
        assert (code == ErrorCode.NONE) == (group.state is not ClassicState.PREPARING)

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        member_id = self._anybody(data)
        self.lossy = True
        self.team.leave((member_id, self.instance_of[member_id]))
        group = self.team.groups.find(GROUP)
        assert group is None or member_id not in group.members

    def _members(self) -> list[str]:
        group = self.team.groups.find(GROUP)
        return [] if group is None else [each for each in group.members if each in self.instance_of]

    def _anybody(self, data: st.DataObject) -> str:
        """Mostly a member, sometimes a former member."""
        return data.draw(st.sampled_from(self._members() * 3 + self.ids))

    # Events

    @rule()
    def commit(self) -> None:
        self.bench.commit()

    @rule(milliseconds=st.sampled_from([1, FIRST_DELAY_MS, SESSION_MS - 1, SESSION_MS]))
    def pass_time(self, milliseconds: int) -> None:
        self.lossy = True
        self.team.pass_time(milliseconds)

    @rule()
    def fail_over(self) -> None:
        """The appended records are committed, by the next coordinator if necessary."""
        self.lossy = True
        self.bench.commit()
        self.bench.restart()

    # Responses

    def _watch_join(self, promise: Promise[JoinGroupResponse], instance: str | None) -> None:
        self.open.append((promise, "join"))  # type: ignore[arg-type]
        promise.when_done(lambda value, _: self._joined(instance, value))

    def _joined(self, instance: str | None, response: JoinGroupResponse | None) -> None:
        assert response is not None
        if response.error_code not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            return
        assert response.member_id
        if response.member_id not in self.instance_of:
            self.ids.append(response.member_id)
            self.instance_of[response.member_id] = instance
        if response.error_code:
            return
        generation = response.generation_id
        group = self.team.group
        assert generation == group.generation
        assert response.protocol_name == group.protocol_name
        assert response.leader == group.leader_id
        assert bool(response.members) == (response.leader == response.member_id)
        if response.members:
            listed = [(each.member_id, each.metadata) for each in response.members]
            assert listed == [
                (each.member_id, dict(each.protocols)[response.protocol_name or ""])
                for each in group.members.values()
            ]

    def _synced(self, member_id: str, generation: int, response: SyncGroupResponse | None) -> None:
        assert response is not None
        if response.error_code:
            return
        group = self.team.group
        assert group.generation == generation
        assert group.state is ClassicState.STABLE
        value = self.team.written()[-1]
        assert value is not None
        kept = {each.member_id: each.assignment for each in value.members}
        assert value.generation == generation
        assert kept[member_id] == response.assignment
        assigned_generation, planned_member, planner = response.assignment.decode().split(":")
        assert assigned_generation == str(generation)
        assert (generation, planner) in self.planners
        instance = self.instance_of[member_id]
        assert planned_member == member_id or (instance and self.instance_of[planned_member] == instance)

    # Invariants

    @invariant()
    def books_balance(self) -> None:
        group = self.team.groups.find(GROUP) if hasattr(self, "team") else None
        if group is None:
            return
        members = group.members.values()
        assert group.joined == sum(member.awaits_join for member in members)
        speakers = Counter(name for member in members for name, _ in member.protocols)
        assert group._supporters == speakers
        assert group.static_members == {
            member.instance_id: member.member_id for member in members if member.instance_id is not None
        }
        assert (group.leader_id in group.members) == bool(members)
        assert not set(group.pending_joins) & set(group.members)
        assert set(group.pending_syncs) <= set(group.members)
        assert group.joined <= SIZE_MAX

    @invariant()
    def places_are_kept(self) -> None:
        group = self.team.groups.find(GROUP) if hasattr(self, "team") else None
        if group is None:
            return
        places = {member.instance_id or member.member_id for member in group.members.values()}
        # A full group refuses members that rejoin late.
        if not self.lossy and group.joined < SIZE_MAX and len(group.members) < SIZE_MAX:
            assert self.places <= places
        self.places, self.lossy = places, False

    @invariant()
    def states_fit(self) -> None:
        group = self.team.groups.find(GROUP) if hasattr(self, "team") else None
        if group is None:
            return
        if group.state in (ClassicState.COMPLETING, ClassicState.STABLE):
            assert group.members
            assert group.protocol_name is not None
        if group.state is ClassicState.EMPTY:
            assert not group.members
        if group.state is ClassicState.PREPARING:
            assert self.team.due_in("join") is not None
            assert not any(member.awaits_sync for member in group.members.values())
        if group.state is ClassicState.STABLE:
            assert not any(member.awaits_sync for member in group.members.values())
        for member in group.members.values():
            assert (
                member.is_exempt_from_heartbeats or self.team.due_in("session", member.member_id) is not None
            )

    def teardown(self) -> None:
        if not hasattr(self, "team"):
            return
        for _ in range(4):
            self.bench.commit()
            self.team.pass_time(HOUR_MS)
        assert [what for promise, what in self.open if not promise.done] == []
        group = self.team.groups.find(GROUP)
        assert group is None or (group.state is ClassicState.EMPTY and not group.pending_joins)


TestClassicGroupModel = ClassicGroupModel.TestCase
