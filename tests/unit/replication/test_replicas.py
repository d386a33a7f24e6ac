"""Replicas follow the metadata: born, led, reconfigured, gone."""

from __future__ import annotations

import random
import uuid

import pytest

from ottla.base.errors import ApiError, ErrorCode, StorageFault
from ottla.base.ids import TopicPartition
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, ResourceType
from ottla.metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log_dirs import LogDirs
from ottla.testing.disk import SimDisk, Survival
from ottla.testing.executor import InlineExecutor
from tests.support.logs import append, batch, create_log

NODE = 1
TOPIC_ID = uuid.UUID(int=77)


class FixedClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic(self) -> float:
        return 0.0


def log_config(image: MetadataImage, topic: str) -> LogConfig:
    values = image.config(ResourceType.TOPIC, topic)
    return LogConfig(retention_ms=int(values.get("retention.ms", "1000")))


class Setup:
    def __init__(self, *, stepped: bool = False, directories: tuple[str, ...] = ("/d",)) -> None:
        self.disk = SimDisk(random.Random(1))
        self.executor = InlineExecutor(stepped=stepped)
        self.dirs = LogDirs(self.disk, directories, random.Random(2), self.executor)
        self.dirs.claim("c" * 22, NODE)
        self.errors: list[TopicPartition] = []
        self.scheduled: list[Log] = []
        self.replicas = Replicas(
            NODE,
            self.dirs,
            FixedClock(),
            self.scheduled.append,
            log_config,
            lambda partition, error: self.errors.append(partition),
        )
        self.image = EMPTY_IMAGE

    def replay(self, *records: object) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(self.image.offset + len(records), 1)
        self.replicas.apply(delta, self.image)

    def create(
        self, *indexes: int, topic_id: uuid.UUID = TOPIC_ID, replicas: list[int] | None = None
    ) -> None:
        self.replay(
            TopicRecord(name="t", topic_id=topic_id),
            *(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=replicas or [NODE],
                    isr=replicas or [NODE],
                    leader=(replicas or [NODE])[0],
                    leader_epoch=3,
                )
                for index in indexes
            ),
        )


@pytest.fixture
def setup() -> Setup:
    return Setup()


def code_of(setup: Setup, topic: str, index: int) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        setup.replicas.get(topic, index)
    return refused.value.code


def test_a_created_topic_is_led_and_found_by_name_and_by_id(setup: Setup) -> None:
    setup.create(0, 1)
    partition = setup.replicas.get("t", 1)
    partition.check_leader(3)
    assert setup.replicas.lookup(b"t", 1, by_id=False) is partition
    assert setup.replicas.lookup(TOPIC_ID.bytes, 1, by_id=True) is partition
    assert setup.dirs.get(TopicPartition("t", 1)) is partition.log
    assert partition.log.end_offset_for_epoch(3) == (3, 0)


