from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from ottla.base.clock import SystemClock
from ottla.base.errors import ErrorCode
from ottla.config.broker import BrokerConfig
from ottla.controller.controller import Controller
from ottla.controller.decision import SplittableDecision
from ottla.controller.driver import ControllerDriver
from ottla.controller.port import ControllerPort
from ottla.controller.settings.features import initial_records
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.record_codec import decode_record
from ottla.metadata.records import NoOpRecord, RegisterBrokerRecord
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.wire.schema import Message
from tests.support.fake_quorum import FakeQuorum
from tests.support.registration import register, registration

T = TypeVar("T")
NODE = registration(1, uuid.UUID(int=5), uuid.UUID(int=1006))


class Bench:
    """A driver on a fake quorum, started and with a broker. `quorum.auto = False` holds commits back."""

    def __init__(self, quorum: FakeQuorum | None = None, **settings: str) -> None:
        self.quorum = quorum or FakeQuorum(auto=True)
        self.faults: list[BaseException] = []
        self.seen: list[tuple[MetadataDelta, MetadataImage]] = []
        self.publisher = MetadataPublisher(self.quorum)
        values = {key.replace("_", "."): value for key, value in settings.items()}
        self.controller = Controller(BrokerConfig({"node.id": "1", **values}), 1, random.Random(1))
        self.driver = ControllerDriver(
            self.controller,
            self.quorum,
            self.publisher,
            bootstrap=initial_records(),
            on_fault=self.faults.append,
            clock=SystemClock(),
        )
        self.port: ControllerPort = self.driver
        self.epoch = -1

    @property
    def image(self) -> MetadataImage:
        return self.publisher.image

    async def ready(self) -> Bench:
        await self.driver.start()
        self.epoch = await register(self.port, NODE)
        self.publisher.add_listener(lambda delta, image: self.seen.append((delta, image)))
        return self

    def create(self, *names: str, **more: Any) -> Awaitable[CreateTopicsResponse]:
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
        return self.port.create_topics(CreateTopicsRequest(topics=topics, **more))


def run(scenario: Callable[[Bench], Awaitable[T]]) -> T:
    async def main() -> T:
        return await scenario(await Bench().ready())

    return asyncio.run(main())


def test_start_founds_the_cluster_and_registers_the_broker() -> None:
    async def scenario(bench: Bench) -> None:
        image = bench.image
        assert image.metadata_version == 30
        assert image.config(4, "") == {"min.insync.replicas": "1"}
        assert image.brokers[1].epoch == bench.epoch
        assert image.brokers[1].active
        assert bench.publisher.finalized_features()["kraft.version"] == 1
        assert bench.publisher.finalized_features()["group.version"] == 1

    run(scenario)


def test_broker_epoch_is_the_offset_of_its_record() -> None:
    async def scenario(bench: Bench) -> None:
        records = [record for batch in bench.quorum.log for record in map(decode_record, batch.values)]
        offset = 1 + next(i for i, r in enumerate(records) if type(r).__name__ == "RegisterBrokerRecord")
        assert bench.epoch == offset

    run(scenario)


def test_response_is_sent_after_commit_and_listeners() -> None:
    async def scenario(bench: Bench) -> None:
        bench.quorum.auto = False
        created = asyncio.ensure_future(bench.create("a"))
        await asyncio.sleep(0)
        assert not created.done()
        assert "a" not in bench.image.topics.by_name
        bench.quorum.commit()
        assert [delta.changed_topics for delta, _ in bench.seen] == [
            {bench.image.topics.by_name["a"].topic_id}
        ]
        assert bench.seen[0][1] is bench.image
        assert (await created).topics[0].error_code == 0

    run(scenario)


def test_requests_of_one_turn_are_committed_together() -> None:
    async def scenario(bench: Bench) -> None:
        before = len(bench.seen)
        responses = await asyncio.gather(*(bench.create(f"t{number}") for number in range(20)))
        assert {response.topics[0].error_code for response in responses} == {0}
        assert len(bench.seen) == before + 1
        assert len(bench.image.topics.by_name) == 20

    run(scenario)


