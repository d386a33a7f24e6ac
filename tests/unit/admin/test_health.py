"""Problems of a cluster, from what was observed."""

from __future__ import annotations

from dataclasses import replace

from ottla.admin.cluster import LogDir, NodeInfo, QuorumInfo, QuorumReplica
from ottla.admin.health import CRITICAL, NOTE, WARNING, Observed, PartitionHealth, problems_of
from ottla.base.ids import TopicPartition

NOW = 1_000_000


def node(node_id: int, *, fenced: bool = False) -> NodeInfo:
    return NodeInfo(node_id, "h", 9092 + node_id, None, fenced, node_id == 0, True, 1, 1, 1)


def voter(node_id: int, fetched_ms: int = NOW) -> QuorumReplica:
    return QuorumReplica(node_id, "d", True, node_id == 0, 10, 0, fetched_ms, fetched_ms)


HEALTHY = Observed(
    [node(0), node(1), node(2)],
    QuorumInfo(0, 1, 10, (voter(0), voter(1), voter(2))),
    [PartitionHealth(TopicPartition("t", 0), 0, (0, 1, 2), (0, 1, 2))],
    {},
    [LogDir(0, "/data", None, 1, 100, 1000, 500, False)],
    {},
    NOW,
)


def kinds(observed: Observed) -> list[tuple[str, str]]:
    return [(each.severity, each.kind) for each in problems_of(observed)]


def with_partition(leader: int, isr: tuple[int, ...], minimum: int = 2) -> Observed:
    partition = PartitionHealth(TopicPartition("t", 0), leader, (0, 1, 2), isr)
    return replace(HEALTHY, partitions=[partition], min_isr={"t": minimum})


def test_a_healthy_cluster_has_no_problems() -> None:
    assert kinds(HEALTHY) == []


def test_partitions() -> None:
    assert kinds(with_partition(-1, (0,))) == [(CRITICAL, "no leader")]
    assert kinds(with_partition(0, (0, 1))) == [(WARNING, "under-replicated")]
    assert kinds(with_partition(0, (0,))) == [
        (CRITICAL, "under min.insync.replicas"),
        (WARNING, "under-replicated"),
    ]
    assert kinds(with_partition(1, (0, 1, 2))) == [(NOTE, "leader not preferred")]


def test_min_insync_replicas_above_the_replicas_are_capped() -> None:
    alone = PartitionHealth(TopicPartition("t", 0), 0, (0,), (0,))
    assert kinds(replace(HEALTHY, partitions=[alone], min_isr={"t": 2})) == []


def test_brokers() -> None:
    assert kinds(replace(HEALTHY, nodes=[node(0), node(1, fenced=True)])) == [(WARNING, "fenced broker")]
    assert kinds(replace(HEALTHY, unreachable={1: "refused"})) == [(CRITICAL, "unreachable broker")]


def test_the_quorum() -> None:
    assert kinds(replace(HEALTHY, quorum=None)) == [(CRITICAL, "no controller")]
    assert kinds(replace(HEALTHY, quorum=QuorumInfo(None, 1, 0, ()))) == [(CRITICAL, "no controller")]
    silent = QuorumInfo(0, 1, 10, (voter(0, 0), voter(1, 0), voter(2)))
    assert kinds(replace(HEALTHY, quorum=silent)) == [(CRITICAL, "silent voter")]
    five = QuorumInfo(0, 1, 10, (voter(0), voter(1, 0), voter(2), voter(3), voter(4)))
    assert kinds(replace(HEALTHY, quorum=five)) == [(WARNING, "silent voter")]


def test_disks() -> None:
    offline = LogDir(0, "/data", "KAFKA_STORAGE_ERROR", 0, 0, None, None, False)
    full = LogDir(0, "/data", None, 1, 100, 1000, 99, False)
    assert kinds(replace(HEALTHY, dirs=[full, offline])) == [
        (CRITICAL, "offline log directory"),
        (WARNING, "disk nearly full"),
    ]


def test_long_lists_are_shortened() -> None:
    many = [PartitionHealth(TopicPartition("t", each), -1, (0,), ()) for each in range(9)]
    (problem,) = problems_of(replace(HEALTHY, partitions=many))
    assert problem.text.endswith("t-0, t-1, t-2, t-3, t-4 and 4 more")
