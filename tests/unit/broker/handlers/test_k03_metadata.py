"""Metadata and DescribeTopicPartitions of clusters in which brokers are fenced or have other listeners."""

from __future__ import annotations

import asyncio
import random
import uuid
from types import SimpleNamespace
from typing import Any, cast

from msgspec.structs import replace

from ottla.base.errors import ErrorCode
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.handlers.k03_metadata import Metadata
from ottla.broker.handlers.k75_describe_topic_partitions import DescribeTopicPartitions
from ottla.metadata.image import (
    BrokerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition

TOPIC_ID = uuid.UUID(int=7)


def broker(broker_id: int, listener: str = "CLIENTS", *, fenced: bool = False) -> BrokerImage:
    return BrokerImage(
        broker_id,
        broker_id,
        uuid.UUID(int=broker_id),
        (Endpoint(listener, "host", 9000 + broker_id),),
        fenced=fenced,
    )


def image(*brokers: BrokerImage, leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> MetadataImage:
    partition = PartitionImage(
        replicas=(1, 2, 3),
        directories=(uuid.UUID(int=0),) * 3,
        isr=isr,
        leader=leader,
        leader_epoch=4,
        eligible_leader_replicas=(3,),
    )
    topic = TopicImage("t", TOPIC_ID, {0: partition})
    return MetadataImage(
        brokers={one.broker_id: one for one in brokers}, topics=TopicsImage({"t": topic}, {TOPIC_ID: topic})
    )


def call(version: int) -> Any:
    origin = SimpleNamespace(listener=SimpleNamespace(name="CLIENTS"))
    return cast(Any, SimpleNamespace(api_version=version, origin=origin))


def respond(state: MetadataImage, version: int = 12, seed: int = 1) -> MetadataResponse:
    none = cast(Any, None)
    handler = Metadata(
        Authorization(), "cluster", random.Random(seed), none, none, MetadataCache(state), none
    )
    found = asyncio.run(handler.handle(MetadataRequest(topics=None), call(version)))
    if isinstance(found, bytes):
        from ottla.wire import codec

        return codec.decode(MetadataResponse, found, version)
    return found


def partition(state: MetadataImage, version: int = 12) -> MetadataResponsePartition:
    return respond(state, version).topics[0].partitions[0]


def test_replicas_on_fenced_brokers_are_offline() -> None:
    found = partition(image(broker(1), broker(2, fenced=True)))
    assert (found.error_code, found.leader_id, found.leader_epoch) == (0, 1, 4)
    assert (found.replica_nodes, found.isr_nodes, found.offline_replicas) == ([1, 2, 3], [1, 2], [2, 3])


def test_version_0_leaves_out_what_is_not_available() -> None:
    found = partition(image(broker(1), broker(2, fenced=True), broker(3)), version=0)
    assert found.error_code == ErrorCode.REPLICA_NOT_AVAILABLE
    assert (found.replica_nodes, found.isr_nodes) == ([1, 3], [1])


def test_a_partition_without_a_leader() -> None:
    state = image(broker(1), broker(2), broker(3), leader=-1, isr=())
    found = partition(state)
    assert (found.error_code, found.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    response = describe(state)
    assert (response.error_code, response.leader_id, response.eligible_leader_replicas) == (0, -1, [3])


def test_a_leader_that_the_client_cannot_reach() -> None:
    state = image(broker(1, "OTHER"), broker(2), broker(3))
    assert partition(state, 5).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    found = partition(state, 6)
    assert (found.error_code, found.leader_id) == (ErrorCode.LISTENER_NOT_FOUND, -1)
    assert found.offline_replicas == [1]
    unregistered = replace(state, brokers={2: broker(2)})
    assert partition(unregistered).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert describe(state).leader_id == -1


def test_brokers_are_in_the_order_of_their_ids() -> None:
    state = image(broker(2), broker(10), broker(1))
    assert [one.node_id for one in respond(state).brokers] == [1, 2, 10]


def test_the_controller_is_a_random_live_broker() -> None:
    state = image(broker(1), broker(2), broker(3, fenced=True))
    assert {respond(state, seed=seed).controller_id for seed in range(20)} == {1, 2}
    assert respond(image(broker(1, fenced=True))).controller_id == -1


def describe(state: MetadataImage) -> Any:
    settings = cast(Any, SimpleNamespace(int=lambda name: 2000))
    handler = DescribeTopicPartitions(Authorization(), settings, MetadataCache(state))
    return handler.handle(DescribeTopicPartitionsRequest(topics=[]), call(0)).topics[0].partitions[0]
