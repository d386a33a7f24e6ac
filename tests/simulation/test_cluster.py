"""Clusters of several nodes in one run: their topology, and the checkers that compare replicas."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from uuid import UUID

import pytest

from ottla.base.ids import TopicPartition
from ottla.base.rng import Random
from ottla.controller.settings.features import INITIAL_LEVELS as LEVELS
from ottla.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage, TopicsImage
from ottla.records.batch import read_header
from ottla.records.builder import NewRecord, build_batch
from ottla.testing.sim.checkers.durability import DurabilityChecker, _contains
from ottla.testing.sim.checkers.logs import Batch, CommittedLog, LogChecker
from ottla.testing.sim.checkers.metadata import MetadataChecker
from ottla.testing.sim.kernel.events import Kernel
from ottla.testing.sim.topology import COMBINED, NodeSpec, choose_nodes, properties


def batch_bytes(base_offset: int, value: bytes) -> tuple[bytes, Batch]:
    data = bytes(build_batch([NewRecord(None, value)], base_offset=base_offset))
    header = read_header(data)
    return data, Batch(base_offset, base_offset + 1, header.partition_leader_epoch, header.crc)


# Topology


def test_a_seed_determines_the_nodes() -> None:
    assert choose_nodes(Random("a")) == choose_nodes(Random("a"))
    assert len({choose_nodes(Random(str(seed))) for seed in range(40)}) > 5


@pytest.mark.parametrize("brokers", [1, 3, 5])
def test_the_number_of_brokers_can_be_given(brokers: int) -> None:
    for seed in range(20):
        specs = choose_nodes(Random(str(seed)), brokers)
        assert sum(spec.is_broker for spec in specs) == brokers
        assert sum(spec.is_voter for spec in specs) in (1, 3, 5)
        assert len({spec.node_id for spec in specs}) == len(specs)


def test_all_nodes_have_the_same_voters() -> None:
    specs = (NodeSpec(1, ("broker",)), NodeSpec(100, ("controller",)), NodeSpec(2, COMBINED, "R1"))
    hosts = {1: "a", 100: "b", 2: "c"}
    found = [properties(spec, specs, hosts) for spec in specs]
    assert {each["controller.quorum.voters"] for each in found} == {"100@b:9093,2@c:9093"}
    assert found[0]["listeners"] == "PLAINTEXT://a:9092"
    assert found[1]["listeners"] == "CONTROLLER://b:9093"
    assert found[2]["broker.rack"] == "R1"


# Durability


def test_a_batch_is_found_in_the_bytes_of_a_segment() -> None:
    first, zero = batch_bytes(0, bytes(40))
    second, one = batch_bytes(1, b"one")
    other = batch_bytes(1, b"another")[1]
    assert _contains(first + second, zero)
    assert _contains(first + second, one)
    assert not _contains(first + second, other)
    assert not _contains(first, one)
    assert not _contains((first + second)[:-1], one)


# Metadata


class Quorum(NamedTuple):
    epoch: int
    leader_id: int


def image(offset: int, *brokers: BrokerImage, partition: PartitionImage | None = None) -> MetadataImage:
    topics = TopicsImage()
    if partition is not None:
        topic = TopicImage("t", UUID(int=5), {0: partition})
        topics = TopicsImage({"t": topic}, {topic.topic_id: topic})
    return MetadataImage(
        offset=offset, features=LEVELS, brokers={each.broker_id: each for each in brokers}, topics=topics
    )


def partition(**changes: Any) -> PartitionImage:
    values: dict[str, Any] = {
        "replicas": (1, 2, 3),
        "directories": (UUID(int=7),) * 3,
        "isr": (1, 2),
        "leader": 1,
        "leader_epoch": 4,
        "partition_epoch": 9,
    }
    return PartitionImage(**(values | changes))


@pytest.fixture
def kernel() -> Kernel:
    return Kernel(0)


@pytest.fixture
def metadata(kernel: Kernel) -> MetadataChecker:
    checker = MetadataChecker(kernel)
    checker.check_image(1, image(10, BrokerImage(1, 8, UUID(int=1), fenced=False), partition=partition()))
    checker.check_quorum(1, Quorum(3, 1))
    assert kernel.violation is None
    return checker


def rule(kernel: Kernel) -> str:
    return "" if kernel.violation is None else kernel.violation.rule[:2]


@pytest.mark.parametrize(
    ("changes", "violated"),
    [
        ({"isr": (1, 3), "partition_epoch": 10}, ""),
        ({"leader": 2, "leader_epoch": 5, "partition_epoch": 10}, ""),
        ({"leader": -1, "leader_epoch": 5, "isr": (), "eligible_leader_replicas": (1,)}, ""),
        ({"isr": (1, 4)}, "R4"),
        ({"isr": (1, 2), "eligible_leader_replicas": (2,)}, "R4"),
        ({"leader": 3, "leader_epoch": 5}, "R4"),
        ({"leader": 2}, "R6"),
        ({"leader_epoch": 3}, "R6"),
        ({"partition_epoch": 8}, "R6"),
    ],
)
def test_changes_of_partitions_are_checked(
    kernel: Kernel, metadata: MetadataChecker, changes: dict[str, Any], violated: str
) -> None:
    metadata.check_image(
        2, image(11, BrokerImage(1, 8, UUID(int=1), fenced=False), partition=partition(**changes))
    )
    assert rule(kernel) == violated


def test_different_images_of_one_offset_are_reported(kernel: Kernel, metadata: MetadataChecker) -> None:
    metadata.check_image(2, image(10, BrokerImage(1, 7, UUID(int=1), fenced=False), partition=partition()))
    assert rule(kernel) == "K6"


def test_an_image_that_goes_back_is_reported(kernel: Kernel, metadata: MetadataChecker) -> None:
    metadata.check_image(1, image(9))
    assert rule(kernel) == "K7"


def test_a_node_that_starts_again_may_have_an_older_image(kernel: Kernel, metadata: MetadataChecker) -> None:
    metadata.started(1)
    metadata.check_image(1, image(9))
    assert rule(kernel) == ""


def test_a_fenced_broker_in_an_isr_is_reported(kernel: Kernel, metadata: MetadataChecker) -> None:
    brokers = BrokerImage(1, 8, UUID(int=1), fenced=False), BrokerImage(2, 9, UUID(int=2), fenced=True)
    metadata.check_image(1, image(11, *brokers, partition=partition(isr=(1, 3))))
    assert rule(kernel) == ""
    metadata.check_image(1, image(12, *brokers, partition=partition()))
    assert rule(kernel) == "R7"


def test_an_in_sync_replica_that_lacks_committed_records_is_reported(kernel: Kernel) -> None:
    checker = LogChecker(kernel, lambda _: None)  # type: ignore[arg-type, return-value]
    replica: Any = SimpleNamespace(log=SimpleNamespace(log_end_offset=3))
    tp = TopicPartition("t", 0)
    checker._committed[tp] = committed = CommittedLog()
    committed.high_watermark = 4
    checker._check_in_sync(2, tp, replica)
    assert rule(kernel) == ""
    checker.is_in_sync = lambda node_id, _: node_id == 2
    checker._check_in_sync(2, tp, replica)
    assert rule(kernel) == "R5"


def test_a_replica_that_joins_the_isr_without_the_committed_records_is_reported(kernel: Kernel) -> None:
    checker = LogChecker(kernel, lambda _: None)  # type: ignore[arg-type, return-value]
    tp = TopicPartition("t", 0)
    log = SimpleNamespace(topic_partition=tp, committable_offset=4)
    replica: Any = SimpleNamespace(log=log)
    checker._committed[tp] = committed = CommittedLog()
    committed.high_watermark = 4
    checker.joined(2, replica)
    assert rule(kernel) == ""
    log.committable_offset = 3
    checker.joined(2, replica)
    assert rule(kernel) == "R5"


def test_replicas_that_join_an_isr_are_reported(metadata: MetadataChecker) -> None:
    joined: list[tuple[int, UUID, int]] = []
    metadata.on_joined = lambda *one: joined.append(one)
    metadata.check_image(1, image(11, partition=partition(isr=(1, 2))))
    joined.clear()
    metadata.check_image(1, image(12, partition=partition(isr=(1, 2, 3))))
    assert [(node_id, index) for node_id, _, index in joined] == [(3, 0)]


def test_a_leader_that_ignores_the_committed_isr_is_reported(kernel: Kernel) -> None:
    checker = DurabilityChecker(kernel)
    checker.committed_isr = {(UUID(int=5), 0, 4): (1, 2, 3)}
    log = SimpleNamespace(config=SimpleNamespace(min_insync_replicas=2))
    replica: Any = SimpleNamespace(
        topic_id=UUID(int=5), index=0, leader_epoch=4, isr=(1, 2), replicas=(1, 2, 3), log=log
    )
    checker._check_leader(1, replica, cast(Any, SimpleNamespace(maximal_isr=frozenset({1, 2}))))
    assert rule(kernel) == "R4"


def test_a_decreasing_broker_epoch_is_reported(kernel: Kernel, metadata: MetadataChecker) -> None:
    metadata.check_image(1, image(11, BrokerImage(1, 7, UUID(int=1), fenced=False), partition=partition()))
    assert rule(kernel) == "K7"


@pytest.mark.parametrize(
    ("node_id", "view", "violated"),
    [(2, (3, 1), ""), (2, (3, -1), ""), (2, (3, 2), "K1"), (1, (2, 1), "K2"), (1, (4, 2), "")],
)
def test_the_leaders_of_the_quorum_are_checked(
    kernel: Kernel, metadata: MetadataChecker, node_id: int, view: tuple[int, int], violated: str
) -> None:
    metadata.check_quorum(node_id, Quorum(*view))
    assert rule(kernel) == violated
