from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from ottla.base.errors import InvariantViolation, LocalError
from ottla.base.promise import Promise
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.record_codec import decode_record, encode_record
from ottla.metadata.records import BeginTransactionRecord, EndTransactionRecord, FeatureLevelRecord
from ottla.metadata.snapshot import digest, image_values
from ottla.quorum.quorum import CommittedBatch, CommittedSnapshot
from ottla.wire.schema import Message
from tests.support.fake_quorum import FakeQuorum
from tests.support.metadata import broker_record, features, replayed, topic_id_of, topic_records


class Bench:
    def __init__(self) -> None:
        self.quorum = FakeQuorum()
        self.publisher = MetadataPublisher(self.quorum)
        self.seen: list[tuple[MetadataDelta, MetadataImage]] = []
        self.publisher.add_listener(lambda delta, image: self.seen.append((delta, image)))
        self.offset = -1

    def batch(self, *records: Message) -> CommittedBatch:
        self.offset += len(records)
        return CommittedBatch(self.offset, 1, 0, [encode_record(record, 30) for record in records])

    def commit(self, *batches: Sequence[Message]) -> None:
        self.publisher.committed([self.batch(*records) for records in batches])

    @property
    def topics(self) -> list[str]:
        return list(self.publisher.image.topics.by_name)


def test_committed_batches_become_one_change() -> None:
    bench = Bench()
    bench.commit(features(), topic_records("a"), topic_records("b"))
    ((delta, image),) = bench.seen
    assert image is bench.publisher.image
    assert (image.offset, image.epoch) == (bench.offset, 1)
    assert delta.base is EMPTY_IMAGE
    assert bench.publisher.caught_up
    assert delta.changed_topics == {topic_id_of("a"), topic_id_of("b")}


def test_control_batch_moves_the_offset_only() -> None:
    bench = Bench()
    bench.commit(features())
    before = bench.publisher.image
    bench.publisher.committed([CommittedBatch(bench.offset + 1, 4, 0, [])])
    image = bench.publisher.image
    assert (image.offset, image.epoch) == (before.offset + 1, 4)
    assert image.features is before.features


def test_leader_and_follower_have_the_same_image() -> None:
    """One applies batch by batch, the other all at once after a restart."""
    history = [features(), [broker_record(1)], topic_records("a", [[1]] * 3), topic_records("b")]
    leader, follower = Bench(), Bench()
    for batch in history:
        leader.commit(batch)
    follower.commit(*history)
    assert leader.publisher.image == follower.publisher.image
    assert digest(leader.publisher.image) == digest(follower.publisher.image)


def test_when_applied_waits_for_the_offset_and_the_listeners() -> None:
    bench = Bench()
    order: list[object] = []
    bench.publisher.add_listener(lambda delta, image: order.append(image.offset))
    last = len(features())
    bench.publisher.when_applied(last, lambda: order.append("second"))
    bench.publisher.when_applied(last - 1, lambda: order.append("first"))
    bench.publisher.when_applied(last, lambda: order.append("third"))
    bench.publisher.when_applied(last + 1, lambda: order.append("never"))
    bench.commit(features())
    assert order == [last - 1, "first"]
    bench.commit([broker_record(1)])
    assert order == [last - 1, "first", last, "second", "third"]
    bench.publisher.when_applied(last, lambda: order.append("at once"))
    assert order[-1] == "at once"


def test_when_applied_waits_for_the_promises_of_listeners_in_the_order_of_the_log() -> None:
    bench = Bench()
    promises: list[Promise[None]] = []

    def following(delta: MetadataDelta, image: MetadataImage) -> Promise[None]:
        promises.append(Promise())
        return promises[-1]

    bench.publisher.add_listener(following)
    order: list[str] = []
    bench.commit(features())
    bench.publisher.when_applied(bench.offset, lambda: order.append("first"))
    bench.commit([broker_record(1)])
    bench.publisher.when_applied(bench.offset, lambda: order.append("second"))
    promises[1].keep(None)
    assert order == []
    promises[0].fail(ZeroDivisionError())
    assert order == ["first", "second"]


def test_listener_that_fails_does_not_affect_the_others() -> None:
    bench = Bench()
    after: list[MetadataImage] = []

    def broken(delta: MetadataDelta, image: MetadataImage) -> None:
        raise ZeroDivisionError

    bench.publisher.add_listener(broken)
    bench.publisher.add_listener(lambda delta, image: after.append(image))
    applied: list[int] = []
    bench.publisher.when_applied(0, lambda: applied.append(0))
    bench.commit(features())
    assert after == [bench.publisher.image]
    assert applied == [0]