def test_what_is_not_here_is_refused_by_its_own_name(setup: Setup) -> None:
    setup.create(0)
    assert code_of(setup, "x", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(setup, "t", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(ApiError) as unknown_id:
        setup.replicas.lookup(uuid.UUID(int=1).bytes, 0, by_id=True)
    assert unknown_id.value.code is ErrorCode.UNKNOWN_TOPIC_ID


def test_partitions_of_other_brokers_are_not_made_here(setup: Setup) -> None:
    setup.create(0, replicas=[2])
    assert setup.dirs.get(TopicPartition("t", 0)) is None
    assert code_of(setup, "t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(setup, "t", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(ApiError) as refused:
        setup.replicas.lookup(TOPIC_ID.bytes, 0, by_id=True)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_deleted_topic_is_removed_with_its_logs_and_may_be_created_again(setup: Setup) -> None:
    setup.create(0)
    first = setup.replicas.get("t", 0)
    setup.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
    assert code_of(setup, "t", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert setup.dirs.get(TopicPartition("t", 0)) is None
    with pytest.raises(ApiError):
        first.check_leader()
    setup.create(0, topic_id=uuid.UUID(int=78))
    assert setup.replicas.get("t", 0).log is not first.log


def test_a_topic_that_is_deleted_and_created_again_in_one_change_starts_empty(setup: Setup) -> None:
    """A broker that catches up after a restart learns of both at once."""
    setup.create(0)
    append(setup.replicas.get("t", 0).log, batch())
    again = uuid.UUID(int=78)
    setup.replay(
        RemoveTopicRecord(topic_id=TOPIC_ID),
        TopicRecord(name="t", topic_id=again),
        PartitionRecord(
            partition_id=0, topic_id=again, replicas=[NODE], isr=[NODE], leader=NODE, leader_epoch=0
        ),
    )
    partition = setup.replicas.get("t", 0)
    assert (partition.topic_id, partition.log.topic_id, partition.log.log_end_offset) == (again, again, 0)


def test_a_replica_that_is_reassigned_to_another_broker_is_removed(setup: Setup) -> None:
    setup.create(0, replicas=[NODE, 2])
    setup.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[2], isr=[2], leader=2))
    assert code_of(setup, "t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert setup.dirs.get(TopicPartition("t", 0)) is None


def test_the_partitions_of_a_deleted_topic_are_removed_durably_with_one_sync(setup: Setup) -> None:
    setup.create(*range(20))
    before = len(setup.disk.trace)
    setup.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
    kinds = [change.kind for change in setup.disk.trace[before:]]
    assert kinds == ["rename"] * 20 + ["sync_dir"]


def test_a_log_left_over_from_another_topic_of_that_name_is_not_served(setup: Setup) -> None:
    left = create_log(setup.dirs, TopicPartition("t", 0), uuid.UUID(int=5), LogConfig())
    setup.create(0)
    assert setup.replicas.get("t", 0).log is not left


def test_a_changed_setting_reaches_the_logs_of_its_topic(setup: Setup) -> None:
    setup.create(0)
    change = ConfigRecord(
        resource_type=ResourceType.TOPIC, resource_name="t", name="retention.ms", value="5000"
    )
    setup.replay(change)
    assert setup.replicas.get("t", 0).log.config.retention_ms == 5000


def test_at_the_start_a_whole_image_is_taken_over(setup: Setup) -> None:
    setup.create(0, 1)
    other = Setup()
    other.replicas.load(setup.image)
    other.replicas.get("t", 1).check_leader(3)


def test_a_partition_whose_log_cannot_be_created_is_reported_and_returns_storage_error(setup: Setup) -> None:
    setup.dirs.dirs[0].fail(OSError("broken"))
    setup.create(0)
    assert setup.errors == [TopicPartition("t", 0)]
    assert code_of(setup, "t", 0) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_failed_directory_fails_its_partitions(setup: Setup) -> None:
    setup.create(0)
    partition = setup.replicas.get("t", 0)

    class Reader:
        moved = 0

        def partition_moved(self, _: object) -> None:
            self.moved += 1

    reader = Reader()
    partition.read_waiters[reader] = None
    setup.replicas.directory_failed("/elsewhere")
    assert reader.moved == 0
    setup.replicas.directory_failed("/d")
    assert reader.moved == 1


def test_until_its_log_is_created_a_partition_has_no_leader_here() -> None:
    setup = Setup(stepped=True)
    setup.create(0)
    assert code_of(setup, "t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ApiError) as refused:
        setup.replicas.lookup(TOPIC_ID.bytes, 0, by_id=True)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    setup.executor.run_all()
    setup.replicas.get("t", 0).check_leader(3)


def test_changes_are_followed_in_their_order() -> None:
    setup = Setup(stepped=True)
    setup.create(0)
    setup.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
    setup.create(0, topic_id=uuid.UUID(int=78))
    setup.executor.run_all()
    assert setup.replicas.get("t", 0).topic_id == uuid.UUID(int=78)
    assert [log.topic_id for log in setup.dirs.logs()] == [uuid.UUID(int=78)]


def test_a_role_changes_after_the_truncation_that_is_under_way() -> None:
    setup = Setup(stepped=True)
    setup.create(0, replicas=[2, NODE])
    setup.executor.run_all()
    partition = setup.replicas.get("t", 0)
    append(partition.log, batch(), batch())
    setup.dirs.truncate(partition.log, 1, 0)
    setup.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=NODE))
    assert partition.log.truncating
    assert not partition.leads
    setup.executor.run_all()
    assert not partition.log.truncating
    assert partition.leads
    assert partition.log.end_offset_for_epoch(4) == (4, 1)


def test_a_role_changes_while_logs_of_an_earlier_change_are_created() -> None:
    setup = Setup(stepped=True)
    setup.create(0, replicas=[2, NODE])
    setup.executor.run_all()
    partition = setup.replicas.get("t", 0)
    other = uuid.UUID(int=78)
    setup.replay(
        TopicRecord(name="u", topic_id=other),
        PartitionRecord(
            partition_id=0, topic_id=other, replicas=[2, NODE], isr=[2, NODE], leader=2, leader_epoch=1
        ),
    )
    assert setup.executor.waiting
    setup.replay(
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=NODE),
        PartitionChangeRecord(partition_id=0, topic_id=other, leader=NODE),
    )
    assert partition.leads
    setup.executor.run_all()
    created = setup.replicas.get("u", 0)
    assert (created.leads, created.leader_epoch) == (True, 2)


def test_a_deleted_topic_is_not_served_while_logs_of_an_earlier_change_are_created() -> None:
    """A new topic may have its name already: what is produced to that one must not be written to the old log."""
    setup = Setup(stepped=True)
    setup.create(0)
    setup.executor.run_all()
    old = setup.replicas.get("t", 0)
    log = old.log
    append(log, batch())
    large = uuid.UUID(int=79)
    setup.replay(
        TopicRecord(name="large", topic_id=large),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=large,
                replicas=[NODE],
                isr=[NODE],
                leader=NODE,
                leader_epoch=0,
            )
            for index in range(3)
        ),
    )
    setup.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=NODE))
    setup.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
    setup.create(0, topic_id=uuid.UUID(int=78))
    served: list[Partition] = []
    setup.replicas.on_served.append(served.append)
    assert code_of(setup, "t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        old.check_leader()
    setup.executor.run_all()
    new = setup.replicas.get("t", 0)
    assert (new.topic_id.int, new.log.log_end_offset) == (78, 0)
    assert log.closed
    assert TOPIC_ID not in {each.topic_id for each in served} | {each.topic_id for each in setup.dirs.logs()}


def test_a_replica_that_is_assigned_again_before_its_log_is_removed_keeps_it() -> None:
    """It copies from the leader from then on, and may join the ISR with the records that it has."""
    setup = Setup(stepped=True)
    setup.create(0, replicas=[2, NODE])
    setup.executor.run_all()
    partition = setup.replicas.get("t", 0)
    append(partition.log, batch())
    other = uuid.UUID(int=79)
    setup.replay(
        TopicRecord(name="u", topic_id=other),
        PartitionRecord(
            partition_id=0, topic_id=other, replicas=[NODE], isr=[NODE], leader=NODE, leader_epoch=0
        ),
    )
    for replicas in ([2], [2, NODE]):
        setup.replay(
            PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, replicas=replicas, isr=[2], leader=2)
        )
    assert partition.replicas == (2, NODE)
    setup.executor.run_all()
    assert setup.replicas.get("t", 0) is partition
    assert not partition.log.closed