def heartbeat(bench: Bench) -> Awaitable[BrokerHeartbeatResponse]:
    request = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=bench.epoch, current_metadata_offset=bench.image.offset
    )
    return bench.port.broker_heartbeat(request)


def test_with_other_voters_a_heartbeat_waits_for_a_commit() -> None:
    """A controller that no voter follows any more acknowledges no heartbeat."""

    async def scenario() -> None:
        quorum = FakeQuorum(auto=True)
        quorum.voters = (1, 2, 3)
        bench = await Bench(quorum).ready()
        assert not (await heartbeat(bench)).is_fenced
        (appended,) = quorum.log[-1].values
        assert isinstance(decode_record(appended), NoOpRecord)
        quorum.auto = False
        quorum.resign()
        quorum.elect()
        waiting = asyncio.ensure_future(heartbeat(bench))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        quorum.commit()
        assert (await waiting).error_code == 0

    asyncio.run(scenario())


def test_the_only_voter_confirms_a_heartbeat_without_a_record() -> None:
    async def scenario(bench: Bench) -> None:
        count = len(bench.quorum.log)
        await heartbeat(bench)
        assert len(bench.quorum.log) == count

    run(scenario)


def test_cancelled_request_is_committed_and_blocks_no_other() -> None:
    async def scenario(bench: Bench) -> None:
        bench.quorum.auto = False
        cancelled, other = (asyncio.ensure_future(bench.create(name)) for name in "ab")
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.sleep(0)
        bench.quorum.commit()
        assert (await other).topics[0].error_code == 0
        assert list(bench.image.topics.by_name) == ["a", "b"]

    run(scenario)


def test_no_time_means_no_change() -> None:
    async def scenario(bench: Bench) -> None:
        count = len(bench.quorum.log)
        for timeout_ms in (0, -1):
            response = await bench.create("a", "b", timeout_ms=timeout_ms)
            assert [(t.name, t.error_code) for t in response.topics] == [("a", 7), ("b", 7)]
        deleted = await bench.port.delete_topics(DeleteTopicsRequest(topic_names=["x"], timeout_ms=0), 5)
        assert [r.error_code for r in deleted.responses] == [7]
        request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="x")], timeout_ms=0)
        assert [r.error_code for r in (await bench.port.create_partitions(request)).results] == [7]
        assert len(bench.quorum.log) == count

    run(scenario)


def test_refusal_of_a_whole_request_has_its_shape() -> None:
    async def scenario(bench: Bench) -> None:
        big = CreatableTopic(name="big", num_partitions=20_000, replication_factor=1)
        small = CreatableTopic(name="small", num_partitions=1, replication_factor=1)
        response = await bench.port.create_topics(CreateTopicsRequest(topics=[big, small]))
        assert [(t.name, t.error_code) for t in response.topics] == [("big", 44), ("small", 44)]

    run(scenario)


def test_bug_in_a_decision_fails_that_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: Bench) -> None:
        def broken(*_: object) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            patched.setattr(bench.controller.topics, "decide_create", broken)
            assert (await bench.create("a")).topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await bench.create("a")).topics[0].error_code == 0
        assert bench.faults == []

    run(scenario)


def test_failed_log_ends_the_controller_not_the_process() -> None:
    async def scenario(bench: Bench) -> None:
        bench.quorum.auto = False
        created = asyncio.ensure_future(bench.create("a"))
        await asyncio.sleep(0)
        bench.quorum.fail(OSError("disk"))
        assert (await created).topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await bench.create("b")).topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=bench.epoch)
        refused = await bench.port.allocate_producer_ids(request)
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(bench.faults) == 1
        assert bench.image.topics.by_name == {}

    run(scenario)


def test_start_fails_when_the_log_fails() -> None:
    class Failing(FakeQuorum):
        def elect(self) -> None:
            self.leadership.failed(OSError("disk"))

    async def main() -> None:
        bench = Bench(Failing())
        with pytest.raises(OSError, match="disk"):
            await bench.driver.start()
        assert bench.faults == []

    asyncio.run(main())


