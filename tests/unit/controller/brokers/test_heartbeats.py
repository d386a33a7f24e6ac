"""Heartbeats: fencing, unfencing, controlled shutdown and failed directories."""

from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.image import DIRECTORY_UNASSIGNED, NO_LEADER, ResourceType
from ottla.metadata.records import ConfigRecord, PartitionChangeRecord
from tests.support.controller import TOPIC_ID, ControllerBench, cluster, directory_of
from tests.support.metadata import broker_record, features, topic_records


def test_only_the_registered_epoch_is_heard() -> None:
    bench = cluster()
    for broker_id, epoch in ((1, 99), (2, 1), (9, 9)):
        with pytest.raises(ApiError) as refused:
            bench.heartbeat(broker_id, broker_epoch=epoch)
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_broker_is_unfenced_when_it_has_applied_its_registration() -> None:
    bench = cluster()
    epoch = bench.register(4).broker_epoch
    response = bench.heartbeat(4, current_metadata_offset=epoch - 1)
    assert (response.is_caught_up, response.is_fenced) == (False, True)
    response = bench.heartbeat(4, want_fence=True)
    assert (response.is_caught_up, response.is_fenced) == (True, True)
    response = bench.heartbeat(4)
    assert (response.is_caught_up, response.is_fenced, response.should_shut_down) == (True, False, False)
    assert bench.image.brokers[4].active
    offset = bench.image.offset
    bench.heartbeat(4)
    assert bench.image.offset == offset, "a heartbeat that changes no state appends nothing"


def test_fenced_broker_leaves_every_isr_and_leadership() -> None:
    bench = cluster(assignments=[[1, 2, 3], [2, 1, 3], [3, 2]])
    bench.heartbeat(1)
    assert bench.heartbeat(1, want_fence=True).is_fenced
    assert bench.image.brokers[1].fenced
    first, second, third = (bench.partition(index=index) for index in range(3))
    assert (first.leader, first.isr, first.leader_epoch) == (2, (2, 3), 1)
    assert (second.leader, second.isr, second.leader_epoch) == (2, (2, 3), 0)
    assert third.partition_epoch == 0


def test_brokers_that_fail_together_stay_eligible_together() -> None:
    bench = cluster(min_insync_replicas="1")
    bench.fence(1, 2, 3)
    partition = bench.partition()
    assert (partition.leader, partition.isr) == (NO_LEADER, ())
    assert set(partition.eligible_leader_replicas) == {1, 2, 3}
    bench.heartbeat(3)
    assert (bench.partition().leader, bench.partition().isr) == (3, (3,))


def test_brokers_that_fail_one_after_the_other_leave_the_last_one_eligible() -> None:
    bench = cluster(min_insync_replicas="1")
    for broker_id in (1, 2, 3):
        bench.fence(broker_id)
    assert bench.partition().eligible_leader_replicas == (3,)
    bench.heartbeat(1)
    assert bench.partition().leader == NO_LEADER
    bench.heartbeat(3)
    assert bench.partition().leader == 3


def test_fencing_twice_changes_nothing() -> None:
    bench = cluster()
    bench.fence(1, 9)
    offset = bench.image.offset
    bench.fence(1)
    assert bench.image.offset == offset


def test_unfenced_broker_leads_only_what_it_may() -> None:
    bench = cluster(assignments=[[1, 2], [1, 2]])
    bench.fence(1)
    bench.fence(2)
    bench.heartbeat(1)
    assert [bench.partition(index=each).leader for each in (0, 1)] == [NO_LEADER, NO_LEADER]
    bench.heartbeat(2)
    assert [bench.partition(index=each).leader for each in (0, 1)] == [2, 2]


@pytest.mark.parametrize(("enabled", "leader"), [("false", NO_LEADER), ("true", 1)])
def test_unclean_election_only_where_it_is_enabled(enabled: str, leader: int) -> None:
    bench = cluster(assignments=[[1, 2]], configs={"unclean.leader.election.enable": enabled})
    bench.fence(1)
    bench.fence(2)
    bench.heartbeat(1)
    assert bench.partition().leader == leader
    assert bench.partition().leader_recovery_state == (leader == 1)