def test_a_topic_deleted_while_its_logs_are_created_is_removed() -> None:
    setup = Setup(stepped=True)
    setup.create(0)
    setup.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
    setup.executor.run_all()
    assert list(setup.dirs.logs()) == []
    assert list(setup.replicas) == []


def test_the_follower_is_notified_when_records_are_durable(setup: Setup) -> None:
    class Follower:
        calls = 0

        def log_progressed(self) -> None:
            self.calls += 1

    setup.create(0, replicas=[2, NODE])
    partition = setup.replicas.get("t", 0)
    setup.replicas.progressed(partition.log)
    follower = partition.follower = Follower()
    setup.replicas.progressed(partition.log)
    assert follower.calls == 1
    setup.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=NODE))
    setup.replicas.progressed(partition.log)
    assert follower.calls == 1


def report(setup: Setup) -> uuid.UUID:
    """The broker has reported the directory of its replica; returns the id."""
    replica = setup.replicas.get("t", 0)
    found = setup.dirs.dir_of(replica.log).directory_id
    directories = [found if one == NODE else uuid.UUID(int=8) for one in replica.replicas]
    setup.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, directories=directories))
    return found


def lost(setup: Setup, **partition: object) -> None:
    """The directory of the partition fails; the controller changes the partition."""
    log = setup.replicas.get("t", 0).log
    setup.dirs.fail(StorageFault(log.log_dir, OSError("failed")))
    setup.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, **partition))  # type: ignore[arg-type]


def test_a_lost_log_is_created_again_in_another_directory() -> None:
    setup = Setup(directories=("/d", "/e"))
    setup.create(0, replicas=[NODE, 2])
    report(setup)
    old = setup.replicas.get("t", 0)
    append(old.log, batch())
    lost(setup, leader=2, isr=[2])
    new = setup.replicas.get("t", 0)
    assert new is not old
    assert (old.replaces_lost, new.replaces_lost) == (False, True)
    assert new.log.log_dir != old.log.log_dir
    assert (new.log.log_end_offset, new.leader) == (0, 2)
    assert setup.dirs.get(TopicPartition("t", 0)) is new.log


@pytest.mark.parametrize(
    "change",
    [{"leader": -1, "isr": [NODE]}, {"leader": 2, "isr": [2, NODE]}, {"leader": -1, "isr": []}],
    ids=["last in sync", "in sync", "no leader"],
)
def test_a_lost_log_that_may_be_needed_is_not_created_again(change: dict[str, object]) -> None:
    setup = Setup(directories=("/d", "/e"))
    setup.create(0, replicas=[NODE, 2])
    report(setup)
    old = setup.replicas.get("t", 0)
    lost(setup, **change)
    assert setup.replicas.get("t", 0) is old


