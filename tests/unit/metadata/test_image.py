from __future__ import annotations

import uuid

from ottla.metadata.image import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    EMPTY_IMAGE,
    PartitionImage,
)
from tests.support.metadata import one_node, replayed, topic_records


def test_empty_image() -> None:
    assert EMPTY_IMAGE.offset == -1
    assert EMPTY_IMAGE.metadata_version == 0
    assert EMPTY_IMAGE.config(2, "t") == {}
    assert EMPTY_IMAGE.partition_count() == 0


def test_partition_count_is_over_all_topics() -> None:
    image = replayed([*topic_records("a", [[1]] * 3), *topic_records("b", [[1]] * 4)], one_node())
    assert image.partition_count() == 7


def test_directory_of_a_replica() -> None:
    at = uuid.UUID(int=9)
    partition = PartitionImage(replicas=(1, 2), directories=(uuid.UUID(int=8), at), isr=(1,), leader=1)
    assert partition.directory_of(2) == at
    assert partition.directory_of(3) == DIRECTORY_UNASSIGNED


def test_a_replica_is_online_in_a_registered_directory_or_in_one_that_is_not_known() -> None:
    at, other = uuid.UUID(int=8), uuid.UUID(int=9)
    for directory_id, online in (
        (at, True),
        (other, False),
        (DIRECTORY_UNASSIGNED, True),
        (DIRECTORY_MIGRATING, True),
        (DIRECTORY_LOST, False),
    ):
        partition = PartitionImage(replicas=(1,), directories=(directory_id,), isr=(1,), leader=1)
        assert partition.is_online(1, (at,)) is online


def test_equal_records_make_equal_images() -> None:
    assert one_node("a", "b") == one_node("a", "b")
    assert one_node("a") != one_node("b")
