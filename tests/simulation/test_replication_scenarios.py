"""Three interleavings of replication that random seeds rarely reach, with the real partitions and controller."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.metadata.image import PartitionImage
from ottla.replication.cluster_view import ClusterView
from ottla.replication.isr_requests import IsrRequests
from ottla.replication.partition import Partition
from ottla.storage.log.log_config import LogConfig
from ottla.testing.cores.partition_controller import TOPIC_ID, PartitionController
from ottla.testing.cores.replica_log import Batch, Image, ReplicaLog
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest


class Clock:
    now = 0.0

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now


class Cluster:
    """Brokers 1, 2 and 3, unfenced, with one partition that broker 1 leads."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.controller = PartitionController(
            (1, 2, 3), {"min.insync.replicas": "2"}, lambda: None, synced=True
        )
        self.epochs: dict[int, int] = {}
        self._incarnations = 0
        for broker_id in (1, 2, 3):
            self.start(broker_id)
        self.proposals: list[AlterPartitionRequest] = []

    def start(self, broker_id: int) -> None:
        """Register a new incarnation of a broker and unfence it."""
        self.clock.now += 20
        self._incarnations += 1
        epoch = self.controller.register(broker_id, self._incarnations, -1, self.clock.now)
        assert epoch >= 0
        self.epochs[broker_id] = epoch
        request = BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=self.controller.image.offset
        )
        response = self.controller.heartbeat(request, self.clock.now)
        assert response is not None
        assert not response.is_fenced

    @property
    def image(self) -> PartitionImage:
        found = self.controller.partition
        assert found is not None
        return found

    def replica(self, node_id: int, epochs: list[int], high_watermark: int) -> Partition:
        """A replica with a record in each of these epochs, in the role of the current image."""
        batches = tuple(Batch(offset, epoch, 100 + offset) for offset, epoch in enumerate(epochs))
        log = ReplicaLog(
            Image(batches, high_watermark),
            LogConfig(min_insync_replicas=2),
            copies_early=False,
            synced=True,
        )
        view = ClusterView(self.clock, 10.0)
        view.brokers = self.controller.image.brokers
        view.isr_requests = IsrRequests(
            node_id, lambda: self.epochs[node_id], self._send, lambda delay, call: None
        )
        partition = Partition(cast(Any, log), TOPIC_ID, node_id, lambda _: None, lambda fault: None, view)
        partition.become(self.image)
        return partition

    def _send(self, request: AlterPartitionRequest) -> Promise[AlterPartitionResponse]:
        self.proposals.append(request)
        return Promise()

    def alter(self, isr: dict[int, int]) -> AlterPartitionRequest:
        """A request of the leader for this ISR, with the epochs of its members."""
        image = self.image
        data = PartitionData(
            leader_epoch=image.leader_epoch,
            partition_epoch=image.partition_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=one, broker_epoch=epoch) for one, epoch in isr.items()
            ],
        )
        return AlterPartitionRequest(
            broker_id=image.leader,
            broker_epoch=self.epochs[image.leader],
            topics=[TopicData(topic_id=TOPIC_ID, partitions=[data])],
        )


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def code_of(response: AlterPartitionResponse) -> int:
    return response.topics[0].partitions[0].error_code


def test_a_follower_joins_the_isr_only_after_the_start_of_the_leaders_epoch(cluster: Cluster) -> None:
    """Broker 2 has 10 committed records and knows of 5. A follower with 7 of them must not become eligible."""
    members = {1: cluster.epochs[1], 2: cluster.epochs[2]}
    assert code_of(cluster.controller.alter_partition(cluster.alter(members))) == 0
    cluster.controller.fence([1])
    assert cluster.image.leader == 2
    leader = cluster.replica(2, [0] * 10, high_watermark=5)
    epoch = cluster.epochs[3]

    leader.fetched_by(3, epoch, 7, 0)
    assert cluster.proposals == []

    leader.fetched_by(3, epoch, 10, 0)
    proposed = cluster.proposals[0].topics[0].partitions[0].new_isr_with_epochs
    assert {each.broker_id for each in proposed} == {2, 3}


@pytest.mark.parametrize(
    ("claimed", "error"),
    [(-1, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_fetch_of_another_epoch_does_not_count(cluster: Cluster, claimed: int, error: ErrorCode) -> None:
    """A deposed leader and a follower with an older image must not exchange records of different histories."""
    cluster.controller.fence([1])
    cluster.start(1)
    leader = cluster.replica(2, [0, 0, 0], high_watermark=0)
    assert leader.leads

    with pytest.raises(ApiError) as refused:
        leader.check_replica(3, leader.leader_epoch + claimed)
    assert refused.value.code is error
    assert leader.high_watermark == 0


def test_a_follower_that_restarted_does_not_join_by_an_earlier_request(cluster: Cluster) -> None:
    """Broker 3 caught up, then lost its power and records. The request that adds it arrives after its return."""
    members = {1: cluster.epochs[1], 2: cluster.epochs[2]}
    assert code_of(cluster.controller.alter_partition(cluster.alter(members))) == 0
    late = cluster.alter({**members, 3: cluster.epochs[3]})
    cluster.controller.fence([3])
    cluster.start(3)

    # The epoch of the partition has not changed: only the epoch of the broker shows that the request is late.
    late.topics[0].partitions[0].partition_epoch = cluster.image.partition_epoch
    assert code_of(cluster.controller.alter_partition(late)) == ErrorCode.INELIGIBLE_REPLICA
    assert set(cluster.image.isr) == {1, 2}
    current = cluster.alter({**members, 3: cluster.epochs[3]})
    assert code_of(cluster.controller.alter_partition(current)) == 0
    assert set(cluster.image.isr) == {1, 2, 3}
