from __future__ import annotations

import uuid

from ottla.controller.brokers import decide_unfence
from ottla.controller.directories import decide_assign, decide_failed
from ottla.metadata.image import NO_LEADER, MetadataImage
from ottla.metadata.records import PartitionChangeRecord
from tests.support.metadata import broker_record, features, replayed, topic_id_of, topic_records

FIRST, SECOND = uuid.UUID(int=1010), uuid.UUID(int=1011)
TOPIC = topic_id_of("t")


def two_partitions(*, fenced: bool = False, dirs: int = 2) -> MetadataImage:
    """Partition 0 in the first directory of broker 1, partition 1 in the second."""
    records = [*features(), broker_record(1, fenced=fenced, dirs=dirs), *topic_records("t", [[1], [1]])]
    moved = PartitionChangeRecord(topic_id=TOPIC, partition_id=1, directories=[SECOND])
    return replayed([*records, moved])


def leaders(image: MetadataImage) -> list[int]:
    return [one.leader for one in image.topics.by_id[TOPIC].partitions.values()]


def test_the_directory_of_a_replica_is_recorded_once() -> None:
    image = two_partitions()
    places = {(TOPIC, 0): SECOND, (TOPIC, 1): SECOND, (TOPIC, 9): FIRST, (uuid.UUID(int=3), 0): FIRST}
    records, _ = decide_assign(image, 1, places)
    assert len(records) == 1
    after = replayed(records, image)
    assert after.topics.by_id[TOPIC].partitions[0].directory_of(1) == SECOND
    assert leaders(after) == [1, 1]
    assert decide_assign(after, 1, places) == ([], None)


def test_a_failed_directory_loses_its_leaders_and_no_other() -> None:
    image = two_partitions()
    records, _ = decide_failed(image, 1, image.brokers[1].epoch, [FIRST])
    after = replayed(records, image)
    assert leaders(after) == [1, NO_LEADER]
    assert after.brokers[1].log_dirs == (FIRST,)
    assert after.topics.by_id[TOPIC].partitions[1].isr == (1,)


def test_a_broker_without_a_directory_does_not_lead_the_replicas_in_it() -> None:
    image = two_partitions(fenced=True, dirs=1)
    records, _ = decide_unfence(image, 1, image.brokers[1].epoch)
    assert leaders(replayed(records, image)) == [1, NO_LEADER]


def test_replicas_in_a_restored_directory_lead_again() -> None:
    image = two_partitions(fenced=True)
    image = replayed([PartitionChangeRecord(topic_id=TOPIC, partition_id=1, leader=NO_LEADER)], image)
    records, _ = decide_unfence(image, 1, image.brokers[1].epoch)
    assert leaders(replayed(records, image)) == [1, 1]
