"""States and rates of a cluster from what its brokers respond."""

from __future__ import annotations

import pytest

from ottla.base.ids import TopicPartition
from ottla.cli.local.cluster_view import PartitionState
from ottla.cli.local.cluster_watch import ClusterWatch, partitions_of
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TP = TopicPartition("scores", 0)


def response() -> MetadataResponse:
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=1, replica_nodes=[1, 0, 2], isr_nodes=[1, 0]
    )
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=0), MetadataResponseBroker(node_id=1)],
        topics=[MetadataResponseTopic(name="scores", partitions=[partition])],
    )


def test_partitions_come_from_the_metadata() -> None:
    assert partitions_of(response()) == {TP: PartitionState(1, (1, 0, 2), (0, 1))}


class Broker:
    port = 1

    def __init__(self, *, running: bool = True, paused: bool = False) -> None:
        self.running, self.paused = running, paused


class FakeCluster:
    racks = ("R1", "R2")

    def __init__(self) -> None:
        self.brokers = {0: Broker(), 1: Broker(), 2: Broker()}
        self.response: MetadataResponse | None = response()

    @property
    def running(self) -> list[int]:
        return [id_ for id_, each in self.brokers.items() if each.running and not each.paused]

    def address(self, node_id: int) -> str:
        return f"127.0.0.1:{9092 + node_id}"

    def metadata(self, topics: object) -> MetadataResponse | None:
        return self.response

    def controller(self) -> int | None:
        return 1


class FakeClock:
    now_s = 0.0

    def monotonic(self) -> float:
        self.now_s += 1.0
        return self.now_s


def test_states_of_brokers_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter([{TP: 10}, {TP: 30}, {}, {}])
    cluster = FakeCluster()
    monkeypatch.setattr(cluster, "ends", lambda *_: next(ends, {}), raising=False)
    watch = ClusterWatch(cluster, FakeClock())  # type: ignore[arg-type]
    first = watch.take()
    assert [each.state for each in first.brokers] == ["running", "running", "starting"]
    assert [each.rack for each in first.brokers] == ["R1", "R1", "R2"]
    assert first.controller == 1
    assert [each.records_per_s for each in watch.take().brokers] == [0.0, 20.0, 0.0]
    cluster.brokers[0] = Broker(running=False)
    cluster.brokers[1] = Broker(paused=True)
    watch.ended_as[0] = "killed"
    assert [each.state for each in watch.take().brokers] == ["killed", "paused", "starting"]
    cluster.brokers = {0: Broker(), 1: Broker(), 2: Broker(running=False)}
    cluster.response = None
    after = watch.take()
    assert [each.state for each in after.brokers] == ["starting", "fenced", "ended"]
    assert after.partitions == {}
