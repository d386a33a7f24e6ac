"""ConsumerHeartbeat: joining, staying, changing one's mind; what is written and what is answered."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.group import records as rec
from tests.support.consumer_bench import TIMEOUT_MS, ConsumerBench, Told
from tests.support.metadata import topic_id_of

T = topic_id_of("t")


def kinds(bench: ConsumerBench) -> list[str]:
    """The types of the records just written; a dash in front of those that erase."""
    return [
        ("-" if record.value is None else "")
        + type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
        for record in bench.written()
    ]


# --- joining


def test_the_first_member_gets_everything_at_once(bench: ConsumerBench) -> None:
    assert bench.join("a", "t", "u") == Told(2, {"t": (0, 1, 2, 3), "u": (0, 1)})
    assert (bench.group.epoch, bench.group.target_epoch) == (2, 2)
    assert bench.group.state_name == "Stable"


def test_a_join_writes_member_epoch_target_and_standing_in_kafkas_order(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    assert kinds(bench) == [
        "MemberMetadata",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]


def test_what_the_records_of_a_join_tell(bench: ConsumerBench) -> None:
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


def test_a_topic_that_does_not_exist_gives_nothing_until_it_does(bench: ConsumerBench) -> None:
    assert bench.join("a", "gone") == Told(2, {})
    bench.create_topic("gone", 2)
    assert bench.beat("a", 2) == Told(3, {"gone": (0, 1)})


def test_before_version_1_the_coordinator_gives_out_member_ids(bench: ConsumerBench) -> None:
    fields = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": TIMEOUT_MS, "owned": {}}
    first = bench.send(bench.request("", 0, **fields), 0)
    second = bench.send(bench.request("", 0, **fields), 0)
    assert first.member_id is not None
    assert len(first.member_id) == 22
    assert first.member_id != second.member_id
    assert sorted(bench.group.members) == sorted([first.member_id, str(second.member_id)])


def test_the_answer_tells_when_to_send_the_next_heartbeat() -> None:
    bench = ConsumerBench({"group.consumer.heartbeat.interval.ms": "7000"}, t=1)
    fields = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": TIMEOUT_MS, "owned": {}}
    assert bench.send(bench.request("a", 0, **fields)).heartbeat_interval_ms == 7000


# --- a second member


def test_a_partition_is_handed_over_only_after_its_owner_gave_it_up(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    assert bench.join("b", "t") == Told(3, {}), "everything is still with a"
    assert bench.beat("a", 2) == Told(2, {"t": (0, 1)}), "a is told to give up two, at its old epoch"
    assert bench.beat("b", 3) == Told(3, None), "a has not said that it did"
    assert bench.beat("a", 2, owned={"t": (0, 1, 2, 3)}) == Told(2, None), "a still owns them"
    assert bench.beat("b", 3) == Told(3, None)
    assert bench.beat("a", 2, owned={"t": (0, 1)}) == Told(3, None), "now it does not"
    assert bench.beat("b", 3) == Told(3, {"t": (2, 3)})
    assert bench.group.state_name == "Stable"


def test_states_of_a_group_while_a_partition_changes_hands(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.join("b", "t")
    assert bench.group.state_name == "Reconciling"
    bench.settle("a", "b")
    assert bench.group.state_name == "Stable"
    bench.beat("a", -1)
    assert bench.group.state_name == "Assigning"
    bench.beat("b", -1)
    assert bench.group.state_name == "Empty"


# --- what an answer lists


def test_a_short_heartbeat_of_a_settled_member_is_answered_shortly_and_writes_nothing(
    bench: ConsumerBench,
) -> None:
    bench.join("a", "t")
    bench.written()
    assert bench.beat("a", 2) == Told(2, None)
    assert bench.beat("a", 2, owned={"t": (0, 1, 2, 3)}) == Told(2, None)
    assert kinds(bench) == []


def test_who_tells_everything_is_told_everything(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    told = bench.beat(
        "a", 2, owned={"t": (0,)}, rebalance_timeout_ms=TIMEOUT_MS, subscribed_topic_names=["t"]
    )
    assert told == Told(2, {"t": (0, 1, 2, 3)})


@pytest.mark.parametrize("missing", ["owned", "rebalance_timeout_ms", "subscribed_topic_names"])
def test_a_request_that_leaves_something_out_is_not_full(bench: ConsumerBench, missing: str) -> None:
    bench.join("a", "t")
    fields = {"owned": {}, "rebalance_timeout_ms": TIMEOUT_MS, "subscribed_topic_names": ["t"]}
    del fields[missing]
    assert bench.beat("a", 2, **fields) == Told(2, None)


# --- epochs


def test_an_answer_that_was_lost_is_made_good_by_the_epoch_before(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.join("b", "t")
    bench.beat("a", 2)
    assert bench.beat("a", 2, owned={"t": (0, 1)}).epoch == 3
    assert bench.beat("a", 2, owned={"t": (0, 1)}) == Told(3, None), "the answer never came: it asks again"


def test_the_epoch_before_with_partitions_it_was_not_given_is_a_zombie(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.join("b", "t")
    bench.beat("a", 2)
    bench.beat("a", 2, owned={"t": (0, 1)})
    for owned in (None, {"t": (0, 1, 2)}, {"u": (0,)}):
        assert bench.refused("a", 2, owned=owned).code is ErrorCode.FENCED_MEMBER_EPOCH


def test_epochs_that_were_never_given_are_fenced(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    assert bench.refused("a", 3) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The consumer group member has a greater member epoch (3) than the one known by the group coordinator (2)."
        " The member must abandon all its partitions and rejoin.",
    )
    assert "smaller member epoch (1)" in str(bench.refused("a", 1).text)


def test_a_member_may_join_again_and_gets_what_it_had(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.written()
    assert bench.join("a", "t") == Told(2, {"t": (0, 1, 2, 3)})
    assert kinds(bench) == []


def test_joining_again_gives_up_what_was_to_be_given_up(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.join("b", "t")
    bench.beat("a", 2)
    assert bench.join("a", "t") == Told(3, {"t": (0, 1)})
    assert bench.beat("b", 3) == Told(3, {"t": (2, 3)})


# --- who is not there


def test_a_heartbeat_to_a_group_that_is_not_there(bench: ConsumerBench) -> None:
    assert bench.refused("a", 1) == (ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found.")


def test_a_heartbeat_of_nobody(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    assert bench.refused("x", 1) == (ErrorCode.UNKNOWN_MEMBER_ID, "Member x is not a member of group g.")


def test_a_group_that_is_full() -> None:
    bench = ConsumerBench({"group.consumer.max.size": "1"}, t=1)
    bench.join("a", "t")
    with pytest.raises(Exception, match="maximum capacity of 1 members"):
        bench.join("b", "t")
    assert bench.beat("a", 2) == Told(2, None), "who is in stays in"
    assert bench.join("a", "t").epoch == 2


# --- changing one's mind


def test_another_subscription_is_a_new_epoch(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    assert bench.beat("a", 2, subscribed_topic_names=["t", "u"]) == Told(3, {"t": (0, 1, 2, 3), "u": (0, 1)})


def test_the_same_subscription_in_another_order_changes_nothing(bench: ConsumerBench) -> None:
    bench.join("a", "t", "u")
    bench.written()
    assert bench.beat("a", 2, subscribed_topic_names=["u", "t", "u"]) == Told(2, None)
    assert kinds(bench) == []


def test_a_topic_that_is_no_longer_read_is_taken_away_at_once(bench: ConsumerBench) -> None:
    bench.join("a", "t", "u")
    told = bench.beat("a", 2, subscribed_topic_names=["u"])
    assert told == Told(2, {"u": (0, 1)}), "it has yet to give up t"
    assert bench.beat("a", 2, owned={"u": (0, 1)}).epoch == 3


def test_a_topic_given_up_is_lost_even_before_there_is_a_new_target() -> None:
    bench = ConsumerBench({"group.consumer.assignment.interval.ms": "5000"}, t=1, u=1)
    bench.join("a", "t", "u")
    assert bench.beat("a", 2, subscribed_topic_names=["u"]) == Told(2, {"u": (0,)})
    assert (bench.group.epoch, bench.group.target_epoch) == (3, 2)


def test_a_new_rack_is_written_down_without_a_new_epoch(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.written()
    assert bench.beat("a", 2, rack_id="r2") == Told(2, None)
    assert kinds(bench) == ["MemberMetadata"]
    assert bench.member("a").rack_id == "r2"


def test_what_a_heartbeat_leaves_out_stays(bench: ConsumerBench) -> None:
    bench.join("a", "t", rack_id="r", server_assignor="range", instance_id="i")
    bench.beat("a", 2, instance_id="i")
    member = bench.member("a")
    assert (member.rack_id, member.assignor, member.topics) == ("r", "range", {"t"})
    assert (member.instance_id, member.rebalance_timeout_ms) == ("i", TIMEOUT_MS)


# --- topics that change


def test_new_partitions_are_a_new_epoch_with_the_next_heartbeat(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.add_partitions("t", 6)
    assert bench.beat("a", 2) == Told(3, {"t": (0, 1, 2, 3, 4, 5)})


def test_topics_are_looked_at_once_per_change(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.beat("a", 2)
    assert not bench.group.metadata_stale
    bench.add_partitions("t", 5)
    assert bench.group.metadata_stale
    bench.beat("a", 2)
    assert not bench.group.metadata_stale


def test_a_deleted_topic_is_taken_away(bench: ConsumerBench) -> None:
    bench.join("a", "t", "u")
    bench.delete_topic("u")
    assert bench.beat("a", 2) == Told(2, {"t": (0, 1, 2, 3)})
    assert bench.beat("a", 2, owned={"t": (0, 1, 2, 3)}) == Told(3, None)
    assert bench.group.metadata_hash != 0


def test_topics_that_nobody_reads_may_change_as_they_like(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.add_partitions("u", 5)
    bench.create_topic("v", 1)
    bench.written()
    assert bench.beat("a", 2) == Told(2, None)
    assert kinds(bench) == []


def test_a_record_of_older_coordinators_is_erased_at_the_next_look_at_topics(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.group.has_partition_metadata = True
    bench.add_partitions("t", 5)
    bench.written()
    bench.beat("a", 2)
    assert kinds(bench)[:2] == ["Metadata", "-PartitionMetadata"]


# --- static members


def test_a_static_member_that_is_there_is_not_replaced(bench: ConsumerBench) -> None:
    bench.join("a", "t", instance_id="i")
    fields = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 1, "owned": {}, "instance_id": "i"}
    assert bench.refused("b", 0, **fields) == (
        ErrorCode.UNRELEASED_INSTANCE_ID,
        "Static member b with instance id i cannot join the group because the instance id is owned by a member.",
    )


def test_a_static_member_comes_back_under_another_id_without_a_rebalance(bench: ConsumerBench) -> None:
    bench.join("a", "t", instance_id="i")
    assert bench.beat("a", -2, instance_id="i") == Told(-2, None)
    bench.written()
    assert bench.join("b", "t", instance_id="i") == Told(2, {"t": (0, 1, 2, 3)})
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


def test_who_lost_its_instance_id_is_fenced(bench: ConsumerBench) -> None:
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


def test_a_static_member_that_comes_back_with_another_subscription_rebalances(bench: ConsumerBench) -> None:
    bench.join("a", "t", instance_id="i")
    bench.beat("a", -2, instance_id="i")
    assert bench.join("b", "t", "u", instance_id="i") == Told(3, {"t": (0, 1, 2, 3), "u": (0, 1)})


# --- restarts of the coordinator


def test_a_group_comes_back_from_its_log_as_it_was(bench: ConsumerBench) -> None:
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
    assert bench.beat("b", 3, instance_id="i") == Told(3, {"t": (2, 3)})


def test_topics_that_changed_while_nobody_coordinated_are_noticed(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.timers.pending.clear()
    bench.add_partitions("t", 5)
    bench.restart()
    assert bench.beat("a", 2) == Told(3, {"t": (0, 1, 2, 3, 4)})
