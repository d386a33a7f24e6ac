from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.config.broker import BrokerConfig
from ottla.controller.controller import Controller
from ottla.controller.driver import ControllerDriver
from ottla.controller.port import NodeRegistration
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import Endpoint, MetadataImage
from ottla.metadata.record_codec import decode_record
from ottla.quorum.quorum import AppendDone, Appended, CommittedBatch, QuorumStatus
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

T = TypeVar("T")
NODE = NodeRegistration(1, uuid.UUID(int=5), (Endpoint("PLAINTEXT", "h", 1),), (uuid.UUID(int=6),))


class Clock:
    seconds = 0.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


class FakeQuorum:
    """Commits at once, or when the test says so."""

    kraft_version = 1

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.log_end_offset = 0
        self.held: list[Callable[[], None]] | None = None
        self.failure: BaseException | None = None
        self.snapshot_due = False
        self.snapshots: list[tuple[int, int, list[bytes]]] = []

    def lead(self, done: AppendDone) -> None:
        self.log_end_offset += 1
        done(Appended(self.log_end_offset - 1, 1))

    def load(self) -> Iterator[CommittedBatch]:
        offset = 0
        for values in self.batches:
            offset += len(values)
            yield CommittedBatch(offset, 1, 0, values)

    def append(self, values: Sequence[bytes], done: AppendDone) -> None:
        def commit() -> None:
            if self.failure is not None:
                done(self.failure)
                return
            self.batches.append(list(values))
            self.log_end_offset += len(values)
            done(Appended(self.log_end_offset - 1, 1))

        if self.held is None:
            commit()
        else:
            self.held.append(commit)

    def write_snapshot(self, last_offset: int, epoch: int, values: Iterable[bytes]) -> None:
        self.snapshot_due = False
        self.snapshots.append((last_offset, epoch, list(values)))

    def describe(self) -> QuorumStatus:
        return QuorumStatus(1, 1, self.log_end_offset, ())


class Bench:
    """A driver on a fake quorum, started and with a broker."""

    def __init__(self) -> None:
        self.quorum = FakeQuorum()
        self.clock = Clock()
        self.faults: list[BaseException] = []
        self.seen: list[tuple[MetadataDelta, MetadataImage]] = []
        self.controller = Controller(BrokerConfig({"node.id": "1"}), 1, random.Random(1))
        self.driver = ControllerDriver(self.controller, self.quorum, self.clock, self.faults.append)
        self.epoch = -1

    async def ready(self) -> Bench:
        await self.driver.start()
        self.epoch = await self.driver.register_broker(NODE)
        await self.driver.unfence_broker(1, self.epoch)
        self.driver.add_listener(lambda delta, image: self.seen.append((delta, image)))
        return self

    def create(self, *names: str, **more: Any) -> Awaitable[CreateTopicsResponse]:
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
        return self.driver.create_topics(CreateTopicsRequest(topics=topics, **more))


def run(scenario: Callable[[Bench], Awaitable[T]]) -> T:
    async def main() -> T:
        return await scenario(await Bench().ready())

    return asyncio.run(main())


def test_start_founds_the_cluster_and_registers_the_broker() -> None:
    async def scenario(bench: Bench) -> None:
        image = bench.driver.image
        assert image.metadata_version == 30
        assert image.config(4, "") == {"min.insync.replicas": "1"}
        assert image.brokers[1].epoch == bench.epoch
        assert image.brokers[1].active
        assert bench.driver.finalized_features()["kraft.version"] == 1
        assert bench.driver.finalized_features()["group.version"] == 1

    run(scenario)


def test_broker_epoch_is_the_offset_of_its_record() -> None:
    async def scenario(bench: Bench) -> None:
        records = [record for values in bench.quorum.batches for record in map(decode_record, values)]
        offset = 1 + next(i for i, r in enumerate(records) if type(r).__name__ == "RegisterBrokerRecord")
        assert bench.epoch == offset

    run(scenario)


def test_answer_comes_after_commit_and_listeners() -> None:
    async def scenario(bench: Bench) -> None:
        bench.quorum.held = []
        asked = asyncio.ensure_future(bench.create("a"))
        await asyncio.sleep(0)
        assert not asked.done()
        assert "a" not in bench.driver.image.topics.by_name
        bench.quorum.held[0]()
        assert [delta.changed_topics for delta, _ in bench.seen] == [
            {bench.driver.image.topics.by_name["a"].topic_id}
        ]
        assert bench.seen[0][1] is bench.driver.image
        assert (await asked).topics[0].error_code == 0

    run(scenario)


def test_second_decision_sees_the_first() -> None:
    async def scenario(bench: Bench) -> None:
        bench.quorum.held = []
        first, second = (asyncio.ensure_future(bench.create("a")) for _ in range(2))
        await asyncio.sleep(0)
        assert len(bench.quorum.held) == 1
        bench.quorum.held[0]()
        assert (await first).topics[0].error_code == 0
        assert (await second).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS

    run(scenario)


def test_client_that_goes_away_does_not_undo_or_block() -> None:
    async def scenario(bench: Bench) -> None:
        bench.quorum.held = []
        gone, waiting, last = (asyncio.ensure_future(bench.create(name)) for name in "abc")
        await asyncio.sleep(0)
        gone.cancel()
        waiting.cancel()
        await asyncio.sleep(0)
        bench.quorum.held[0]()
        assert list(bench.driver.image.topics.by_name) == ["a"]
        bench.quorum.held[1]()
        assert (await last).topics[0].error_code == 0
        assert list(bench.driver.image.topics.by_name) == ["a", "c"]

    run(scenario)


