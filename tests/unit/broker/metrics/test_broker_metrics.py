"""Unclean elections are counted from the changes of the metadata."""

from __future__ import annotations

import uuid

import pytest

from ottla.broker.metrics.broker_metrics import unclean_elections
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.records import PartitionChangeRecord, PartitionRecord, TopicRecord

TOPIC_ID = uuid.uuid4()


def image_of(isr: list[int], leader: int) -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(TopicRecord(name="t", topic_id=TOPIC_ID))
    delta.replay(
        PartitionRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[1, 2, 3], isr=isr, leader=leader)
    )
    return delta.apply(1, 1)


@pytest.mark.parametrize(
    ("change", "count"),
    [
        (PartitionChangeRecord(leader=2, isr=[2]), 0),
        (PartitionChangeRecord(leader=3, isr=[3]), 1),
        (PartitionChangeRecord(leader=-1), 0),
        (PartitionChangeRecord(isr=[1]), 0),
    ],
)
def test_a_leader_that_was_not_in_sync_is_unclean(change: PartitionChangeRecord, count: int) -> None:
    delta = MetadataDelta(image_of([1, 2], 1))
    change.partition_id, change.topic_id = 0, TOPIC_ID
    delta.replay(change)
    assert unclean_elections(delta, delta.apply(2, 1)) == count


def test_new_topics_have_no_unclean_elections() -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(TopicRecord(name="t", topic_id=TOPIC_ID))
    delta.replay(PartitionRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[1], isr=[1], leader=1))
    assert unclean_elections(delta, delta.apply(1, 1)) == 0
