"""ConsumerGroupHeartbeat: its records and responses."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.group import records as rec
from tests.support.consumer_bench import TIMEOUT_MS, ConsumerBench, HeartbeatResult
from tests.support.group_bench import CLIENT
from tests.support.metadata import topic_id_of

T = topic_id_of("t")


def kinds(bench: ConsumerBench) -> list[str]:
    """The types of the last records; tombstones have a leading dash."""
    return [
        ("-" if record.value is None else "")
        + type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
        for record in bench.written()
    ]


# --- joining


def test_the_first_member_gets_everything_at_once(bench: ConsumerBench) -> None:
    assert bench.join("a", "t", "u") == HeartbeatResult(2, {"t": (0, 1, 2, 3), "u": (0, 1)})
    assert (bench.group.epoch, bench.group.target_epoch) == (2, 2)
    assert bench.group.state_name == "Stable"


def test_a_join_appends_its_records_in_kafkas_order(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    assert kinds(bench) == [
        "MemberMetadata",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]


def test_the_contents_of_the_records_of_a_join(bench: ConsumerBench) -> None:
    bench.join("a", "t", rack_id="r", server_assignor="range")
    member, epoch, target, target_epoch, standing = (record.value for record in bench.written())
    assert member == rec.ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id="r",
        client_id="client",
        client_host="/127.0.0.1",
        subscribed_topic_names=["t"],
        subscribed_topic_regex="",
        rebalance_timeout_ms=TIMEOUT_MS,
        server_assignor="range",
    )
    assert epoch == rec.ConsumerGroupMetadataValue(epoch=2, metadata_hash=bench.group.metadata_hash)
    assert bench.group.metadata_hash != 0
    assert target == rec.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[rec.TopicPartition(topic_id=T, partitions=[0, 1, 2, 3])]
    )
    assert target_epoch == rec.ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=2, assignment_timestamp=bench.clock.now
    )
    assert standing == rec.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=2,
        previous_member_epoch=0,
        state=0,
        assigned_partitions=[
            rec.TopicPartitions(topic_id=T, partitions=[0, 1, 2, 3], assignment_epochs=[2, 2, 2, 2])
        ],
    )


def test_a_missing_topic_is_assigned_when_it_is_created(bench: ConsumerBench) -> None:
    assert bench.join("a", "gone") == HeartbeatResult(2, {})
    bench.create_topic("gone", 2)
    assert bench.beat("a", 2) == HeartbeatResult(3, {"gone": (0, 1)})


def test_before_version_1_the_coordinator_creates_member_ids(bench: ConsumerBench) -> None:
    fields = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": TIMEOUT_MS, "owned": {}}
    first = bench.send(bench.request("", 0, **fields), 0)
    second = bench.send(bench.request("", 0, **fields), 0)
    assert first.member_id is not None
    assert len(first.member_id) == 22
    assert first.member_id != second.member_id
    assert sorted(bench.group.members) == sorted([first.member_id, str(second.member_id)])


def test_the_response_contains_the_heartbeat_interval() -> None:
    bench = ConsumerBench({"group.consumer.heartbeat.interval.ms": "7000"}, t=1)
    fields = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": TIMEOUT_MS, "owned": {}}
    assert bench.send(bench.request("a", 0, **fields)).heartbeat_interval_ms == 7000


# --- a second member


def test_a_partition_moves_only_after_its_owner_revoked_it(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    assert bench.join("b", "t") == HeartbeatResult(3, {}), "everything is still with a"
    assert bench.beat("a", 2) == HeartbeatResult(2, {"t": (0, 1)}), (
        "a must revoke two partitions, at its old epoch"
    )
    assert bench.beat("b", 3) == HeartbeatResult(3, None), "a has not said that it did"
    assert bench.beat("a", 2, owned={"t": (0, 1, 2, 3)}) == HeartbeatResult(2, None), "a still owns them"
    assert bench.beat("b", 3) == HeartbeatResult(3, None)
    assert bench.beat("a", 2, owned={"t": (0, 1)}) == HeartbeatResult(3, None), "now it does not"
    assert bench.beat("b", 3) == HeartbeatResult(3, {"t": (2, 3)})
    assert bench.group.state_name == "Stable"


def test_states_of_a_group_while_a_partition_moves(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.join("b", "t")
    assert bench.group.state_name == "Reconciling"
    bench.settle("a", "b")
    assert bench.group.state_name == "Stable"
    bench.beat("a", -1)
    assert bench.group.state_name == "Assigning"
    bench.beat("b", -1)
    assert bench.group.state_name == "Empty"


# --- what an response lists


def test_a_short_heartbeat_of_a_reconciled_member_appends_nothing(
    bench: ConsumerBench,
) -> None:
    bench.join("a", "t")
    bench.written()
    assert bench.beat("a", 2) == HeartbeatResult(2, None)
    assert bench.beat("a", 2, owned={"t": (0, 1, 2, 3)}) == HeartbeatResult(2, None)
    assert kinds(bench) == []


def test_a_full_request_gets_a_full_response(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    response = bench.beat(
        "a", 2, owned={"t": (0,)}, rebalance_timeout_ms=TIMEOUT_MS, subscribed_topic_names=["t"]
    )
    assert response == HeartbeatResult(2, {"t": (0, 1, 2, 3)})


@pytest.mark.parametrize("missing", ["owned", "rebalance_timeout_ms", "subscribed_topic_names"])
def test_a_request_without_a_field_is_not_full(bench: ConsumerBench, missing: str) -> None:
    bench.join("a", "t")
    fields = {"owned": {}, "rebalance_timeout_ms": TIMEOUT_MS, "subscribed_topic_names": ["t"]}
    del fields[missing]
    assert bench.beat("a", 2, **fields) == HeartbeatResult(2, None)


# --- epochs


def test_the_previous_epoch_is_accepted_after_a_lost_response(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.join("b", "t")
    bench.beat("a", 2)
    assert bench.beat("a", 2, owned={"t": (0, 1)}).epoch == 3
    assert bench.beat("a", 2, owned={"t": (0, 1)}) == HeartbeatResult(3, None), "a retry"


def test_the_previous_epoch_with_other_partitions_is_fenced(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.join("b", "t")
    bench.beat("a", 2)
    bench.beat("a", 2, owned={"t": (0, 1)})
    for owned in (None, {"t": (0, 1, 2)}, {"u": (0,)}):
        assert bench.refused("a", 2, owned=owned).code is ErrorCode.FENCED_MEMBER_EPOCH


def test_unknown_epochs_are_fenced(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    assert bench.refused("a", 3) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The consumer group member has a greater member epoch (3) than the one known by the group coordinator (2)."
        " The member must abandon all its partitions and rejoin.",
    )
    assert "smaller member epoch (1)" in str(bench.refused("a", 1).text)


def test_a_member_that_rejoins_gets_its_partitions(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.written()
    assert bench.join("a", "t") == HeartbeatResult(2, {"t": (0, 1, 2, 3)})
    assert kinds(bench) == []


def test_rejoining_completes_the_revocation(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.join("b", "t")
    bench.beat("a", 2)
    assert bench.join("a", "t") == HeartbeatResult(3, {"t": (0, 1)})
    assert bench.beat("b", 3) == HeartbeatResult(3, {"t": (2, 3)})


# --- unknown groups and members


def test_a_heartbeat_to_an_unknown_group(bench: ConsumerBench) -> None:
    assert bench.refused("a", 1) == (ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found.")


def test_a_heartbeat_of_an_unknown_member(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    assert bench.refused("x", 1) == (ErrorCode.UNKNOWN_MEMBER_ID, "Member x is not a member of group g.")


def test_a_full_group_refuses_members() -> None:
    bench = ConsumerBench({"group.consumer.max.size": "1"}, t=1)
    bench.join("a", "t")
    with pytest.raises(Exception, match="maximum capacity of 1 members"):
        bench.join("b", "t")
    assert bench.beat("a", 2) == HeartbeatResult(2, None), "who is in stays in"
    assert bench.join("a", "t").epoch == 2


# --- changed subscriptions


def test_a_changed_subscription_raises_the_epoch(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    assert bench.beat("a", 2, subscribed_topic_names=["t", "u"]) == HeartbeatResult(
        3, {"t": (0, 1, 2, 3), "u": (0, 1)}
    )


def test_the_same_subscription_in_another_order_changes_nothing(bench: ConsumerBench) -> None:
    bench.join("a", "t", "u")
    bench.written()
    assert bench.beat("a", 2, subscribed_topic_names=["u", "t", "u"]) == HeartbeatResult(2, None)
    assert kinds(bench) == []


def test_an_unsubscribed_topic_is_revoked_at_once(bench: ConsumerBench) -> None:
    bench.join("a", "t", "u")
    response = bench.beat("a", 2, subscribed_topic_names=["u"])
    assert response == HeartbeatResult(2, {"u": (0, 1)}), "t is not revoked yet"
    assert bench.beat("a", 2, owned={"u": (0, 1)}).epoch == 3


def test_an_unsubscribed_topic_is_revoked_before_the_new_target() -> None:
    bench = ConsumerBench({"group.consumer.assignment.interval.ms": "5000"}, t=1, u=1)
    bench.join("a", "t", "u")
    assert bench.beat("a", 2, subscribed_topic_names=["u"]) == HeartbeatResult(2, {"u": (0,)})
    assert (bench.group.epoch, bench.group.target_epoch) == (3, 2)


def test_a_new_rack_is_appended_without_a_new_epoch(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.written()
    assert bench.beat("a", 2, rack_id="r2") == HeartbeatResult(2, None)
    assert kinds(bench) == ["MemberMetadata"]
    assert bench.member("a").rack_id == "r2"


def test_omitted_fields_keep_their_values(bench: ConsumerBench) -> None:
    bench.join("a", "t", rack_id="r", server_assignor="range", instance_id="i")
    bench.beat("a", 2, instance_id="i")
    member = bench.member("a")
    assert (member.rack_id, member.assignor, member.topics) == ("r", "range", {"t"})
    assert (member.instance_id, member.rebalance_timeout_ms) == ("i", TIMEOUT_MS)


# --- changed topics


def test_new_partitions_raise_the_epoch_at_the_next_heartbeat(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.add_partitions("t", 6)
    assert bench.beat("a", 2) == HeartbeatResult(3, {"t": (0, 1, 2, 3, 4, 5)})


def test_the_metadata_hash_is_computed_until_it_is_that_of_the_epoch(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.beat("a", 2)
    assert not bench.group.metadata_stale
    bench.add_partitions("t", 5)
    assert bench.group.metadata_stale
    bench.beat("a", 2)
    bench.beat("a", 3)
    assert not bench.group.metadata_stale


def test_new_partitions_are_assigned_although_the_log_refused_the_epoch_at_first(
    bench: ConsumerBench,
) -> None:
    bench.join("a", "t")
    bench.settle("a")
    bench.add_partitions("t", 6)
    bench.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE
    refused = bench.request("a", 2)
    assert not bench.write(lambda machine: machine.consumer_heartbeat(refused, CLIENT, 1)).done
    bench.refuse = None
    assert bench.beat("a", 2) == HeartbeatResult(3, {"t": (0, 1, 2, 3, 4, 5)})


def test_a_deleted_topic_is_unassigned(bench: ConsumerBench) -> None:
    bench.join("a", "t", "u")
    bench.delete_topic("u")
    assert bench.beat("a", 2) == HeartbeatResult(2, {"t": (0, 1, 2, 3)})
    assert bench.beat("a", 2, owned={"t": (0, 1, 2, 3)}) == HeartbeatResult(3, None)
    assert bench.group.metadata_hash != 0


def test_changes_of_unsubscribed_topics_have_no_effect(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.add_partitions("u", 5)
    bench.create_topic("v", 1)
    bench.written()
    assert bench.beat("a", 2) == HeartbeatResult(2, None)
    assert kinds(bench) == []


def test_a_partition_metadata_record_is_deleted_with_the_next_hash(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.group.has_partition_metadata = True
    bench.add_partitions("t", 5)
    bench.written()
    bench.beat("a", 2)
    assert kinds(bench)[:2] == ["Metadata", "-PartitionMetadata"]


# --- static members


def test_a_live_static_member_is_not_replaced(bench: ConsumerBench) -> None:
    bench.join("a", "t", instance_id="i")
    fields = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 1, "owned": {}, "instance_id": "i"}
    assert bench.refused("b", 0, **fields) == (
        ErrorCode.UNRELEASED_INSTANCE_ID,
        "Static member b with instance id i cannot join the group because the instance id is owned by a member.",
    )


def test_a_static_member_returns_with_another_id_without_a_rebalance(bench: ConsumerBench) -> None:
    bench.join("a", "t", instance_id="i")
    assert bench.beat("a", -2, instance_id="i") == HeartbeatResult(-2, None)
    bench.written()
    assert bench.join("b", "t", instance_id="i") == HeartbeatResult(2, {"t": (0, 1, 2, 3)})
    assert kinds(bench) == [
        "-CurrentMemberAssignment",
        "-TargetAssignmentMember",
        "-MemberMetadata",
        "MemberMetadata",
        "TargetAssignmentMember",
        "CurrentMemberAssignment",
        "CurrentMemberAssignment",
    ]
    assert (bench.group.epoch, list(bench.group.members)) == (2, ["b"])


def test_a_replaced_static_member_is_fenced(bench: ConsumerBench) -> None:
    bench.join("a", "t", instance_id="i")
    bench.beat("a", -2, instance_id="i")
    bench.join("b", "t", instance_id="i")
    assert bench.refused("a", 2, instance_id="i") == (
        ErrorCode.FENCED_INSTANCE_ID,
        "Static member a with instance id i was fenced by member b.",
    )
    assert bench.refused("a", -1, instance_id="i").code is ErrorCode.FENCED_INSTANCE_ID
    assert bench.refused("b", 2, instance_id="x") == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Instance id x is unknown.",
    )


def test_a_static_member_that_returns_with_another_subscription_rebalances(bench: ConsumerBench) -> None:
    bench.join("a", "t", instance_id="i")
    bench.beat("a", -2, instance_id="i")
    assert bench.join("b", "t", "u", instance_id="i") == HeartbeatResult(3, {"t": (0, 1, 2, 3), "u": (0, 1)})


# --- restarts of the coordinator


def test_a_group_is_restored_from_its_log(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.join("b", "t", instance_id="i")
    bench.beat("a", 2)
    before = (dict(bench.group.members), bench.group.targets, bench.group.epoch, bench.group.target_epoch)
    bench.restart()
    assert (
        dict(bench.group.members),
        bench.group.targets,
        bench.group.epoch,
        bench.group.target_epoch,
    ) == before
    assert bench.beat("a", 2, owned={"t": (0, 1)}).epoch == 3
    assert bench.beat("b", 3, instance_id="i") == HeartbeatResult(3, {"t": (2, 3)})


def test_topic_changes_before_the_load_are_noticed(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.timers.pending.clear()
    bench.add_partitions("t", 5)
    bench.restart()
    assert bench.beat("a", 2) == HeartbeatResult(3, {"t": (0, 1, 2, 3, 4)})
