"""Coordinators move at every step of their clients: nothing acknowledged is lost or contradicted.

A client commits offsets, and runs transactions over partitions of two brokers and a group. One fault, or several at
random times, take the leaderships of the coordinator away: it lives and follows late, it is fenced, or its process
ends. The client repeats requests without a response, at the old coordinator first.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import ZERO_UUID, TopicPartition
from ottla.base.promise import Promise
from ottla.coordinator.txn.init_producer_id import InitParameters
from ottla.coordinator.txn.responses import InitProducerIdResult
from ottla.coordinator.txn.transaction import NeedsProducerId, Producer
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.coordinator_cluster import GROUPS, NODES, T0, T1, TRANSACTIONS, Broker, Cluster

R = TypeVar("R")
ID, GROUP = "id", "group"
RETRIED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
TICKS_OF_A_REQUEST = 12
ATTEMPTS = 60


class Client:
    """Sends one request after the other, and checks that acknowledged results stay."""

    def __init__(self, cluster: Cluster, *, informed: bool = False) -> None:
        """`informed`: requests are sent to the newest coordinator first, not to the one of the last request."""
        self.cluster = cluster
        self._informed = informed
        self.acknowledged = -1
        self.ends: list[tuple[Producer, bool]] = []
        self._next_id = 100
        self._coordinators = {GROUPS: 1, TRANSACTIONS: 1}

    def call(self, where: TopicPartition, send: Callable[[Broker], Promise[R]]) -> R:
        """Send a request to the coordinator until it has a final response."""
        for _ in range(ATTEMPTS):
            node = self.cluster.leaders[where][0] if self._informed else self._coordinators[where]
            broker = self.cluster.brokers[node]
            if broker is not None:
                promise = send(broker)
                self.wait(broker, promise)
                if promise.done and self.cluster.brokers[node] is broker:
                    if not isinstance(promise.error, ApiError):
                        return promise.result()
                    assert promise.error.code in RETRIED, promise.error.code
            self.cluster.tick()
            self._coordinators[where] = self.cluster.leaders[where][0]
        raise AssertionError(f"no response of {where}")

    def wait(self, broker: Broker, promise: Promise[R]) -> None:
        for _ in range(TICKS_OF_A_REQUEST):
            if promise.done or self.cluster.brokers[broker.node] is not broker:
                return
            self.cluster.tick()

    # Offsets

    def commit(self, offset: int) -> None:
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=-1,
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    topic_id=ZERO_UUID,
                    partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)],
                )
            ],
        )
        response = self.call(
            GROUPS, lambda broker: broker.groups.write(0, lambda each: each.commit_offsets(request, 9))
        )
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
        self.acknowledged = offset
        self.check_reads()

    def check_reads(self) -> None:
        """Read from every broker: each response shows what was acknowledged before."""
        reads = [
            (broker, self.fetch(broker)) for broker in self.cluster.brokers.values() if broker is not None
        ]
        for broker, promise in reads:
            self.wait(broker, promise)
            if promise.done and promise.error is None:
                assert promise.result() == self.acknowledged

    def fetch(self, broker: Broker) -> Promise[int]:
        request = OffsetFetchRequestGroup(
            group_id=GROUP,
            topics=[OffsetFetchRequestTopics(name="t", topic_id=ZERO_UUID, partition_indexes=[0])],
        )
        return broker.groups.read(
            0,
            lambda each: (
                each.fetch_offsets(request, require_stable=False).topics[0].partitions[0].committed_offset
            ),
        )

    # Transactions

    def init(self, *, two_phase: bool = False, keep: bool = False) -> tuple[Producer, Producer]:
        """InitProducerId; returns the new producer, and that of the transaction that was kept."""
        parameters = InitParameters(60_000, None, two_phase, keep)
        for _ in range(ATTEMPTS):
            self._next_id += 1
            result = self.call(TRANSACTIONS, lambda broker: self._init(broker, parameters, self._next_id))
            if result.error is ErrorCode.NONE:
                return result.producer, result.ongoing
            assert result.error in RETRIED, result.error
            self.cluster.run(5)
        raise AssertionError("the producer id is not initialized")

    def _init(
        self, broker: Broker, parameters: InitParameters, fresh_id: int
    ) -> Promise[InitProducerIdResult]:
        promise = broker.transactions.write(0, lambda each: each.init_producer_id(ID, parameters, None))
        if promise.done and isinstance(promise.error, NeedsProducerId):
            return broker.transactions.write(0, lambda each: each.init_producer_id(ID, parameters, fresh_id))
        return promise

    def produce(self, producer: Producer, where: TopicPartition) -> None:
        """Append the first batch of the transaction, as the leader of the partition does."""
        for _ in range(ATTEMPTS):
            broker = self.cluster.brokers[self.cluster.leaders[where][0]]
            if broker is not None and broker.image.topics.by_name:
                verification = self.cluster.data[where].verify(producer)
                if verification is None:
                    return
                checked = broker.txn_partitions.check(ID, producer, where, add=True)
                self.wait(broker, checked)
                if checked.done and self.cluster.brokers[broker.node] is broker:
                    code = checked.error.code if isinstance(checked.error, ApiError) else checked.result()
                    if code is ErrorCode.NONE:
                        self.cluster.data[where].append(producer, verification)
                        return
                    assert code in RETRIED, code
            self.cluster.tick()
        raise AssertionError(f"{where} was not verified")

    def commit_in_transaction(self, producer: Producer, offset: int) -> None:
        request = TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id=GROUP,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)],
                )
            ],
        )
        added = ErrorCode.CONCURRENT_TRANSACTIONS
        for _ in range(ATTEMPTS):
            if added is not ErrorCode.NONE:
                assert added in RETRIED, added
                self.cluster.tick()
                added = self.call(
                    GROUPS, lambda broker: broker.txn_partitions.check(ID, producer, GROUPS, add=True)
                )
        assert added is ErrorCode.NONE
        response = self.call(
            GROUPS,
            lambda broker: broker.groups.write_transactional(
                0, *producer, lambda each: each.commit_transactional_offsets(request, 5)
            ),
        )
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE

    def end(self, producer: Producer, *, committed: bool) -> Producer:
        """EndTxn; returns the producer of the next transaction."""
        for _ in range(ATTEMPTS):
            result = self.call(
                TRANSACTIONS,
                lambda broker: broker.transactions.write(
                    0, lambda each: each.end(ID, producer, committed=committed, client_version=2)
                ),
            )
            if result.error is ErrorCode.NONE:
                self.ends.append((producer, committed))
                return result.producer
            assert result.error in RETRIED, result.error
            self.cluster.run(5)


def scenario(client: Client) -> None:
    """Offsets, a commit over two brokers and a group, an abort, and a prepared transaction that is kept."""
    client.commit(1)
    producer, _ = client.init()
    client.produce(producer, T0)
    client.produce(producer, T1)
    client.commit_in_transaction(producer, 5)
    client.check_reads()
    producer = client.end(producer, committed=True)
    settle(client)
    client.acknowledged = 5
    client.check_reads()
    client.produce(producer, T0)
    client.commit_in_transaction(producer, 9)
    producer = client.end(producer, committed=False)
    settle(client)
    client.check_reads()
    client.commit(12)
    producer, _ = client.init(two_phase=True)
    client.produce(producer, T1)
    kept, writer = client.init(two_phase=True, keep=True)
    assert writer == producer
    client.end(kept, committed=True)


def settle(client: Client) -> None:
    """Wait until the transaction is complete, also if it had to be moved twice."""
    client.cluster.run(120)


def check_end(client: Client) -> None:
    """All faults have ended: every transaction has its result in all its partitions."""
    cluster = client.cluster
    cluster.run(200)
    assert cluster.reported == []
    assert not any(partition.producers._open for partition in cluster.data.values())
    assert [committed for _, committed in client.ends] == [True, False, True]
    assert [committed for _, committed in cluster.data[T0].markers] == [True, False]
    assert [committed for _, committed in cluster.data[T1].markers] == [True, True]
    client.check_reads()
    described = client.call(
        TRANSACTIONS, lambda broker: broker.transactions.read(0, lambda each: each.describe(ID))
    )
    assert described.transaction.state.idle


def faultless_ticks() -> int:
    client = Client(Cluster())
    scenario(client)
    check_end(client)
    return client.cluster.tick_count


TICKS = faultless_ticks()


@pytest.mark.parametrize("fault", ["move", "fence", "kill"])
@pytest.mark.parametrize(("kept", "informed"), [(0, True), (9, False)])
def test_the_coordinator_moves_at_every_step(fault: str, kept: int, informed: bool) -> None:
    for tick in range(6, TICKS):
        cluster = Cluster()
        cluster.at(tick, lambda: getattr(cluster, fault)(1, kept=kept))  # noqa: B023 - used in this iteration
        client = Client(cluster, informed=informed)
        scenario(client)
        check_end(client)


def strike(cluster: Cluster, rng: random.Random) -> None:
    """One fault at a random broker, unless another fault has not ended."""
    if all(each is not None and each.lease.held for each in cluster.brokers.values()):
        fault = rng.choice([cluster.move, cluster.fence, cluster.kill])
        fault(rng.choice(NODES), kept=rng.choice((0, 1, 9)), delay=rng.randrange(2, 28))


@pytest.mark.parametrize("seed", range(40))
def test_coordinators_move_at_random_times(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster()
    tick = 5
    while tick < TICKS:
        tick += rng.randrange(30, 160)
        cluster.at(tick, partial(strike, cluster, random.Random(rng.random())))
    client = Client(cluster, informed=seed % 2 == 0)
    scenario(client)
    check_end(client)