def test_a_lost_log_is_not_created_again_before_its_directory_was_reported() -> None:
    """The controller does not know that the replica is lost: it could let it join the ISR."""
    setup = Setup(directories=("/d", "/e"))
    setup.create(0, replicas=[2, NODE])
    old = setup.replicas.get("t", 0)
    lost(setup, isr=[2])
    assert setup.replicas.get("t", 0) is old
    report(setup)
    assert setup.replicas.get("t", 0) is not old


def test_a_replica_outside_of_the_isr_is_created_again_when_the_failure_is_known() -> None:
    setup = Setup(directories=("/d", "/e"))
    setup.replay(RegisterBrokerRecord(broker_id=NODE, broker_epoch=1, fenced=False))
    setup.create(0, replicas=[2, NODE])
    known = report(setup)
    setup.replay(
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[2]),
        BrokerRegistrationChangeRecord(broker_id=NODE, broker_epoch=1, log_dirs=[known, uuid.UUID(int=9)]),
    )
    old = setup.replicas.get("t", 0)
    setup.dirs.fail(StorageFault(old.log.log_dir, OSError("failed")))
    setup.replay(BrokerRegistrationChangeRecord(broker_id=NODE, broker_epoch=1, log_dirs=[uuid.UUID(int=9)]))
    assert setup.replicas.get("t", 0) is not old


def test_a_lost_log_is_created_once_if_its_broker_and_its_partition_change_together() -> None:
    setup = Setup(directories=("/d", "/e"))
    setup.replay(RegisterBrokerRecord(broker_id=NODE, broker_epoch=1, fenced=False))
    setup.create(0, replicas=[NODE, 2])
    report(setup)
    old = setup.replicas.get("t", 0)
    setup.dirs.fail(StorageFault(old.log.log_dir, OSError("failed")))
    setup.replay(
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2, isr=[2]),
        BrokerRegistrationChangeRecord(broker_id=NODE, broker_epoch=1, log_dirs=[uuid.UUID(int=9)]),
    )
    assert list(setup.replicas) == [setup.replicas.get("t", 0)] != [old]
    assert setup.errors == []


@pytest.mark.parametrize("is_registered", [True, False])
def test_an_eligible_replica_is_created_again_when_its_directory_is_not_registered(
    is_registered: bool,
) -> None:
    """The controller removes it from the eligible replicas when the broker reports its new directory."""
    setup = Setup(directories=("/d", "/e"))
    setup.replay(RegisterBrokerRecord(broker_id=NODE, broker_epoch=1, fenced=False))
    setup.create(0, replicas=[NODE, 2])
    old = setup.replicas.get("t", 0)
    known = setup.dirs.dir_of(old.log).directory_id
    directories = [known, uuid.UUID(int=9)] if is_registered else [uuid.UUID(int=9)]
    setup.replay(BrokerRegistrationChangeRecord(broker_id=NODE, broker_epoch=1, log_dirs=directories))
    lost(setup, leader=2, isr=[2], eligible_leader_replicas=[NODE], directories=[known, uuid.UUID(int=8)])
    assert (setup.replicas.get("t", 0) is old) is is_registered


# A lost partition.metadata


def reopened(setup: Setup, *, epoch: int) -> Setup:
    """The broker after a restart; the log of t-0 has three records of a leader epoch, and its topic id is lost."""
    setup.create(0)
    log = setup.replicas.get("t", 0).log
    append(log, batch(), batch(), batch(), leader_epoch=epoch)
    setup.dirs.close(FixedClock().now_ms()).result()
    again = Setup()
    again.disk = setup.disk
    again.disk.remove("/d/t-0/partition.metadata")
    again.dirs = LogDirs(again.disk, ("/d",), random.Random(2), again.executor)
    again.dirs.load(lambda _: LogConfig(), FixedClock().now_ms()).result()
    again.replicas = Replicas(NODE, again.dirs, FixedClock(), again.scheduled.append, log_config, fail)
    return again


def fail(partition: TopicPartition, error: Exception) -> None:
    raise error


def test_a_log_whose_topic_id_was_lost_gets_that_of_the_metadata(setup: Setup) -> None:
    again = reopened(setup, epoch=3)
    again.create(0)
    log = again.replicas.get("t", 0).log
    assert (log.topic_id, log.log_end_offset) == (TOPIC_ID, 3)
    crashed = again.disk.crash(Survival.NONE)
    assert b"topic_id: AAAAAAAAAAAAAAAAAAAATQ" in crashed.read("/d/t-0/partition.metadata")


def test_a_log_of_a_later_epoch_whose_topic_id_was_lost_belongs_to_a_deleted_topic(setup: Setup) -> None:
    again = reopened(setup, epoch=4)
    again.create(0)
    log = again.replicas.get("t", 0).log
    assert (log.topic_id, log.log_end_offset) == (TOPIC_ID, 0)