@pytest.mark.parametrize(("enabled", "leader"), [("false", NO_LEADER), ("true", 1)])
def test_any_unfenced_broker_lets_unclean_elections_happen(enabled: str, leader: int) -> None:
    """They have been enabled since the partition lost its leader. The elected broker was active before."""
    bench = cluster(assignments=[[1, 2]])
    for broker_id in (3, 1, 2):
        bench.fence(broker_id)
    bench.heartbeat(1)
    unclean = {"name": "unclean.leader.election.enable", "value": enabled}
    bench.replay(ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", **unclean))
    assert bench.partition().leader == NO_LEADER
    bench.heartbeat(3)
    assert bench.partition().leader == leader


# Controlled shutdown


def test_controlled_shutdown_moves_leaders_first() -> None:
    bench = cluster()
    for broker_id in (1, 2, 3):
        bench.heartbeat(broker_id)
    first = bench.heartbeat(1, want_shut_down=True)
    assert (first.is_fenced, first.should_shut_down) == (False, False)
    assert bench.image.brokers[1].in_controlled_shutdown
    assert not bench.image.brokers[1].fenced
    assert (bench.partition().leader, bench.partition().isr) == (2, (2, 3))
    assert not bench.heartbeat(1, want_shut_down=True).should_shut_down, "others have not applied it"
    bench.heartbeat(2)
    assert not bench.heartbeat(1, want_shut_down=True).should_shut_down
    bench.heartbeat(3)
    last = bench.heartbeat(1, want_shut_down=True)
    assert (last.is_fenced, last.should_shut_down) == (True, True)
    assert bench.image.brokers[1].fenced
    assert bench.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_shutdown_waits_only_for_the_offset_at_which_the_leaderships_moved() -> None:
    bench = cluster()
    for broker_id in (1, 2, 3):
        bench.heartbeat(broker_id)
    bench.heartbeat(1, want_shut_down=True)
    moved_at = bench.image.offset
    bench.replay(*topic_records("other", [[2, 3]]))
    assert not bench.heartbeat(1, want_shut_down=True).should_shut_down
    for broker_id in (2, 3):
        bench.heartbeat(broker_id, current_metadata_offset=moved_at)
    assert bench.heartbeat(1, want_shut_down=True).should_shut_down


def test_broker_that_shuts_down_is_not_elected_and_not_added() -> None:
    bench = cluster()
    for broker_id in (1, 2, 3):
        bench.heartbeat(broker_id)
    bench.heartbeat(1, want_shut_down=True)
    assert bench.alter_partition([2, 3, 1]).error_code == ErrorCode.INELIGIBLE_REPLICA
    bench.fence(2, 3)
    assert bench.partition().leader == NO_LEADER


def test_broker_that_shuts_down_is_not_unfenced() -> None:
    bench = cluster()
    for broker_id in (1, 2, 3):
        bench.heartbeat(broker_id)
    bench.heartbeat(1, want_shut_down=True)
    bench.fence(1)
    assert bench.heartbeat(1).is_fenced
    bench.restart(1, clean=True)
    assert bench.image.brokers[1].active


def test_last_broker_shuts_down() -> None:
    bench = cluster(1, [[1]])
    bench.heartbeat(1)
    assert not bench.heartbeat(1, want_shut_down=True).should_shut_down
    assert bench.heartbeat(1, want_shut_down=True).should_shut_down
    assert bench.partition().leader == NO_LEADER
    bench.restart(1, clean=True)
    assert (bench.partition().leader, bench.partition().leader_recovery_state) == (1, 0)


def test_broker_without_leaders_shuts_down_at_once() -> None:
    bench = cluster(assignments=[[2, 1, 3]])
    bench.heartbeat(1)
    assert bench.heartbeat(1, want_shut_down=True).should_shut_down
    assert bench.partition().isr == (2, 3)


# Directories


def two_directories(fenced: bool = False) -> ControllerBench:
    """Partition 0 in the first directory of broker 1, partition 1 in the second; broker 2 has both."""
    records = [
        *features(),
        broker_record(1, epoch=1, dirs=2, fenced=fenced),
        broker_record(2, epoch=2),
        *topic_records("t", [[1, 2], [1, 2]]),
        PartitionChangeRecord(
            topic_id=TOPIC_ID, partition_id=1, directories=[directory_of(1, 1), directory_of(2)]
        ),
    ]
    return ControllerBench(records)


def test_a_failed_directory_loses_its_replicas_and_no_other() -> None:
    bench = two_directories()
    bench.heartbeat(1, offline_log_dirs=[directory_of(1, 1)])
    assert [bench.partition(index=each).leader for each in (0, 1)] == [1, 2]
    assert bench.partition(index=1).isr == (2,)
    assert bench.partition().isr == (1, 2)
    assert bench.image.brokers[1].log_dirs == (directory_of(1),)
    offset = bench.image.offset
    bench.heartbeat(1, offline_log_dirs=[directory_of(1, 1)])
    assert bench.image.offset == offset


def test_replicas_in_a_directory_that_failed_before_the_start_do_not_lead() -> None:
    bench = two_directories()
    bench.fence(1)
    bench.fence(2)
    bench.replay(
        *(
            PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=index, eligible_leader_replicas=[1, 2])
            for index in (0, 1)
        )
    )
    bench.heartbeat(1, offline_log_dirs=[directory_of(1, 1)])
    assert [bench.partition(index=each).leader for each in (0, 1)] == [1, NO_LEADER]
    assert bench.image.brokers[1].log_dirs == (directory_of(1),)
    bench.restart(1, clean=True)
    assert bench.partition(index=1).leader == NO_LEADER
    bench.sessions.end(1)
    bench.register(1, log_dirs=[directory_of(1), directory_of(1, 1)])
    bench.heartbeat(1)
    assert bench.partition(index=1).leader == 1


def test_all_directories_failed() -> None:
    bench = two_directories()
    both = [directory_of(1), directory_of(1, 1)]
    bench.heartbeat(1, offline_log_dirs=both)
    assert [bench.partition(index=each).leader for each in (0, 1)] == [2, 2]
    offset = bench.image.offset
    bench.heartbeat(1, offline_log_dirs=both)
    assert bench.image.offset == offset


def test_a_replica_whose_directory_is_not_known_is_lost_with_the_last_directory() -> None:
    bench = two_directories()
    unassigned = [DIRECTORY_UNASSIGNED, directory_of(2)]
    bench.replay(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, directories=unassigned))
    bench.heartbeat(1, offline_log_dirs=[directory_of(1)])
    assert bench.partition().leader == 1
    bench.heartbeat(1, offline_log_dirs=[directory_of(1), directory_of(1, 1)])
    assert (bench.partition().leader, bench.partition().isr) == (2, (2,))


def test_a_broker_is_unfenced_with_its_directories() -> None:
    bench = two_directories(fenced=True)
    bench.heartbeat(1)
    assert bench.image.brokers[1].log_dirs == (directory_of(1), directory_of(1, 1))
