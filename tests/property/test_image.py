"""Any history of decisions: image and snapshot agree, and it does not matter how the records were cut up."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ottla.base.errors import ApiError
from ottla.config.broker import BrokerConfig
from ottla.controller.controller import Controller
from ottla.controller.producer_ids import decide_allocate
from ottla.metadata.image import MetadataImage
from ottla.metadata.record_codec import decode_record, encode_record
from ottla.metadata.snapshot import digest, image_values
from ottla.wire.messages import alter_configs as alter
from ottla.wire.messages import incremental_alter_configs as incremental
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.schema import Message
from tests.support.metadata import broker_record, features, replayed

NAMES = st.sampled_from(["a", "b", "c.d", "c_d", "bad name"])
SETTINGS = st.dictionaries(
    st.sampled_from(["retention.ms", "cleanup.policy", "nope"]),
    st.sampled_from(["1", "compact", "x"]),
    max_size=2,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.integers(-1, 5), st.integers(-1, 3), SETTINGS),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("extend"), NAMES, st.integers(0, 8)),
        st.tuples(
            st.just("set"), st.sampled_from([2, 4, 32]), st.sampled_from(["a", "b", "", "1"]), SETTINGS
        ),
        st.tuples(st.just("replace"), st.sampled_from([2, 4]), st.sampled_from(["a", "", "1"]), SETTINGS),
        st.just(("ids",)),
    ),
    max_size=25,
)


def decided(controller: Controller, step: tuple[Any, ...]) -> list[Message]:
    """The records of one step; none if it is refused as a whole."""
    image = controller.image
    kind, *rest = step
    if kind == "create":
        name, partitions, factor, settings = rest
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in settings.items()]
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=factor, configs=configs
        )
        return controller.topics.decide_create(image, CreateTopicsRequest(topics=[topic])).records
    if kind == "delete":
        return controller.topics.decide_delete(image, DeleteTopicsRequest(topic_names=rest), 5).records
    if kind == "extend":
        topic_ = CreatePartitionsTopic(name=rest[0], count=rest[1], assignments=None)
        return controller.topics.decide_create_partitions(
            image, CreatePartitionsRequest(topics=[topic_])
        ).records
    if kind == "set":
        kind_, name, settings = rest
        entries = [incremental.AlterableConfig(name=key, value=value) for key, value in settings.items()]
        resource = incremental.AlterConfigsResource(resource_type=kind_, resource_name=name, configs=entries)
        request = incremental.IncrementalAlterConfigsRequest(resources=[resource])
        return controller.configs.decide_incremental_alter(image, request).records
    if kind == "replace":
        kind_, name, settings = rest
        old = [alter.AlterableConfig(name=key, value=value) for key, value in settings.items()]
        whole = alter.AlterConfigsResource(resource_type=kind_, resource_name=name, configs=old)
        return controller.configs.decide_alter(image, alter.AlterConfigsRequest(resources=[whole])).records
    request_ids = AllocateProducerIdsRequest(broker_id=1, broker_epoch=5)
    return decide_allocate(controller.view(), request_ids).records


def leader(steps: list[tuple[Any, ...]]) -> tuple[MetadataImage, list[Message]]:
    controller = Controller(BrokerConfig({"node.id": "1"}), 1, random.Random(5))
    history: list[Message] = [*features(), broker_record(1), broker_record(2, "r")]
    controller.advance(controller.replayed(history, len(history) - 1, 1))
    for step in steps:
        try:
            records = decided(controller, step)
        except ApiError:
            continue
        if records:
            history += records
            controller.advance(controller.replayed(records, len(history) - 1, 1))
    return controller.image, history


@given(steps=STEPS)
def test_standby_that_replays_everything_at_once_agrees(steps: list[tuple[Any, ...]]) -> None:
    image, history = leader(steps)
    stored = [encode_record(record, 30) for record in history]
    standby = replace(replayed(map(decode_record, stored)), epoch=image.epoch)
    assert standby == image
    assert digest(standby) == digest(image)


@given(steps=STEPS)
def test_snapshot_gives_the_image_back(steps: list[tuple[Any, ...]]) -> None:
    image, _ = leader(steps)
    restored = replayed(map(decode_record, image_values(image)))
    assert replace(restored, offset=image.offset, epoch=image.epoch) == image
    assert list(restored.topics.by_id) == list(image.topics.by_id)


@given(steps=STEPS)
def test_both_tables_hold_the_same_topics(steps: list[tuple[Any, ...]]) -> None:
    image, _ = leader(steps)
    assert [t.topic_id for t in image.topics.by_name.values()] == list(image.topics.by_id)
    for topic in image.topics.by_id.values():
        assert list(topic.partitions) == list(range(len(topic.partitions)))
        assert image.topics.by_name[topic.name] is topic
    assert all(name in image.topics.by_name for kind, name in image.configs if kind == 2)
