"""The hash of subscribed topics."""

from __future__ import annotations

import uuid

import pytest

from ottla.coordinator.group.consumer.subscription.metadata_hash import MetadataHashes
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import PartitionRecord, RemoveTopicRecord, TopicRecord
from tests.support.metadata import broker_record, replayed, topic_id_of, topic_records


@pytest.fixture
def image() -> MetadataImage:
    return replayed([broker_record(1, "r1"), broker_record(2), *topic_records("t", [(1,), (2,)])])


def of(image: MetadataImage, *topics: str) -> int:
    return MetadataHashes().of(topics, image)


def test_the_hash_is_the_one_that_apache_kafka_wrote() -> None:
    topic_id = uuid.UUID("b0dcea93-f239-4223-b3b5-7c2e27a0ca37")
    partitions = [
        PartitionRecord(
            partition_id=index, topic_id=topic_id, replicas=[1], isr=[1], leader=1, directories=[]
        )
        for index in range(4)
    ]
    records = [broker_record(1, "r1"), TopicRecord(name="1794800924-a", topic_id=topic_id), *partitions]
    written = int.from_bytes(bytes.fromhex("f42530a24c44db3b"), signed=True)
    assert of(replayed(records), "1794800924-a") == written


def test_no_topics_hash_to_zero(image: MetadataImage) -> None:
    assert of(image) == of(image, "gone") == 0
    assert of(image, "t", "gone") == of(image, "t") != 0


def test_the_order_of_topics_does_not_matter(image: MetadataImage) -> None:
    more = replayed(topic_records("u"), image)
    assert of(more, "t", "u") == of(more, "u", "t")
    assert len({of(more, "t", "u"), of(more, "t"), of(more, "u")}) == 3


def test_partitions_ids_and_racks_change_the_hash(image: MetadataImage) -> None:
    added = PartitionRecord(
        partition_id=2, topic_id=topic_id_of("t"), replicas=[1], isr=[1], leader=1, directories=[]
    )
    again = [RemoveTopicRecord(topic_id=topic_id_of("t")), TopicRecord(name="t", topic_id=uuid.UUID(int=9))]
    others = [
        replayed([added], image),
        replayed(again, image),
        replayed([broker_record(2, "r2", epoch=6)], image),
    ]
    assert len({of(each, "t") for each in (image, *others)}) == 4


def test_a_topic_is_hashed_once_per_image(image: MetadataImage) -> None:
    hashes = MetadataHashes()
    before = hashes.of(["t"], image)
    moved = replayed([broker_record(2, "r2", epoch=6)], image)
    assert hashes.of(["t"], moved) == before, "the topic's own image is the same"
    hashes.forget(["t"])
    assert hashes.of(["t"], moved) != before
