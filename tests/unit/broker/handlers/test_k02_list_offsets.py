"""ListOffsets at leaders, new leaders and followers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.authorization import Authorization
from ottla.broker.handlers.k02_list_offsets import ListOffsets
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.support.replica_fetches import Broker, Follower

LATEST, EARLIEST = -1, -2
CONSUMER, DEBUGGING = -1, -2


def latest(
    broker: Broker, timestamp: int = LATEST, *, replica_id: int = CONSUMER, version: int = 9
) -> tuple[ErrorCode, int]:
    replicas = SimpleNamespace(get=lambda topic, index: broker.partitions[index])
    request = ListOffsetsRequest(
        replica_id=replica_id,
        topics=[
            ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
            )
        ],
    )
    call = cast(Any, SimpleNamespace(api_version=version))
    (topic,) = ListOffsets(Authorization(), cast(Any, replicas)).handle(request, call).topics
    (found,) = topic.partitions
    return ErrorCode(found.error_code), found.offset


def elected() -> Broker:
    """A leader of epoch 1 with one record of epoch 0 whose commitment it does not know."""
    broker = Broker()
    broker.append()
    broker.write()
    broker.partitions[0].become(broker.image(epoch=1, partition_epoch=1))
    return broker


def test_a_new_leader_does_not_return_its_old_high_watermark() -> None:
    broker = elected()
    assert latest(broker) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    assert latest(broker, 2**60) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    assert latest(broker, 0) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    assert latest(broker, EARLIEST) == (ErrorCode.NONE, 0)
    for replica_id in (2, 3):
        Follower(broker, replica_id).fetch({0: 1}, epoch=1)
    assert latest(broker) == (ErrorCode.NONE, 1)
    assert latest(broker, 2**60) == (ErrorCode.NONE, -1)


@pytest.mark.parametrize(
    ("version", "code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_old_clients_get_an_error_that_they_know(version: int, code: ErrorCode) -> None:
    assert latest(elected(), version=version) == (code, -1)


def test_a_follower_responds_to_the_debugging_replica_id_only() -> None:
    broker = elected()
    broker.partitions[0].become(broker.image(leader=2, epoch=2, partition_epoch=2))
    assert latest(broker) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert latest(broker, replica_id=3) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert latest(broker, replica_id=DEBUGGING) == (ErrorCode.NONE, 1)


def test_replicas_get_the_end_of_the_log() -> None:
    assert latest(elected(), replica_id=2) == (ErrorCode.NONE, 1)


class CountedIndex(int):
    """A partition index that counts how often it is compared."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedIndex.comparisons += 1
        return int(self) == other

    def __hash__(self) -> int:
        return int(self)


def test_the_work_for_many_partitions_grows_with_their_number() -> None:
    """A comparison of each partition with each other one would occupy the event loop for seconds."""

    def unknown(topic: str, index: int) -> None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    indexes = [CountedIndex(number) for number in range(500)]
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes]
    request = ListOffsetsRequest(
        replica_id=CONSUMER, topics=[ListOffsetsTopic(name="t", partitions=partitions)]
    )
    replicas = cast(Any, SimpleNamespace(get=unknown))
    call = cast(Any, SimpleNamespace(api_version=9))
    CountedIndex.comparisons = 0
    (topic,) = ListOffsets(Authorization(), replicas).handle(request, call).topics
    assert len(topic.partitions) == len(indexes)
    assert CountedIndex.comparisons < 10 * len(indexes)
