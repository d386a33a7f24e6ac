"""ElectLeaders and the periodic elections."""

from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller import decision
from ottla.controller.partitions import elections
from ottla.controller.partitions.elections import (
    decide_balance,
    decide_elect,
    decide_unclean,
    refuse_elect,
)
from ottla.metadata.image import NO_LEADER
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.support.controller import ControllerBench, cluster

PREFERRED, UNCLEAN = 0, 1


def elect(bench: ControllerBench, election_type: int, *indexes: int, topic: str = "t") -> dict[int, int]:
    """Elect the named partitions, or all; error codes by partition."""
    named = [TopicPartitions(topic=topic, partitions=list(indexes))] if indexes else None
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=named)
    response = bench.apply(decide_elect(bench.view, request))
    return {
        each.partition_id: each.error_code
        for result in response.replica_election_results
        for each in result.partition_result
    }


def returned() -> ControllerBench:
    """Broker 1 is the preferred leader of partitions 0 and 2; it is back in the ISR of partition 0."""
    bench = cluster(assignments=[[1, 2, 3], [2, 3, 1], [1, 3, 2]])
    bench.fence(1)
    bench.heartbeat(1)
    bench.alter_partition([1, 2, 3])
    return bench


def test_preferred_leaders() -> None:
    bench = returned()
    codes = elect(bench, PREFERRED, 0, 1, 2, 7)
    assert codes == {
        0: ErrorCode.NONE,
        1: ErrorCode.ELECTION_NOT_NEEDED,
        2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [bench.partition(index=each).leader for each in range(3)] == [1, 2, 3]
    assert bench.partition().leader_epoch == 2
    assert elect(bench, PREFERRED, 0, topic="u") == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_all_partitions_lists_only_those_that_need_an_election() -> None:
    assert elect(returned(), PREFERRED) == {0: 0, 2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def test_a_request_for_too_many_elections_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision, "RECORDS_PER_REQUEST_MAX", 1)
    bench = returned()
    bench.alter_partition([3, 1, 2], index=2)
    with pytest.raises(ApiError) as refused:
        elect(bench, PREFERRED)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert elect(bench, PREFERRED, 0) == {0: 0}


def test_an_error_of_the_request_is_that_of_each_named_partition() -> None:
    named = [TopicPartitions(topic="t", partitions=[0, 2])]
    for wanted, expected in ((named, [("t", 0), ("t", 2)]), (None, [])):
        response = refuse_elect(ElectLeadersRequest(topic_partitions=wanted), ErrorCode.NOT_CONTROLLER, "no")
        found = [
            (topic.topic, each.partition_id, each.error_code, each.error_message)
            for topic in response.replica_election_results
            for each in topic.partition_result
        ]
        assert response.error_code == ErrorCode.NOT_CONTROLLER
        assert found == [(*each, ErrorCode.NOT_CONTROLLER, "no") for each in expected]


def test_preferred_election_is_never_unclean() -> None:
    bench = cluster(assignments=[[1, 2]], configs={"unclean.leader.election.enable": "true"})
    bench.alter_partition([1])
    bench.fence(2)
    bench.fence(1)
    bench.heartbeat(2)
    assert bench.partition().leader == 2
    bench.heartbeat(1)
    assert elect(bench, PREFERRED, 0) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def test_unclean_election_by_request() -> None:
    bench = cluster(assignments=[[1, 2]])
    assert elect(bench, UNCLEAN, 0) == {0: ErrorCode.ELECTION_NOT_NEEDED}
    bench.fence(1)
    bench.fence(2)
    assert elect(bench, UNCLEAN, 0) == {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    bench.heartbeat(1)
    assert bench.partition().leader == NO_LEADER
    assert elect(bench, UNCLEAN, 0) == {0: ErrorCode.NONE}
    partition = bench.partition()
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), 1)
    assert partition.eligible_leader_replicas == ()


def test_unknown_election_type() -> None:
    with pytest.raises(ApiError) as refused:
        elect(cluster(), 5, 0)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_periodic_checks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elections, "ELECTIONS_MAX", 2)
    bench = cluster(assignments=[[1, 2, 3]] * 3)
    bench.fence(1)
    bench.heartbeat(1)
    for index in range(3):
        bench.alter_partition([1, 2, 3], index=index)
    assert bench.apply(decide_balance(bench.view)) is True
    assert [bench.partition(index=each).leader for each in range(3)] == [1, 1, 2]
    assert bench.apply(decide_balance(bench.view)) is False
    assert bench.partition(index=2).leader == 1


def test_unclean_check_respects_the_setting_of_each_topic() -> None:
    bench = cluster(assignments=[[1, 2]])
    bench.fence(1)
    bench.fence(2)
    bench.heartbeat(1)
    assert decide_unclean(bench.view) == ([], False)
