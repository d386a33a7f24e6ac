"""Replicas follow the metadata: the directories that it names, the brokers, the settings of brokers, truncations."""

from __future__ import annotations

import uuid

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.replication.cluster_view import ClusterView
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.log.log_config import LogConfig
from tests.support.logs import append, batch
from tests.unit.replication.test_replicas import NODE, TOPIC_ID, FixedClock, Setup, code_of, fail

OTHER = 2
FAILED, ELSEWHERE = uuid.UUID(int=99), uuid.UUID(int=8)


def two_directories() -> tuple[Setup, list[uuid.UUID]]:
    setup = Setup(directories=("/d", "/e"))
    return setup, [each.directory_id for each in setup.dirs.dirs]


def create_in(setup: Setup, directory_id: uuid.UUID, *, isr: list[int], count: int = 1) -> None:
    """Create topic t, which broker 2 leads; this broker has its replicas in a directory."""
    setup.replay(
        TopicRecord(name="t", topic_id=TOPIC_ID),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=TOPIC_ID,
                replicas=[OTHER, NODE],
                directories=[ELSEWHERE, directory_id],
                isr=isr,
                leader=OTHER,
                leader_epoch=3,
            )
            for index in range(count)
        ),
    )


@pytest.mark.parametrize("chosen", [0, 1])
def test_logs_are_created_in_the_directory_that_the_metadata_names(chosen: int) -> None:
    setup, directories = two_directories()
    create_in(setup, directories[chosen], isr=[OTHER, NODE], count=4)
    partitions = [setup.replicas.get("t", index) for index in range(4)]
    assert {setup.dirs.dir_of(each.log).directory_id for each in partitions} == {directories[chosen]}
    assert not any(each.replaces_lost for each in partitions)


@pytest.mark.parametrize(("isr", "registered"), [([OTHER, NODE], False), ([OTHER], True)])
def test_a_replica_in_a_failed_directory_is_not_created_in_another_one(
    isr: list[int], registered: bool
) -> None:
    """It is in the ISR, or the controller does not know that it was lost: it could join the ISR."""
    setup, directories = two_directories()
    log_dirs = [*directories, FAILED] if registered else directories
    setup.replay(RegisterBrokerRecord(broker_id=NODE, broker_epoch=1, fenced=False, log_dirs=log_dirs))
    create_in(setup, FAILED, isr=isr)
    assert setup.errors == [TopicPartition("t", 0)]
    assert code_of(setup, "t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert list(setup.dirs.logs()) == []


def test_a_replica_that_was_lost_before_the_start_is_created_in_another_directory() -> None:
    setup, directories = two_directories()
    setup.replay(RegisterBrokerRecord(broker_id=NODE, broker_epoch=1, fenced=False, log_dirs=directories))
    create_in(setup, FAILED, isr=[OTHER])
    partition = setup.replicas.get("t", 0)
    assert partition.replaces_lost
    assert setup.dirs.dir_of(partition.log).directory_id in directories


def test_the_error_of_a_partition_ends_with_its_topic() -> None:
    setup, _ = two_directories()
    create_in(setup, FAILED, isr=[OTHER, NODE])
    assert code_of(setup, "t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    setup.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
    assert code_of(setup, "t", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_error_of_a_partition_ends_when_it_is_served() -> None:
    setup, directories = two_directories()
    create_in(setup, FAILED, isr=[OTHER, NODE])
    setup.replay(
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, directories=[ELSEWHERE, directories[0]])
    )
    assert setup.replicas.get("t", 0).leader == OTHER
    setup.replay(
        PartitionChangeRecord(
            partition_id=0, topic_id=TOPIC_ID, replicas=[OTHER], isr=[OTHER], directories=[ELSEWHERE]
        )
    )
    assert code_of(setup, "t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def following(setup: Setup) -> ClusterView:
    """Replicas that follow the default settings and the brokers of the cluster."""

    def log_config(image: MetadataImage, topic: str) -> LogConfig:
        values = image.config(ResourceType.BROKER, "")
        return LogConfig(retention_ms=int(values.get("log.retention.ms", "1000")))

    cluster = ClusterView(FixedClock())
    setup.replicas = Replicas(
        NODE, setup.dirs, FixedClock(), setup.scheduled.append, log_config, fail, cluster
    )
    return cluster


def test_a_default_setting_of_the_brokers_reaches_all_logs() -> None:
    setup = Setup()
    following(setup)
    setup.create(0, 1)
    for name in ("", str(NODE)):
        setup.replay(
            ConfigRecord(
                resource_type=ResourceType.BROKER, resource_name=name, name="log.retention.ms", value="7"
            )
        )
        assert [each.log.config.retention_ms for each in setup.replicas] == [7, 7]


def test_partitions_follow_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup()
    cluster = following(setup)
    setup.create(0)
    changed: list[int] = []
    monkeypatch.setattr(Partition, "brokers_changed", lambda partition: changed.append(partition.index))
    setup.replay(RegisterBrokerRecord(broker_id=OTHER, broker_epoch=1, fenced=False))
    assert (cluster.brokers, changed) == (setup.image.brokers, [0])
    setup.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=-1))
    assert changed == [0]
    setup.replay(BrokerRegistrationChangeRecord(broker_id=OTHER, broker_epoch=1, fenced=1))
    assert (cluster.brokers[OTHER].fenced, changed) == (True, [0, 0])
    started = following(other := Setup())
    other.replicas.load(setup.image)
    assert started.brokers == setup.image.brokers


def test_a_change_is_applied_when_the_truncations_are_complete() -> None:
    setup = Setup(stepped=True)
    setup.create(0, replicas=[OTHER, NODE])
    setup.executor.run_all()
    log = setup.replicas.get("t", 0).log
    append(log, batch(), batch())
    setup.dirs.truncate(log, 1, 0)
    delta = MetadataDelta(setup.image)
    delta.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=NODE))
    applied = setup.replicas.apply(delta, delta.apply(setup.image.offset + 1, 1))
    assert not applied.done
    setup.executor.run_all()
    assert applied.done


def test_a_replica_that_is_removed_during_a_truncation_gets_no_role() -> None:
    setup = Setup(stepped=True)
    setup.create(0, replicas=[OTHER, NODE])
    setup.executor.run_all()
    partition = setup.replicas.get("t", 0)
    append(partition.log, batch(), batch())
    setup.dirs.truncate(partition.log, 1, 0)
    setup.replay(
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[OTHER], isr=[OTHER], leader=OTHER)
    )
    setup.executor.run_all()
    assert list(setup.replicas) == []
    assert setup.dirs.get(TopicPartition("t", 0)) is None