def test_restart_finds_what_was_committed() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.create("a", "b")
        bench.quorum.resign()
        count = len(bench.quorum.log)
        again = Bench(bench.quorum)
        await again.driver.start()
        assert len(bench.quorum.log) == count + 1, "only the leader change"
        assert again.image.topics == bench.image.topics
        assert again.image.configs == bench.image.configs

    run(scenario)


def test_the_other_requests() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.create("a")
        entry = AlterableConfig(name="retention.ms", value="5")
        request = IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=2, resource_name="a", configs=[entry])]
        )
        assert (await bench.port.incremental_alter_configs(request)).responses[0].error_code == 0
        assert bench.image.config(2, "a") == {"retention.ms": "5"}
        assert (await bench.port.alter_configs(AlterConfigsRequest())).responses == []
        partitions = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="a", count=3, assignments=None)], timeout_ms=1000
        )
        assert (await bench.port.create_partitions(partitions)).results[0].error_code == 0
        assert len(bench.image.topics.by_name["a"].partitions) == 3
        down = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
        updated = await bench.port.update_features(UpdateFeaturesRequest(feature_updates=[down]), 2)
        assert updated.error_code == 0
        assert "group.version" not in bench.image.features
        ids = AllocateProducerIdsRequest(broker_id=1, broker_epoch=bench.epoch)
        assert (await bench.port.allocate_producer_ids(ids)).producer_id_start == 0
        deletion = DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000)
        assert (await bench.port.delete_topics(deletion, 5)).responses[0].error_code == 0
        assert bench.image.topics.by_name == {}

    run(scenario)


def test_broker_registers_and_is_unfenced_by_wire_messages() -> None:
    async def scenario(bench: Bench) -> None:
        registered = await bench.port.register_broker(registration(2, uuid.UUID(int=7), uuid.UUID(int=1008)))
        assert registered.error_code == 0
        assert bench.image.brokers[2].epoch == registered.broker_epoch == bench.driver.applied_offset
        heartbeat = BrokerHeartbeatRequest(
            broker_id=2, broker_epoch=registered.broker_epoch, current_metadata_offset=bench.image.offset
        )
        response = await bench.port.broker_heartbeat(heartbeat)
        assert (response.is_caught_up, response.is_fenced) == (True, False)
        assert bench.image.brokers[2].active

    run(scenario)


def test_broker_requests_to_another_node_get_not_controller() -> None:
    async def scenario(bench: Bench) -> None:
        assert bench.driver.is_active
        bench.quorum.resign()
        assert not bench.driver.is_active
        heartbeat = await bench.port.broker_heartbeat(
            BrokerHeartbeatRequest(broker_id=1, broker_epoch=bench.epoch)
        )
        registration = await bench.port.register_broker(BrokerRegistrationRequest(broker_id=1))
        assert heartbeat.error_code == registration.error_code == ErrorCode.NOT_CONTROLLER

    run(scenario)


class Watch:
    def __init__(self) -> None:
        self.watched: list[int] = []

    def watch(self, broker_id: int, host: str, port: int, protocol: int) -> None:
        self.watched.append(broker_id)

    def unwatch(self, broker_id: int) -> None:
        self.watched.remove(broker_id)


def test_lost_broker_is_fenced_and_leaves_the_isr() -> None:
    async def scenario(bench: Bench) -> None:
        watch = Watch()
        bench.driver.watch_brokers(watch)
        await register(bench.port, registration(2, uuid.UUID(int=7), uuid.UUID(int=1008)))
        assert watch.watched == [2]
        topic = CreatableTopic(name="t", num_partitions=2, replication_factor=2)
        await bench.port.create_topics(CreateTopicsRequest(topics=[topic]))
        fenced = asyncio.Event()
        bench.publisher.add_listener(lambda _, image: fenced.set() if image.brokers[2].fenced else None)
        bench.driver.broker_lost(2)
        await fenced.wait()
        assert [each.isr for each in bench.image.topics.by_name["t"].partitions.values()] == [(1,), (1,)]
        bench.quorum.resign()
        assert watch.watched == []

    run(scenario)


