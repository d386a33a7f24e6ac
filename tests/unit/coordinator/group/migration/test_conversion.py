"""Online upgrade and downgrade of groups."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.group import records as rec
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.rebalance import session_timer as classic_session
from ottla.coordinator.group.consumer.sessions import session_timer
from tests.support.consumer_bench import ConsumerBench, HeartbeatResult, assignment_of, parts_of
from tests.support.group_bench import CLIENT

POLICY = "group.consumer.migration.policy"


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench(t=4)


def classic(bench: ConsumerBench) -> ClassicGroup:
    group = bench.machine.context.groups["g"]
    assert isinstance(group, ClassicGroup)
    return group


def kinds(bench: ConsumerBench) -> list[str]:
    return [
        ("-" if record.value is None else "") + type(record.key).__name__.removesuffix("Key")
        for record in bench.written()
    ]


# --- upgrade


def test_the_first_consumer_converts_a_classic_group(bench: ConsumerBench) -> None:
    member = bench.classic_group({"t": (0, 1, 2, 3)}, "t")
    bench.written()
    assert bench.join("n", "t") == HeartbeatResult(2, {})
    assert kinds(bench) == [
        "-GroupMetadata",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupCurrentMemberAssignment",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupCurrentMemberAssignment",
    ]
    kept = bench.member(member)
    assert (kept.epoch, kept.previous_epoch, kept.state.name) == (1, 1, "STABLE")
    assert bench.held()[member] == {"t": (0, 1, 2, 3)}
    assert bench.timers.is_scheduled(session_timer("g", member))
    assert not bench.timers.is_scheduled(classic_session("g", member))


def test_waiting_classic_members_must_join_again(bench: ConsumerBench) -> None:
    first = bench.classic_group({"t": (0, 1, 2, 3)}, "t")
    other = bench.classic_join("", "t").member_id
    request = bench.classic_request(other, "t")
    waiting = bench.write(lambda machine: machine.join(request, CLIENT, 9))
    assert not waiting.done
    bench.join("n", "t")
    assert waiting.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert {first, other, "n"} == set(bench.group.members)
    assert bench.classic_join(other, "t").error_code == ErrorCode.NONE


def test_a_group_before_its_first_generation_does_not_use_epoch_0(bench: ConsumerBench) -> None:
    """A regular expression does not raise the epoch, and epoch 0 would mean that the member is joining."""
    first = bench.classic_join("", "t").member_id
    request = bench.classic_request(first, "t")
    bench.write(lambda machine: machine.join(request, CLIENT, 9))
    assert bench.join("n", subscribed_topic_regex="t").epoch == 1
    assert bench.member(first).epoch == 1


def test_an_empty_classic_group_is_replaced(bench: ConsumerBench) -> None:
    member = bench.classic_group({"t": (0,)}, "t")
    bench.classic_leave(member)
    bench.written()
    assert bench.join("n", "t") == HeartbeatResult(2, {"t": (0, 1, 2, 3)})
    assert kinds(bench)[0] == "-GroupMetadata"


def test_only_a_joining_member_converts_a_group(bench: ConsumerBench) -> None:
    bench.classic_group({"t": (0,)}, "t")
    text = "Group g is not a consumer group."
    assert bench.refused("n", 3) == (ErrorCode.GROUP_ID_NOT_FOUND, text)
    assert bench.refused("n", -1) == (ErrorCode.GROUP_ID_NOT_FOUND, text)


JOIN = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 1000, "owned": {}}


@pytest.mark.parametrize("policy", ["disabled", "DOWNGRADE"])
def test_upgrades_may_be_disabled(policy: str) -> None:
    bench = ConsumerBench({POLICY: policy}, t=4)
    bench.classic_group({"t": (0,)}, "t")
    assert bench.refused("n", 0, **JOIN) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Cannot upgrade classic group g to consumer group because online upgrade is disabled.",
    )
    assert classic(bench).state_name == "Stable"


def test_groups_of_other_protocols_cannot_be_converted(bench: ConsumerBench) -> None:
    bench.classic_group({"t": (0,)}, "t", protocol_type="connect")
    assert "does not use the consumer embedded protocol" in str(bench.refused("n", 0, **JOIN).text)


def test_groups_that_are_too_large_cannot_be_converted() -> None:
    bench = ConsumerBench({"group.consumer.max.size": "1"}, t=4)
    one = bench.classic_join("", "t").member_id
    two = bench.classic_join("", "t").member_id
    for member in (one, two):
        request = bench.classic_request(member, "t")
        bench.write(lambda machine, request=request: machine.join(request, CLIENT, 9))
    assert "exceeds the consumer group maximum size" in str(bench.refused("n", 0, **JOIN).text)


def test_a_group_that_is_not_converted_because_it_is_full_keeps_its_timers() -> None:
    bench = ConsumerBench({"group.consumer.max.size": "1"}, t=4)
    member = bench.classic_group({"t": (0, 1, 2, 3)}, "t")
    assert bench.refused("n", 0, **JOIN).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.timers.is_scheduled(classic_session("g", member))


def test_a_join_phase_ends_although_the_log_refused_the_conversion(bench: ConsumerBench) -> None:
    """One of two members does not join again: only the timer of the join phase ends the wait of the other."""
    bench.classic_group({"t": (0, 1, 2, 3)}, "t")
    other = bench.classic_join("", "t").member_id
    joining = bench.classic_request(other, "t")
    waiting = bench.write(lambda machine: machine.join(joining, CLIENT, 9))
    bench.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE
    upgrade = bench.request("n", 0, **JOIN)
    assert not bench.write(lambda machine: machine.consumer_heartbeat(upgrade, CLIENT, 1)).done
    bench.refuse = None
    assert not waiting.done
    bench.advance(60_000)
    assert waiting.result().error_code == ErrorCode.NONE
    assert list(classic(bench).members) == [other]


def test_assignments_with_user_data_cannot_be_converted(bench: ConsumerBench) -> None:
    member = bench.classic_join("", "t").member_id
    generation = bench.classic_join(member, "t").generation_id
    bench.classic_sync(member, generation, {member: assignment_of({"t": (0,)}, b"mine")})
    assert "unsupported custom assignor" in str(bench.refused("n", 0, **JOIN).text)


def test_malformed_assignments_cannot_be_converted(bench: ConsumerBench) -> None:
    member = bench.classic_join("", "t").member_id
    generation = bench.classic_join(member, "t").generation_id
    bench.classic_sync(member, generation, {member: b"\0\1\x7f"})
    assert "embedded consumer protocol is malformed" in str(bench.refused("n", 0, **JOIN).text)


# --- downgrade


def test_the_group_is_classic_after_the_last_consumer_left(bench: ConsumerBench) -> None:
    member = bench.classic_group({"t": (0, 1, 2, 3)}, "t")
    bench.join("n", "t")
    bench.written()
    bench.beat("n", -1)
    names = kinds(bench)
    assert names[-3:] == ["-ConsumerGroupPartitionMetadata", "-ConsumerGroupMetadata", "GroupMetadata"]
    group = classic(bench)
    assert (group.generation, list(group.members), group.state_name) == (2, [member], "PreparingRebalance")
    assert bench.classic_beat(member, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.timers.is_scheduled(classic_session("g", member))
    assert not bench.timers.is_scheduled(session_timer("g", member))
    assert bench.classic_join(member, "t").generation_id == 3


def test_the_classic_group_starts_with_the_target_assignments(bench: ConsumerBench) -> None:
    member = bench.classic_group({"t": (0, 1, 2, 3)}, "t")
    bench.join("n", "t")
    bench.written()
    bench.beat("n", -1)
    value = bench.written()[-1].value
    assert isinstance(value, rec.GroupMetadataValue)
    assert [each.member_id for each in value.members] == [member]
    assert len(parts_of(value.members[0].assignment)["t"]) == 2
    assert (value.protocol_type, value.protocol, value.leader) == ("consumer", "range", member)


def test_the_group_is_classic_after_the_last_consumer_expired(bench: ConsumerBench) -> None:
    member = bench.classic_group({"t": (0, 1, 2, 3)}, "t")
    bench.join("n", "t")
    for _ in range(2):
        bench.advance(20_000)
        bench.classic_beat(member, 1)
    bench.advance(5_000)
    assert classic(bench).members.keys() == {member}


def test_a_consumer_group_without_members_is_not_converted(bench: ConsumerBench) -> None:
    bench.join("n", "t")
    bench.beat("n", -1)
    assert bench.group.state_name == "Empty"


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_downgrades_may_be_disabled(policy: str) -> None:
    bench = ConsumerBench({POLICY: "bidirectional"}, t=4)
    member = bench.classic_group({"t": (0, 1, 2, 3)}, "t")
    bench.join("n", "t")
    bench.machine.context.settings = ConsumerBench({POLICY: policy}).machine.context.settings
    bench.beat("n", -1)
    assert list(bench.group.members) == [member]
    assert bench.classic_beat(member, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.classic_join(member, "t").error_code == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL if policy == "disabled" else ErrorCode.NONE
    )


def test_a_group_of_classic_members_without_downgrade_still_rebalances() -> None:
    bench = ConsumerBench({POLICY: "upgrade"}, t=4)
    bench.join("n", "t")
    for name in ("c", "d"):
        bench.classic_join(name, "t")
    bench.beat("n", -1)
    assert bench.group.epoch > bench.group.target_epoch
    assert bench.classic_beat("c", bench.member("c").epoch) is ErrorCode.REBALANCE_IN_PROGRESS
    for name in ("c", "d", "c", "d"):
        bench.classic_join(name, "t", owned=bench.named(bench.member(name).assigned))
    assert bench.group.state_name == "Stable"
    assert sorted(len(parts["t"]) for parts in bench.held().values()) == [2, 2]


def test_a_static_member_may_return_with_the_classic_protocol(bench: ConsumerBench) -> None:
    bench.join("n", "t", instance_id="i")
    response = bench.classic_join("", "t", group_instance_id="i")
    assert response.error_code == ErrorCode.NONE
    group = classic(bench)
    assert (group.static_members, group.generation) == ({"i": response.member_id}, 2)
    assert group.state_name == "Stable", "what it has is what it was meant to have: no rebalance"
    assert parts_of(group.members[response.member_id].assignment) == {"t": (0, 1, 2, 3)}


def test_a_static_member_that_returns_with_other_topics_rebalances(bench: ConsumerBench) -> None:
    bench.create_topic("u", 2)
    bench.join("n", "t", instance_id="i")
    bench.classic_join("", "t", "u", group_instance_id="i")
    assert classic(bench).state_name == "PreparingRebalance"


def test_a_static_member_replaced_by_a_classic_one_among_consumers(bench: ConsumerBench) -> None:
    bench.join("m", "t")
    bench.join("n", "t", instance_id="i")
    bench.settle("m", "n")
    response = bench.classic_join("", "t", group_instance_id="i")
    assert set(bench.group.members) == {"m", response.member_id}
    assert bench.synced(response.member_id, response.generation_id) == {"t": (2, 3)}
    assert bench.classic_beat(response.member_id, response.generation_id, "i") is ErrorCode.NONE


def test_a_classic_member_that_upgrades(bench: ConsumerBench) -> None:
    bench.join("m", "t")
    bench.classic_join("c", "t")
    bench.beat("m", 2)
    bench.beat("m", 2, owned={"t": (0, 1)})
    assert bench.join("c", "t").epoch == 3
    assert not bench.member("c").uses_classic_protocol
    assert bench.beat("c", 3, owned={"t": (2, 3)}) == HeartbeatResult(3, None)


def test_a_static_classic_member_is_replaced_after_its_upgrade(bench: ConsumerBench) -> None:
    member = bench.classic_group({"t": (0, 1, 2, 3)}, "t", group_instance_id="i")
    assert bench.join("n", "t", instance_id="i") == HeartbeatResult(1, {"t": (0, 1, 2, 3)})
    assert list(bench.group.members) == ["n"]
    assert member not in bench.group.members


# --- after a restart


def test_a_converted_group_is_restored_from_its_log(bench: ConsumerBench) -> None:
    member = bench.classic_group({"t": (0, 1, 2, 3)}, "t")
    bench.join("n", "t")
    bench.restart()
    assert bench.member(member).uses_classic_protocol
    bench.beat("n", -1)
    bench.restart()
    assert classic(bench).members.keys() == {member}


def test_a_group_too_large_for_a_classic_group_is_not_converted() -> None:
    bench = ConsumerBench({"group.max.size": "1"}, t=4)
    bench.join("n", "t")
    for name in ("c", "d"):
        bench.classic_join(name, "t")
    bench.beat("n", -1)
    assert list(bench.group.members) == ["c", "d"]
    bench.classic_leave("d")
    assert classic(bench).members.keys() == {"c"}
