"""Reassignments: start, complete, change the target, cancel, list."""

from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller import decision
from ottla.controller.partitions.partition_change import RECOVERED, RECOVERING
from ottla.controller.partitions.reassignment import decide_reassign, list_reassignments
from ottla.metadata.image import NO_LEADER
from ottla.metadata.records import PartitionChangeRecord
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.support.controller import TOPIC_ID, ControllerBench, cluster, directory_of
from tests.support.metadata import broker_record, features, topic_records


def two(count: int = 4) -> ControllerBench:
    return cluster(count, [[1, 2]])


def state(bench: ControllerBench) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    partition = bench.partition()
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


def test_targets_first_then_those_to_be_removed() -> None:
    bench = two()
    assert bench.reassign([3, 1]) == 0
    assert state(bench) == ((3, 1, 2), (3,), (2,))
    partition = bench.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 0, (1, 2))
    assert partition.directories == (directory_of(3), directory_of(1), directory_of(2))
    bench.alter_partition([1, 2, 3])
    assert state(bench) == ((3, 1), (), ())
    assert (bench.partition().leader, bench.partition().isr) == (1, (1, 3))


def test_a_new_order_alone_does_not_move_the_leader() -> None:
    bench = two()
    assert bench.reassign([2, 1]) == 0
    assert state(bench) == ((2, 1), (), ())
    assert (bench.partition().leader, bench.partition().leader_epoch) == (1, 0)


def test_the_same_replicas_change_nothing() -> None:
    bench = two()
    offset = bench.image.offset
    assert bench.reassign([1, 2]) == 0
    assert bench.image.offset == offset


def test_cancelling_a_changed_target_keeps_the_merged_order() -> None:
    bench = two()
    bench.reassign([1, 3])
    bench.reassign([3, 2])
    assert state(bench) == ((3, 2, 1), (3,), (1,))
    assert bench.reassign(None) == 0
    assert state(bench) == ((2, 1), (), ())
    assert bench.partition().isr == (1, 2)


def test_going_back_to_the_first_replicas_completes() -> None:
    bench = two()
    bench.reassign([1, 3])
    assert bench.reassign([1, 2]) == 0
    assert state(bench) == ((1, 2), (), ())


def test_fewer_replicas_wait_for_all_targets() -> None:
    bench = cluster(3, [[1, 2, 3]])
    bench.alter_partition([1, 2])
    assert bench.reassign([2, 3]) == 0
    assert state(bench) == ((2, 3, 1), (), (1,)), "broker 3 is not in sync"
    bench.alter_partition([1, 2, 3])
    assert state(bench) == ((2, 3), (), ())
    assert bench.partition().leader == 2


@pytest.mark.parametrize(
    ("replicas", "changes", "code"),
    [
        ([], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, {}, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ([1, 2, 3], {"allow_replication_factor_change": False}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_refused(replicas: list[int] | None, changes: dict[str, bool], code: ErrorCode) -> None:
    bench = two()
    offset = bench.image.offset
    assert bench.reassign(replicas, **changes) == code
    assert bench.image.offset == offset


def test_factor_is_that_of_the_target_in_progress() -> None:
    bench = two()
    bench.reassign([1, 2, 3])
    assert bench.reassign([1, 4, 3], allow_replication_factor_change=False) == 0
    assert (
        bench.reassign([1, 4], allow_replication_factor_change=False) == ErrorCode.INVALID_REPLICATION_FACTOR
    )


def test_replicas_that_are_being_removed_do_not_count_for_the_factor() -> None:
    bench = two()
    bench.reassign([3, 2])
    assert state(bench) == ((3, 2, 1), (3,), (1,))
    assert bench.reassign([1, 4], allow_replication_factor_change=False) == 0


def test_a_request_with_too_many_reassignments_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision, "RECORDS_PER_REQUEST_MAX", 1)
    bench = cluster(4, [[1, 2], [1, 2]])
    targets = [ReassignablePartition(partition_index=index, replicas=[1, 3]) for index in (0, 1)]
    requests = [
        AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=targets[:count])])
        for count in (1, 2)
    ]
    assert len(decide_reassign(bench.view, requests[0]).records) == 1
    with pytest.raises(ApiError) as refused:
        decide_reassign(bench.view, requests[1])
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize(("enabled", "code"), [("false", ErrorCode.INVALID_REPLICA_ASSIGNMENT), ("true", 0)])
def test_cancelling_that_needs_an_unclean_election(enabled: str, code: int) -> None:
    bench = cluster(4, [[1, 2]], configs={"unclean.leader.election.enable": enabled})
    bench.alter_partition([1])
    bench.reassign([3, 4])
    bench.alter_partition([1, 3])
    bench.fence(1)
    assert bench.partition().isr == (3,)
    assert bench.reassign(None) == code
    assert bench.partition().isr == ((3,) if code else (2,))


