"""Every request to a classic group, in every state, from every kind of sender: request_tables/classic_group.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.runtime.decision import Decision
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.wire.messages.sync_group import SyncGroupRequest
from tests.support.group_bench import CLIENT, GroupBench, subscription
from tests.support.request_tables import WAITS, Case, load

GROUP, TOPIC, OTHER_TOPIC, FETCHED_TOPIC = "g", "t", "u", "f"
COMMITTED = 3
INSTANCE = "instance"
DELAY_MS = 3_000
PRODUCER_ID = 7
NO_GENERATION = -1
COMMITS = ("OffsetCommit", "TxnOffsetCommit")
UNCHANGED_AFTER_ERROR = (*COMMITS, "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetDelete", "DeleteGroups")


class Scenario:
    """A group in one state, with a leader, a follower, a static member and one member that starts rebalances."""

    def __init__(self, state: str, protocol_type: str = "consumer") -> None:
        self.bench = GroupBench(
            TOPIC, OTHER_TOPIC, FETCHED_TOPIC, settings={"group.initial.rebalance.delay.ms": str(DELAY_MS)}
        )
        self.state = state
        self.protocol_type = protocol_type
        self.generation = 1
        self.leader = self.member = self.static = self.fenced = "former"
        if state != "no group":
            self._build()
            {
                "Empty": self._remove_all,
                "PreparingRebalance": self._prepare,
                "CompletingRebalance": self._complete,
                "Stable": lambda: None,
                "Dead": self.bench.machine.on_unloaded,
            }[state]()
            assert self.group.state_name == state
            self.generation = self.group.generation

    @property
    def group(self) -> ClassicGroup:
        group = self.bench.machine.context.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    def write(self, operation: Callable[[Any], Decision[Any]]) -> Promise[Any]:
        return self.bench.write(operation)

    # Requests

    def join(
        self,
        member_id: str = "",
        instance: str | None = None,
        *,
        version: int = 9,
        protocol: str | None = "range",
        protocol_type: str | None = None,
        metadata: bytes = subscription(TOPIC),
    ) -> Promise[Any]:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=self.protocol_type if protocol_type is None else protocol_type,
            protocols=[JoinGroupRequestProtocol(name=protocol, metadata=metadata)] if protocol else [],
        )
        return self.write(lambda machine: machine.join(request, CLIENT, version))

    def sync(
        self, member_id: str, instance: str | None, generation: int, protocol: str | None = None
    ) -> Promise[Any]:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_name=protocol,
        )
        return self.write(lambda machine: machine.sync(request))

    # States

    def _build(self) -> None:
        """A stable group of generation 3, whose static member has been restarted."""
        for topic in (TOPIC, FETCHED_TOPIC):
            assert self.bench.commit(GROUP, COMMITTED, topic=topic) is ErrorCode.NONE
        self.leader = self._enter()
        self.fenced = self._join_instance()
        self.member = self._enter()
        self.starter = self._enter()
        self.bench.advance(2 * DELAY_MS)
        self._sync_all(self.fenced)
        self.static = self._join_instance()
        for _ in range(2):
            self._prepare()
            self._complete_join()
            self._sync_all(self.static)

    def _enter(self) -> str:
        member_id: str = self.join().result().member_id
        self.join(member_id)
        return member_id

    def _join_instance(self) -> str:
        promise = self.join(instance=INSTANCE)
        if promise.done:
            member_id: str = promise.result().member_id
            return member_id
        return self.group.static_members[INSTANCE]

    def _sync_all(self, static: str) -> None:
        generation = self.group.generation
        for member_id in (self.leader, self.member, self.starter):
            self.sync(member_id, None, generation)
        self.sync(static, INSTANCE, generation)
        assert self.group.state_name == "Stable"

    def _prepare(self) -> None:
        """Start a rebalance that waits for all other members."""
        before = self.group.members[self.starter].protocols[0][1]
        metadata = subscription(TOPIC, "v") if before == subscription(TOPIC) else subscription(TOPIC)
        self.join(self.starter, metadata=metadata)

    def _complete_join(self) -> None:
        for member_id, instance in ((self.leader, None), (self.member, None), (self.static, INSTANCE)):
            self.join(member_id, instance)

    def _complete(self) -> None:
        self._prepare()
        self._complete_join()

    def _remove_all(self) -> None:
        members = [MemberIdentity(member_id=each) for each in list(self.group.members)]
        request = LeaveGroupRequest(group_id=GROUP, members=members)
        self.write(lambda machine: machine.leave(request, 5))


class Sender:
    """The ids and the generation that a request names."""

    def __init__(self, scenario: Scenario, sender: str) -> None:
        kind, *details = sender.split(", ")
        current = scenario.generation
        self.member_id, self.instance = {
            "member": (scenario.member, None),
            "leader": (scenario.leader, None),
            "unknown member": ("unknown", None),
            "static member": (scenario.static, INSTANCE),
            "restarted instance": ("", INSTANCE),
            "instance without member id": ("", INSTANCE),
            "fenced instance": (scenario.fenced, INSTANCE),
            "unknown instance": (scenario.member, "unknown"),
        }.get(kind, ("", None))
        if kind == "pending member id":
            self.member_id = "former"
            if scenario.bench.machine.context.groups.get(GROUP) is not None:
                self.member_id = self._pending(scenario)
        self.generation = current
        if "old generation" in details:
            self.generation = current - 1
        elif "future generation" in details:
            self.generation = current + 1
        elif "no generation" in details:
            self.generation = NO_GENERATION
        self.version = next((int(each.split()[1]) for each in details if each.startswith("version")), 9)
        self.protocol: str | None = "other" if "other protocol" in details else "range"
        if "no protocols" in details:
            self.protocol = None
        self.protocol_type = "" if "no protocol type" in details else None

    @staticmethod
    def _pending(scenario: Scenario) -> str:
        group = scenario.group
        if group.state_name == "Dead":
            return "pending"
        response = scenario.join().result()
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        member_id: str = response.member_id
        return member_id


def send(case: Case, scenario: Scenario, sender: Sender) -> ErrorCode | str:
    """Send the request; the error code of the response, or WAITS."""
    bench = scenario.bench
    ids = {"member": sender.member_id, "generation": sender.generation, "instance": sender.instance}
    match case.request:
        case "JoinGroup":
            promise = scenario.join(
                sender.member_id,
                sender.instance,
                version=sender.version,
                protocol=sender.protocol,
                protocol_type=sender.protocol_type,
            )
            return _code(promise)
        case "SyncGroup":
            return _code(scenario.sync(sender.member_id, sender.instance, sender.generation, sender.protocol))
        case "Heartbeat":
            request = HeartbeatRequest(
                group_id=GROUP,
                generation_id=sender.generation,
                member_id=sender.member_id,
                group_instance_id=sender.instance,
            )
            try:
                return _code(scenario.write(lambda machine: machine.heartbeat(request)))
            except ApiError as error:
                return error.code
        case "LeaveGroup":
            return _leave(scenario, sender)
        case "OffsetCommit":
            return bench.commit(GROUP, 5, version=sender.version, **ids)  # type: ignore[arg-type]
        case "TxnOffsetCommit":
            return bench.commit_in_transaction(PRODUCER_ID, GROUP, 5, **ids)  # type: ignore[arg-type]
        case "OffsetFetch":
            return _fetch(scenario, sender)
        case "ConsumerGroupHeartbeat":
            return _consumer_heartbeat(scenario, case.sender)
        case "OffsetDelete":
            topic = TOPIC if case.sender == "subscribed topic" else OTHER_TOPIC
            return bench.delete_offset(GROUP, topic)
        case "DeleteGroups":
            return bench.delete_group(GROUP)
    raise AssertionError(case.request)


def _code(promise: Promise[Any]) -> ErrorCode | str:
    return ErrorCode(promise.result().error_code) if promise.done else WAITS


def _leave(scenario: Scenario, sender: Sender) -> ErrorCode:
    identity = MemberIdentity(member_id=sender.member_id, group_instance_id=sender.instance)
    request = LeaveGroupRequest(group_id=GROUP, members=[identity])
    response = scenario.write(lambda machine: machine.leave(request, 5)).result()
    return ErrorCode(response.error_code or response.members[0].error_code)


def _fetch(scenario: Scenario, sender: Sender) -> ErrorCode:
    request = OffsetFetchRequestGroup(
        group_id=GROUP,
        member_id=sender.member_id or None,
        member_epoch=sender.generation,
        topics=[OffsetFetchRequestTopics(name=FETCHED_TOPIC, partition_indexes=[0])],
    )
    try:
        response = scenario.bench.machine.fetch_offsets(request, require_stable=False)
    except ApiError as error:
        return error.code
    (partition,) = response.topics[0].partitions
    expected = -1 if scenario.state in ("no group", "Dead") else COMMITTED
    assert partition.committed_offset == expected
    return ErrorCode(response.error_code or partition.error_code)


def _consumer_heartbeat(scenario: Scenario, sender: str) -> ErrorCode:
    epoch = {"new member, epoch 0": 0, "member, epoch 1": 1, "member leaves": -1}[sender]
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="new",
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )
    try:
        response = scenario.write(lambda machine: machine.consumer_heartbeat(request, CLIENT, 1)).result()
    except ApiError as error:
        return error.code
    return ErrorCode(response.error_code)


@pytest.mark.parametrize("case", load("classic_group"), ids=str)
def test_error_code_of_a_request_to_a_classic_group(case: Case) -> None:
    other_type = case.sender == "group of another protocol type"
    scenario = Scenario(case.state, "connect" if other_type else "consumer")
    sender = Sender(scenario, case.sender)
    logged = len(scenario.bench.log)
    code = send(case, scenario, sender)
    assert str(code if code == WAITS else ErrorCode(code).name) == case.expected
    accepted = case.expected == "NONE"
    if case.request in UNCHANGED_AFTER_ERROR and not accepted and case.expected != WAITS:
        assert len(scenario.bench.log) == logged
    if case.request in COMMITS:
        assert len(scenario.bench.log) - logged == accepted
        if case.request == "OffsetCommit":
            committed = scenario.bench.machine.offsets.store.of_group(GROUP).get(TOPIC, {}).get(0)
            assert (committed is not None and committed.offset == 5) == accepted


def test_the_table_has_every_state_of_a_classic_group() -> None:
    assert {case.state for case in load("classic_group")} == {
        "no group",
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    }
