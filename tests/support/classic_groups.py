"""A harness for classic groups: members join, sync, send heartbeats and leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.base.rng import Random
from ottla.config.broker import BrokerConfig
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_groups import ClassicGroups
from ottla.coordinator.group.classic.rebalance import join_timer, session_timer, sync_timer
from ottla.coordinator.group.client import ClientInfo
from ottla.coordinator.group.context import GroupContext
from ottla.coordinator.group.records import GroupMetadataKey, GroupMetadataValue
from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.runtime.decision import LogRecord
from ottla.coordinator.runtime.state_machine import Stamp
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.wire import codec
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.support.coordination import FakeClock, FakeTimers, Harness

GROUP = "team"
CLIENT = ClientInfo("app", "/10.0.0.7")
SESSION_MS, REBALANCE_MS, FIRST_DELAY_MS = 10_000, 60_000, 3_000

Protocols = Sequence[tuple[str, bytes]]


def subscription(*topics: str, version: int = 0) -> bytes:
    """The metadata of a consumer."""
    body = codec.encode(ConsumerProtocolSubscription(topics=list(topics)), version)
    return version.to_bytes(2, "big") + body


RANGE: Protocols = (("range", subscription("orders")),)


class ClassicMachine:
    """A state machine with classic groups only."""

    def __init__(self, settings: GroupSettings, timers: FakeTimers, clock: FakeClock, seed: int) -> None:
        self.context = GroupContext(settings, timers, clock, Random(seed))
        self.classic = ClassicGroups(self.context)

    def replay(self, record: LogRecord, stamp: Stamp) -> None:
        value = cast(GroupMetadataValue | None, record.value)
        self.classic.replay(cast(GroupMetadataKey, record.key), value)

    def replay_marker(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None: ...

    def on_loaded(self, image: MetadataImage) -> None:
        self.classic.on_loaded()

    def on_unloaded(self) -> None:
        self.classic.on_unloaded()

    def on_metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None: ...


class Team:
    """One group and its clients."""

    def __init__(self, **settings: str) -> None:
        names = {name.replace("_", "."): value for name, value in settings.items()}
        names.setdefault("group.initial.rebalance.delay.ms", str(FIRST_DELAY_MS))
        self.properties = names
        self._seed = 0
        self.bench: Harness[ClassicMachine] = Harness(self._make)

    def _make(self, timers: FakeTimers, clock: FakeClock) -> ClassicMachine:
        self._seed += 1
        return ClassicMachine(GroupSettings(BrokerConfig(self.properties)), timers, clock, self._seed)

    # State

    @property
    def groups(self) -> ClassicGroups:
        return self.bench.machine.classic

    @property
    def group(self) -> ClassicGroup:
        found = self.groups.find(GROUP)
        assert found is not None
        return found

    @property
    def state(self) -> str:
        return self.group.state_name

    def written(self) -> list[GroupMetadataValue | None]:
        """All values of the group in the log."""
        return [cast(GroupMetadataValue | None, record.value) for record in self.bench.values()]

    def due_in(self, kind: str, member_id: str = "") -> int | None:
        """Milliseconds until the join, sync or session timer fires; None if it is not scheduled."""
        name: tuple[str, ...] = {"join": join_timer(GROUP), "sync": sync_timer(GROUP)}.get(
            kind, session_timer(GROUP, member_id)
        )
        return self.bench.timers.due_in(name) if self.bench.timers.is_scheduled(name) else None

    # Requests

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        version: int = 9,
        group: str = GROUP,
    ) -> Promise[JoinGroupResponse]:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
        )
        return self.bench.write(lambda machine: machine.classic.join(request, CLIENT, version))

    def known_id(self, **fields: object) -> str:
        """The first JoinGroup of a dynamic member, which returns its member id."""
        response = self.join(**fields).result()  # type: ignore[arg-type]
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return response.member_id

    def enter(self, **fields: object) -> tuple[str, Promise[JoinGroupResponse]]:
        """Both JoinGroup requests of a dynamic member."""
        member_id = self.known_id(**fields)
        return member_id, self.join(member_id, **fields)  # type: ignore[arg-type]

    def sync(
        self,
        member_id: str,
        generation: int,
        plan: Mapping[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        group: str = GROUP,
    ) -> Promise[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=data)
                for each, data in (plan or {}).items()
            ],
        )
        return self.bench.write(lambda machine: machine.classic.sync(request))

    def beat(
        self, member_id: str, generation: int, *, instance: str | None = None, group: str = GROUP
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        try:
            promise = self.bench.write(lambda machine: machine.classic.heartbeat(request))
        except ApiError as error:
            return error.code
        return ErrorCode(promise.result().error_code)

    def leave(
        self, *members: str | tuple[str, str | None], version: int = 5, group: str = GROUP
    ) -> LeaveGroupResponse:
        named = [(each, None) if isinstance(each, str) else each for each in members]
        request = (
            LeaveGroupRequest(group_id=group, member_id=named[0][0])
            if version < 3
            else LeaveGroupRequest(
                group_id=group,
                members=[MemberIdentity(member_id=each, group_instance_id=name) for each, name in named],
            )
        )
        return self.bench.write(lambda machine: machine.classic.leave(request, version)).result()

    def pass_time(self, milliseconds: int) -> None:
        self.bench.advance(milliseconds)

    # Sequences of requests

    def gather(self, count: int, **fields: object) -> list[str]:
        """A first generation of `count` dynamic members, the leader first, that waits for its assignment."""
        entered = [self.enter(**fields) for _ in range(count)]
        while not entered[-1][1].done:
            self.pass_time(FIRST_DELAY_MS)
        assert all(promise.result().error_code == ErrorCode.NONE for _, promise in entered)
        return [member_id for member_id, _ in entered]

    def settle(self, *members: str) -> None:
        """Let the members sync; the leader assigns to each member its own id."""
        generation, leader = self.group.generation, self.group.leader_id
        plan = {each: each.encode() for each in members}
        responses = [
            self.sync(each, generation, plan if each == leader else None, instance=self._instance(each))
            for each in members
        ]
        for each, response in zip(members, responses, strict=True):
            assert response.result().assignment == each.encode()

    def stable(self, count: int, **fields: object) -> list[str]:
        """A stable group of `count` dynamic members, the leader first, in generation 1."""
        members = self.gather(count, **fields)
        self.settle(*members)
        return members

    def stable_instances(self, *instances: str, **fields: object) -> list[str]:
        """A stable group of instances, the leader first, in generation 1."""
        joins = [self.join(instance=each, **fields) for each in instances]  # type: ignore[arg-type]
        while not joins[-1].done:
            self.pass_time(FIRST_DELAY_MS)
        members = [join.result().member_id for join in joins]
        self.settle(*members)
        return members

    def _instance(self, member_id: str) -> str | None:
        return self.group.members[member_id].instance_id


def error_of(promise: Promise[JoinGroupResponse] | Promise[SyncGroupResponse]) -> ErrorCode:
    """The error of a completed response."""
    return ErrorCode(promise.result().error_code)
