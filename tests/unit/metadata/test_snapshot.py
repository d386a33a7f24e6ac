from __future__ import annotations

from uuid import UUID

from msgspec.structs import astuple, fields, replace

from ottla.metadata import records as rec
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage, TopicsImage
from ottla.metadata.record_codec import decode_record
from ottla.metadata.snapshot import digest, image_records, image_values
from tests.support.metadata import one_node, replayed, topic_records


def restored(image: MetadataImage) -> MetadataImage:
    made = replayed(map(decode_record, image_values(image)))
    return MetadataImage(**{f: getattr(made, f) for f in made.__struct_fields__} | {"offset": image.offset})


def test_replaying_a_snapshot_gives_the_image_back() -> None:
    image = replayed(
        [
            *topic_records("z", [[1], [1]], {"retention.ms": "5"}),
            *topic_records("a"),
            rec.ProducerIdsRecord(next_producer_id=4000),
            rec.RegisterControllerRecord(controller_id=1),
        ],
        one_node(),
    )
    assert restored(image) == image


def test_every_field_of_a_partition_is_in_a_snapshot() -> None:
    before = one_node("a")
    topic = before.topics.by_name["a"]
    state = PartitionImage(
        replicas=(1, 2, 3),
        directories=(UUID(int=7), UUID(int=8), UUID(int=9)),
        isr=(2,),
        leader=2,
        leader_epoch=3,
        partition_epoch=4,
        leader_recovery_state=1,
        removing_replicas=(1,),
        adding_replicas=(3,),
        eligible_leader_replicas=(1,),
        last_known_elr=(3,),
    )
    assert all(
        value != field.default for field, value in zip(fields(PartitionImage), astuple(state), strict=True)
    )
    changed = replace(topic, partitions={0: state})
    topics = TopicsImage({"a": changed}, {changed.topic_id: changed})
    assert restored(replace(before, topics=topics)).topics.by_id[changed.topic_id].partitions == {0: state}


def test_the_state_of_a_broker_is_in_a_snapshot() -> None:
    for fenced, stops in ((False, False), (False, True), (True, False), (True, True)):
        record = rec.RegisterBrokerRecord(
            broker_id=1,
            broker_epoch=8,
            rack="r",
            fenced=fenced,
            in_controlled_shutdown=stops,
            log_dirs=[UUID(int=7), UUID(int=8)],
            cordoned_log_dirs=[UUID(int=8)],
        )
        image = replayed([record], one_node())
        assert restored(image).brokers == image.brokers
        assert image.brokers[1].in_controlled_shutdown is stops


def test_order_of_topics_is_kept() -> None:
    image = one_node("z", "a", "m")
    assert list(restored(image).topics.by_id) == list(image.topics.by_id)


def test_features_come_first() -> None:
    first = next(image_records(one_node("a")))
    assert first == rec.FeatureLevelRecord(name="metadata.version", feature_level=30)


def test_empty_image_has_no_records() -> None:
    assert list(image_records(EMPTY_IMAGE)) == []


def test_different_images_have_different_digests() -> None:
    assert digest(one_node("a", "b")) == digest(one_node("a", "b"))
    assert digest(one_node("a")) != digest(one_node("b"))