def test_cancelling_without_any_active_broker_puts_no_fenced_replica_into_the_isr() -> None:
    """Those that are eligible have all committed records; the first replica may lack some."""
    bench = cluster(
        3, [[1, 2, 3]], min_insync_replicas="2", configs={"unclean.leader.election.enable": "true"}
    )
    bench.alter_partition([1, 2])
    bench.reassign([2, 3])
    bench.fence(1)
    bench.fence(2, 3)
    assert (bench.partition().leader, bench.partition().isr) == (NO_LEADER, ())
    eligible = bench.partition().eligible_leader_replicas
    assert set(eligible) == {1, 2}
    assert bench.reassign(None) == 0
    assert (bench.partition().leader, bench.partition().isr) == (NO_LEADER, ())
    assert bench.partition().eligible_leader_replicas == eligible
    bench.heartbeat(2)
    assert (bench.partition().leader, bench.partition().leader_recovery_state) == (2, RECOVERED)


def test_cancelling_without_eligible_leader_replicas_keeps_an_isr() -> None:
    """Without them an empty ISR cannot be stored."""
    levels = features(**{"eligible.leader.replicas.version": 0})
    bench = ControllerBench(
        [
            *levels,
            *(broker_record(each, epoch=each) for each in (1, 2, 3)),
            *topic_records("t", [[1, 2]], {"unclean.leader.election.enable": "true"}),
        ]
    )
    bench.alter_partition([1])
    bench.reassign([3])
    bench.replay(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[3], leader=3))
    bench.fence(1, 2)
    bench.fence(3)
    assert bench.reassign(None) == 0
    assert (bench.partition().leader, bench.partition().isr) == (NO_LEADER, (1,))


def test_cancelling_elects_uncleanly_if_only_added_replicas_are_in_sync() -> None:
    bench = cluster(4, [[1, 2]], configs={"unclean.leader.election.enable": "true"})
    bench.alter_partition([1])
    bench.reassign([3, 4])
    bench.alter_partition([1, 3])
    bench.fence(1)
    bench.fence(2)
    assert bench.reassign(None) == 0
    partition = bench.partition()
    assert (partition.leader, partition.isr, partition.last_known_elr) == (NO_LEADER, (), ())
    bench.heartbeat(2)
    assert (bench.partition().leader, bench.partition().leader_recovery_state) == (2, RECOVERING)


def test_an_assignment_that_only_removes_replicas_is_in_progress_until_the_others_are_in_sync() -> None:
    bench = cluster(4, [[1, 2, 3]])
    bench.alter_partition([1, 3])
    assert bench.reassign([1, 2]) == 0
    assert state(bench) == ((1, 2, 3), (), (3,))
    (topic,) = list_reassignments(bench.view, ListPartitionReassignmentsRequest(topics=None)).topics
    assert topic.partitions[0].removing_replicas == [3]
    assert bench.reassign(None) == 0
    assert state(bench) == ((1, 2, 3), (), ())


def test_a_request_without_topics() -> None:
    request = AlterPartitionReassignmentsRequest(topics=[], allow_replication_factor_change=False)
    _, response = decide_reassign(two().view, request)
    assert (response.allow_replication_factor_change, response.error_message) == (True, "")
    target = ReassignablePartition(partition_index=0, replicas=[1, 2])
    request.topics = [ReassignableTopic(name="t", partitions=[target])]
    _, response = decide_reassign(two().view, request)
    assert (response.allow_replication_factor_change, response.error_message) == (False, None)
    request.allow_replication_factor_change = True
    _, response = decide_reassign(two().view, request)
    assert response.allow_replication_factor_change


def test_unknown_partitions() -> None:
    bench = two()
    target = ReassignablePartition(partition_index=5, replicas=[1])
    topics = [ReassignableTopic(name=name, partitions=[target]) for name in ("t", "nope")]
    _, response = decide_reassign(bench.view, AlterPartitionReassignmentsRequest(topics=topics))
    codes = [each.partitions[0].error_code for each in response.responses]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


def test_list() -> None:
    bench = cluster(4, [[1, 2], [2, 3]])
    assert list_reassignments(bench.view, ListPartitionReassignmentsRequest(topics=None)).topics == []
    bench.reassign([3, 1])
    (topic,) = list_reassignments(bench.view, ListPartitionReassignmentsRequest(topics=None)).topics
    (found,) = topic.partitions
    assert (topic.name, found.partition_index, found.replicas) == ("t", 0, [3, 1, 2])
    assert (found.adding_replicas, found.removing_replicas) == ([3], [2])
    for indexes, expected in (([0, 1], 1), ([1], 0)):
        wanted = [
            ListPartitionReassignmentsTopics(name="t", partition_indexes=indexes),
            ListPartitionReassignmentsTopics(name="u", partition_indexes=[0]),
        ]
        response = list_reassignments(bench.view, ListPartitionReassignmentsRequest(topics=wanted))
        assert len(response.topics) == expected


def test_a_reassignment_does_not_elect_a_replica_without_the_records() -> None:
    bench = cluster(3, [[1]], configs={"unclean.leader.election.enable": "true"})
    bench.fence(1)
    assert bench.reassign([3]) == 0
    assert state(bench) == ((3, 1), (3,), (1,))
    assert bench.partition().leader == NO_LEADER


def test_partitions_that_do_not_exist_are_not_listed() -> None:
    bench = two()
    bench.reassign([3, 1])
    wanted = [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 99])]
    response = list_reassignments(bench.view, ListPartitionReassignmentsRequest(topics=wanted))
    assert [each.partition_index for each in response.topics[0].partitions] == [0]
