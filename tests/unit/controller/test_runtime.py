"""Decisions on uncommitted images, batched appends, and what happens when leadership or the log is lost."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.config.broker import BrokerConfig
from ottla.controller import runtime
from ottla.controller.controller import Controller
from ottla.controller.decision import Decision, SplittableDecision
from ottla.controller.producer_ids import decide_allocate
from ottla.controller.runtime import ControllerRuntime
from ottla.controller.settings.features import initial_records
from ottla.metadata.image import MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.record_codec import decode_record, encode_record
from ottla.metadata.records import BeginTransactionRecord, FeatureLevelRecord
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.schema import Message
from tests.support.fake_quorum import FakeQuorum
from tests.support.metadata import broker_record, topic_records

NOT_CONTROLLER = ErrorCode.NOT_CONTROLLER
STORAGE = ErrorCode.KAFKA_STORAGE_ERROR


class Bench:
    """A runtime on a fake quorum. Results are responses or error codes, under the name of the request."""

    def __init__(self, quorum: FakeQuorum | None = None, bootstrap: Sequence[Message] | None = None) -> None:
        self.quorum = quorum or FakeQuorum()
        self.publisher = MetadataPublisher(self.quorum)
        self.controller = Controller(BrokerConfig({"node.id": "1"}), 1, random.Random(1))
        self.events: list[object] = []
        self.results: dict[str, object] = {}
        self.runtime = ControllerRuntime(
            self.controller,
            self.quorum,
            self.publisher,
            bootstrap=initial_records() if bootstrap is None else bootstrap,
            on_leading=lambda: None,
            on_resigned=lambda: None,
            on_active=lambda: self.events.append("active"),
            on_fault=self.events.append,
        )

    def start(self) -> Bench:
        self.quorum.start(self.publisher, self.runtime)
        self.quorum.commit()
        return self

    def submit(self, name: str, decide: Any) -> None:
        def finish(result: object) -> None:
            assert name not in self.results, "a request gets one response"
            self.results[name] = result

        self.runtime.submit(decide, finish, lambda code, message: finish(code))

    def create(self, name: str, topic: str | None = None) -> None:
        """Create a topic, unless the image has it."""

        def decide(image: MetadataImage) -> Decision[str]:
            if (topic or name) in image.topics.by_name:
                raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS)
            return Decision(topic_records(topic or name), "created")

        self.submit(name, decide)

    def topics(self) -> list[str]:
        return list(self.publisher.image.topics.by_name)


def test_first_decision_writes_the_levels_of_a_new_cluster() -> None:
    bench = Bench()
    bench.quorum.start(bench.publisher, bench.runtime)
    assert bench.events == []
    bench.quorum.commit()
    assert bench.events == ["active"]
    assert bench.publisher.image.metadata_version == 30


def test_decision_is_made_on_an_image_that_is_not_committed() -> None:
    bench = Bench().start()
    bench.create("first", "a")
    bench.create("second", "a")
    bench.create("third", "b")
    assert (bench.results, bench.topics()) == ({}, [])
    assert list(bench.controller.image.topics.by_name) == ["a", "b"]
    assert len(bench.quorum.appends) == 2
    bench.quorum.commit()
    assert bench.results == {
        "first": "created",
        "second": ErrorCode.TOPIC_ALREADY_EXISTS,
        "third": "created",
    }
    assert bench.topics() == ["a", "b"]
    assert bench.publisher.image == bench.controller.image


def test_responses_follow_their_own_commit() -> None:
    bench = Bench().start()
    bench.create("a")
    bench.create("b")
    bench.quorum.commit(1)
    assert (bench.results, bench.topics()) == ({"a": "created"}, ["a"])
    bench.quorum.commit(1)
    assert (bench.results, bench.topics()) == ({"a": "created", "b": "created"}, ["a", "b"])


def test_decision_without_records_waits_for_what_it_was_made_on() -> None:
    bench = Bench().start()
    bench.create("a")
    bench.submit("read", lambda image: Decision([], list(image.topics.by_name)))
    assert bench.results == {}
    bench.quorum.commit()
    assert bench.results == {"a": "created", "read": ["a"]}


def test_decision_without_records_is_finished_at_once_if_nothing_is_outstanding() -> None:
    bench = Bench().start()
    bench.submit("read", lambda image: Decision([], "response"))
    assert bench.results == {"read": "response"}


def test_each_decision_is_one_append() -> None:
    bench = Bench().start()
    bench.create("a")
    bench.create("b")
    names = [
        [type(decode_record(value)).__name__ for value in batch.values] for batch in bench.quorum.appends
    ]
    assert names == [["TopicRecord", "PartitionRecord"]] * 2


def test_only_a_decision_that_may_be_split_is_several_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "RECORDS_PER_REQUEST_MAX", 3)
    for kind, sizes in ((Decision, [4]), (SplittableDecision, [3, 1])):
        bench = Bench().start()
        records = [*topic_records("a"), *topic_records("b")]
        bench.submit("both", lambda _, kind=kind, records=records: kind(records, "created"))
        assert [len(batch.values) for batch in bench.quorum.appends] == sizes
        bench.quorum.commit()
        assert (bench.results, bench.topics()) == ({"both": "created"}, ["a", "b"])


def test_producer_ids_are_never_allocated_twice() -> None:
    bench = Bench().start()
    bench.submit("broker", lambda image: Decision([broker_record(1)], None))
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=5)
    for name in "xyz":
        bench.submit(name, lambda image: decide_allocate(bench.controller.view(), request))
    bench.quorum.commit()
    assert [bench.results[name].producer_id_start for name in "xyz"] == [0, 1000, 2000]  # type: ignore[attr-defined]


def test_loss_of_leadership_fails_what_is_outstanding() -> None:
    bench = Bench().start()
    bench.create("committed")
    bench.quorum.commit()
    bench.create("lost")
    bench.submit("read", lambda image: Decision([], None))
    bench.quorum.resign()
    assert bench.results == {"committed": "created", "lost": NOT_CONTROLLER, "read": NOT_CONTROLLER}
    bench.create("later")
    assert bench.results["later"] == NOT_CONTROLLER
    assert bench.quorum.appends == []


def test_loss_of_leadership_before_the_first_records_are_applied_is_no_fault() -> None:
    bench = Bench()
    bench.quorum.start(bench.publisher, bench.runtime)
    bench.quorum.resign()
    assert bench.events == []
    bench.quorum.elect()
    bench.quorum.commit()
    assert bench.events == ["active"]


def test_leader_of_an_ended_epoch_that_cannot_append_its_first_records_is_no_fault() -> None:
    """The quorum has a new epoch already; its notification is still to come."""
    bench = Bench()
    bench.quorum.commits, bench.quorum.leadership = bench.publisher, bench.runtime
    bench.runtime.leading(bench.quorum.epoch)
    assert (bench.events, bench.quorum.appends) == ([], [])


def test_first_records_that_cannot_be_written_are_a_fault() -> None:
    bench = Bench(bootstrap=topic_records("orphan")[1:])
    bench.quorum.start(bench.publisher, bench.runtime)
    (fault,) = bench.events
    assert isinstance(fault, ApiError)
    assert fault.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_log_that_fails_before_the_first_records_are_applied_is_one_fault() -> None:
    bench = Bench()
    bench.quorum.start(bench.publisher, bench.runtime)
    error = OSError("disk")
    bench.quorum.fail(error)
    assert bench.events == [error]


def test_new_leadership_starts_from_the_committed_image() -> None:
    bench = Bench().start()
    bench.create("lost", "a")
    bench.quorum.resign()
    bench.quorum.epoch += 1
    bench.quorum.follow([encode_record(record, 30) for record in topic_records("b")])
    assert bench.topics() == ["b"]
    bench.quorum.elect()
    assert list(bench.controller.image.topics.by_name) == ["b"]
    bench.create("retried", "a")
    bench.create("known", "b")
    bench.quorum.commit()
    assert (bench.results["retried"], bench.results["known"]) == ("created", ErrorCode.TOPIC_ALREADY_EXISTS)
    assert bench.topics() == ["b", "a"]
    assert bench.events == ["active", "active"]


def test_append_that_the_quorum_refuses_changes_nothing() -> None:
    """The quorum has a new epoch already; its notification is still to come."""
    bench = Bench().start()
    bench.quorum.epoch += 1
    before = bench.controller.image
    bench.create("a")
    assert bench.results == {"a": NOT_CONTROLLER}
    assert bench.controller.image is before


def test_failed_log_refuses_everything() -> None:
    bench = Bench().start()
    bench.create("a")
    error = OSError("disk")
    bench.quorum.fail(error)
    bench.create("b")
    assert bench.results == {"a": STORAGE, "b": STORAGE}
    assert bench.events == ["active", error]


def test_records_that_cannot_be_replayed_are_not_appended() -> None:
    bench = Bench().start()
    orphan: list[Message] = topic_records("orphan")[1:]
    bench.submit("bad", lambda image: Decision(orphan, "response"))
    assert bench.results == {"bad": ErrorCode.UNKNOWN_SERVER_ERROR}
    assert bench.quorum.appends == []
    bench.create("good")
    bench.quorum.commit()
    assert bench.results["good"] == "created"
    assert bench.events == ["active"]


def test_open_transaction_of_an_earlier_controller_is_aborted() -> None:
    quorum = FakeQuorum()
    first = Bench(quorum).start()
    levels = [FeatureLevelRecord(name="group.version", feature_level=0)]
    quorum.follow([encode_record(record, 30) for record in (BeginTransactionRecord(name="half"), *levels)])
    assert first.publisher.image.features["group.version"] == 1
    quorum.resign()
    second = Bench(quorum).start()
    assert type(decode_record(quorum.log[-1].values[0])).__name__ == "AbortTransactionRecord"
    assert not second.publisher.transaction_open
    second.create("a")
    quorum.commit()
    assert second.topics() == ["a"]
    assert second.publisher.image.features["group.version"] == 1


@pytest.mark.parametrize("count", [1, 3])
def test_controller_image_equals_the_published_one(count: int) -> None:
    bench = Bench().start()
    for number in range(6):
        bench.create(f"t{number}")
        if number % count == 0:
            bench.quorum.commit()
    bench.quorum.commit()
    assert bench.publisher.image == bench.controller.image


def test_a_controller_that_has_resigned_decides_nothing() -> None:
    bench = Bench().start()
    assert bench.runtime.is_active
    bench.quorum.resign()
    assert not bench.runtime.is_active
    bench.submit("read", lambda image: Decision([], "response"))
    assert bench.results == {"read": NOT_CONTROLLER}