def test_snapshot_is_written_when_due() -> None:
    bench = Bench()
    bench.commit(features())
    bench.quorum.snapshot_due = True
    bench.commit(topic_records("a"))
    bench.commit(topic_records("b"))
    ((last_offset, epoch, values),) = bench.quorum.snapshots
    assert (last_offset, epoch) == (bench.offset - 2, 1)
    assert list(replayed(map(decode_record, values)).topics.by_name) == ["a"]


def test_transaction_counts_when_it_ended() -> None:
    bench = Bench()
    bench.commit(features())
    bench.commit([BeginTransactionRecord(name="n"), *topic_records("a")])
    assert (bench.topics, bench.publisher.transaction_open) == ([], True)
    bench.commit([*topic_records("b"), EndTransactionRecord()])
    assert (bench.topics, bench.publisher.transaction_open) == (["a", "b"], False)


def test_no_snapshot_inside_a_transaction() -> None:
    """Its records before the snapshot would be lost."""
    bench = Bench()
    bench.commit(features())
    bench.quorum.snapshot_due = True
    bench.commit([BeginTransactionRecord(name="n"), *topic_records("a")])
    assert bench.quorum.snapshots == []
    bench.commit([EndTransactionRecord()])
    assert len(bench.quorum.snapshots) == 1


def test_loaded_snapshot_replaces_the_image_and_reports_the_difference() -> None:
    bench = Bench()
    bench.commit(
        features(),
        [broker_record(1)],
        topic_records("kept", [[1]] * 2, {"retention.ms": "1"}),
        topic_records("deleted"),
        topic_records("grown"),
    )
    bench.commit([BeginTransactionRecord(name="n"), *topic_records("half")])
    old = bench.publisher.image
    new = replayed(
        [
            *features(),
            broker_record(1, fenced=True),
            *topic_records("kept", [[1]] * 2, {"retention.ms": "2"}),
            *topic_records("grown", [[1]] * 3),
            *topic_records("new", [[1]] * 2),
        ]
    )
    called: list[int] = []
    bench.publisher.when_applied(500, lambda: called.append(500))
    bench.publisher.load_snapshot(CommittedSnapshot(700, 9, image_values(new)))
    delta, image = bench.seen[-1]
    assert (image.offset, image.epoch, image.topics, image.configs) == (700, 9, new.topics, new.configs)
    assert delta.base is old
    assert delta.deleted_topic_ids == {topic_id_of("deleted")}
    assert delta.changed_topics == {topic_id_of("grown"), topic_id_of("new")}
    assert delta.changed_partitions(topic_id_of("grown")) == {1, 2}
    assert delta.changed_partitions(topic_id_of("new")) == {0, 1}
    assert delta.changed_configs == {(2, "kept")}
    assert delta.changed_brokers == {1}
    assert delta.changed_features == set()
    assert called == [500]
    assert not bench.publisher.transaction_open


def test_newer_features_are_refused() -> None:
    bench = Bench()
    with pytest.raises(LocalError, match=r"metadata\.version 99"):
        bench.commit([FeatureLevelRecord(name="metadata.version", feature_level=99)])
    assert bench.publisher.image is EMPTY_IMAGE


def test_a_snapshot_with_newer_features_is_refused() -> None:
    bench = Bench()
    image = replayed(features())
    newer = replace(image, features={**image.features, "group.version": 9})
    with pytest.raises(LocalError, match=r"group\.version 9"):
        bench.publisher.load_snapshot(CommittedSnapshot(700, 9, image_values(newer)))
    assert bench.publisher.image is EMPTY_IMAGE


def test_a_snapshot_alone_may_be_older_than_the_log() -> None:
    bench = Bench()
    bench.publisher.load_snapshot(CommittedSnapshot(700, 9, image_values(replayed(features()))))
    assert not bench.publisher.caught_up


def test_records_that_contradict_the_image_raise_and_change_nothing() -> None:
    bench = Bench()
    bench.commit(features())
    before = bench.publisher.image
    with pytest.raises(InvariantViolation):
        bench.commit(topic_records("a")[1:])
    assert bench.publisher.image is before
    assert len(bench.seen) == 1


def test_finalized_features_include_the_quorums_own() -> None:
    bench = Bench()
    bench.commit(features())
    levels = bench.publisher.finalized_features()
    assert levels["kraft.version"] == 1
    assert levels["metadata.version"] == 30
