from __future__ import annotations

from ottla.metadata import records as rec
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
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