@pytest.mark.parametrize(
    ("voters", "silence_ms", "seconds"),
    [
        ((1, 2, 3), 0.0, 16.0),
        ((1, 2, 3), 1000.0, 15.5),
        ((1, 2, 3), 60_000.0, 14.5),  # heartbeats may have been acknowledged until the fetch timeout began
        ((1,), 60_000.0, 16.0),
    ],
)
def test_the_silence_of_the_former_leader_counts_for_the_first_sessions(
    voters: tuple[int, ...], silence_ms: float, seconds: float
) -> None:
    async def main() -> None:
        settings = {"broker_session_timeout_ms": "20000", "metadata_max_idle_interval_ms": "500"}
        bench = await Bench(**settings, controller_quorum_fetch_timeout_ms="2000").ready()
        bench.quorum.voters, bench.quorum.silence_ms = voters, silence_ms
        bench.quorum.resign()
        loop = asyncio.get_running_loop()
        before = loop.time()
        bench.quorum.elect()
        deadline = bench.controller.sessions.next_deadline(bench.image)
        assert deadline is not None
        assert before + seconds <= deadline + 1e-6
        assert deadline <= loop.time() + seconds + 1e-6

    asyncio.run(main())


def test_offsets_of_decisions_follow_those_that_are_not_committed() -> None:
    async def scenario(bench: Bench) -> None:
        bench.quorum.auto = False
        before = bench.driver.applied_offset
        tasks = [asyncio.ensure_future(each) for each in (bench.create("a"), bench.create("b"))]
        broker = registration(2, uuid.UUID(int=7), uuid.UUID(int=1008))
        registering = asyncio.ensure_future(bench.port.register_broker(broker))
        stop = BrokerHeartbeatRequest(broker_id=1, broker_epoch=bench.epoch, want_shut_down=True)
        stopping = asyncio.ensure_future(bench.port.broker_heartbeat(stop))
        await asyncio.sleep(0)
        assert bench.driver.applied_offset == before, "nothing is committed"
        session = bench.controller.sessions.heartbeat(1, bench.epoch, 0.0)
        assert session.shutdown_offset == bench.controller.image.offset == bench.quorum.log_end_offset - 1
        bench.quorum.commit()
        await asyncio.gather(*tasks, stopping)
        records = [record for batch in bench.quorum.log for record in map(decode_record, batch.values)]
        (epoch,) = [
            each.broker_epoch
            for each in records
            if isinstance(each, RegisterBrokerRecord) and each.broker_id == 2
        ]
        assert (await registering).broker_epoch == epoch == bench.image.brokers[2].epoch
        offsets = [
            batch.last_offset - len(batch.values) + 1 + at
            for batch in bench.quorum.log
            for at, value in enumerate(batch.values)
            if getattr(decode_record(value), "broker_epoch", -1) == epoch
        ]
        assert offsets == [epoch]

    run(scenario)


def test_new_topics_are_led_by_the_brokers_that_lead_the_fewest_partitions() -> None:
    async def scenario(bench: Bench) -> None:
        await register(bench.port, registration(2, uuid.UUID(int=7), uuid.UUID(int=1008)))
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=[leader])
            for index, leader in enumerate((1, 1, 2))
        ]
        topic = CreatableTopic(
            name="manual", num_partitions=-1, replication_factor=-1, assignments=assignments
        )
        await bench.port.create_topics(CreateTopicsRequest(topics=[topic]))
        await bench.create("placed")
        assert bench.image.topics.by_name["placed"].partitions[0].leader == 2

    run(scenario)


def test_large_decisions_that_may_be_split_are_several_batches() -> None:
    async def scenario(bench: Bench) -> None:
        before = len(bench.quorum.log)
        records: list[Message] = [NoOpRecord() for _ in range(25_000)]
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        bench.driver._runtime.submit(
            lambda _: SplittableDecision(records, None), done.set_result, lambda code, _: None
        )
        await done
        assert [len(batch.values) for batch in bench.quorum.log[before:]] == [10_000, 10_000, 5_000]

    run(scenario)