def test_no_time_means_no_change() -> None:
    async def scenario(bench: Bench) -> None:
        count = len(bench.quorum.batches)
        for timeout_ms in (0, -1):
            response = await bench.create("a", "b", timeout_ms=timeout_ms)
            assert [(t.name, t.error_code) for t in response.topics] == [("a", 7), ("b", 7)]
        deleted = await bench.driver.delete_topics(DeleteTopicsRequest(topic_names=["x"], timeout_ms=0), 5)
        assert [r.error_code for r in deleted.responses] == [7]
        request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="x")], timeout_ms=0)
        assert [r.error_code for r in (await bench.driver.create_partitions(request)).results] == [7]
        assert len(bench.quorum.batches) == count

    run(scenario)


def test_request_that_waited_too_long_is_not_carried_out() -> None:
    async def scenario(bench: Bench) -> None:
        bench.quorum.held = []
        first = asyncio.ensure_future(bench.create("a", timeout_ms=1000))
        late = asyncio.ensure_future(bench.create("b", timeout_ms=1000))
        await asyncio.sleep(0)
        bench.clock.seconds += 2
        bench.quorum.held[0]()
        assert (await first).topics[0].error_code == 0
        assert (await late).topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        assert "b" not in bench.driver.image.topics.by_name

    run(scenario)


def test_refusal_of_a_whole_request_has_its_shape() -> None:
    async def scenario(bench: Bench) -> None:
        big = CreatableTopic(name="big", num_partitions=20_000, replication_factor=1)
        small = CreatableTopic(name="small", num_partitions=1, replication_factor=1)
        response = await bench.driver.create_topics(CreateTopicsRequest(topics=[big, small]))
        assert [(t.name, t.error_code) for t in response.topics] == [("big", 44), ("small", 44)]

    run(scenario)


def test_bug_in_a_decision_is_answered_and_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: Bench) -> None:
        def broken(*_: object) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            patched.setattr(bench.controller.topics, "decide_create", broken)
            assert (await bench.create("a")).topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await bench.create("a")).topics[0].error_code == 0
        assert bench.faults == []

    run(scenario)


def test_failed_append_ends_the_controller_not_the_process() -> None:
    async def scenario(bench: Bench) -> None:
        bench.quorum.failure = OSError("disk")
        assert (await bench.create("a")).topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        bench.quorum.failure = None
        assert (await bench.create("b")).topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(ApiError) as refused:
            await bench.driver.allocate_producer_ids(1, bench.epoch)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert len(bench.faults) == 1
        assert bench.driver.image.topics.by_name == {}

    run(scenario)


def test_failed_replay_ends_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: Bench) -> None:
        def broken(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(bench.controller, "replay", broken)
        assert (await bench.create("a")).topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await bench.create("b")).topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert [type(fault) for fault in bench.faults] == [ZeroDivisionError]

    run(scenario)


def test_failing_listener_hides_nothing_from_the_others() -> None:
    async def scenario(bench: Bench) -> None:
        def broken(delta: MetadataDelta, image: MetadataImage) -> None:
            raise ZeroDivisionError

        after: list[MetadataImage] = []
        bench.driver.add_listener(broken)
        bench.driver.add_listener(lambda delta, image: after.append(image))
        assert (await bench.create("a")).topics[0].error_code == 0
        assert after == [bench.driver.image]

    run(scenario)


def test_snapshot_is_written_when_due() -> None:
    async def scenario(bench: Bench) -> None:
        bench.quorum.snapshot_due = True
        await bench.create("a")
        await bench.create("b")
        ((last_offset, epoch, values),) = bench.quorum.snapshots
        names = [r.name for r in map(decode_record, values) if type(r).__name__ == "TopicRecord"]  # type: ignore[attr-defined]
        assert names == ["a"]
        assert (last_offset, epoch) == (bench.quorum.log_end_offset - 3, 1)

    run(scenario)


def test_restart_finds_what_was_committed() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.create("a", "b")
        again = ControllerDriver(
            Controller(BrokerConfig({"node.id": "1"}), 1, random.Random(2)),
            bench.quorum,
            bench.clock,
            bench.faults.append,
        )
        count = len(bench.quorum.batches)
        await again.start()
        assert len(bench.quorum.batches) == count
        assert again.image.topics == bench.driver.image.topics
        assert again.image.configs == bench.driver.image.configs

    run(scenario)


def test_the_other_requests() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.create("a")
        entry = AlterableConfig(name="retention.ms", value="5")
        request = IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=2, resource_name="a", configs=[entry])]
        )
        assert (await bench.driver.incremental_alter_configs(request)).responses[0].error_code == 0
        assert bench.driver.image.config(2, "a") == {"retention.ms": "5"}
        assert (await bench.driver.alter_configs(AlterConfigsRequest())).responses == []
        partitions = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="a", count=3, assignments=None)], timeout_ms=1000
        )
        assert (await bench.driver.create_partitions(partitions)).results[0].error_code == 0
        assert len(bench.driver.image.topics.by_name["a"].partitions) == 3
        down = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
        updated = await bench.driver.update_features(UpdateFeaturesRequest(feature_updates=[down]), 2)
        assert updated.error_code == 0
        assert "group.version" not in bench.driver.image.features
        assert (await bench.driver.allocate_producer_ids(1, bench.epoch)).first == 0
        deletion = DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000)
        assert (await bench.driver.delete_topics(deletion, 5)).responses[0].error_code == 0
        assert bench.driver.image.topics.by_name == {}

    run(scenario)
