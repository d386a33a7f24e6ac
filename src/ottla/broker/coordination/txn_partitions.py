"""Requests to the coordinator of a transaction about one of its partitions, on this broker or on another.

The coordinator is the leader of the partition of __transaction_state to which the transactional id is mapped. On this
broker its state machine is called; another broker gets AddPartitionsToTxn, in a version for brokers, with the
partitions of several transactions. Errors of the way to the coordinator are those of Kafka: COORDINATOR_NOT_AVAILABLE
without a leader, NETWORK_EXCEPTION if the request fails, NOT_COORDINATOR if the leader has changed. All of them are
reported to producers as errors after which they retry.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.broker.coordination.leader_requests import Entry, LeaderRequests, known_error
from ottla.coordinator.runtime.ports import Scheduler
from ottla.coordinator.runtime.runtime import Runtime
from ottla.coordinator.txn.transaction import EPOCH_PER_TRANSACTION, Producer, by_topic
from ottla.coordinator.txn.txn_state_machine import TxnStateMachine
from ottla.metadata.image import NO_LEADER, MetadataImage
from ottla.metadata.topic_names import TRANSACTION_TOPIC
from ottla.peer.peers import PeerRequests
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.schema import Message

_FROM_BROKERS: Final = range(4, 6)


class LocalTxnPartitions:
    """`verification.TxnPartitions` for transactions that this broker coordinates."""

    def __init__(self, transactions: Runtime[TxnStateMachine], partition_for: Callable[[str], int]) -> None:
        self._transactions = transactions
        self._partition_for = partition_for

    def check(
        self, transactional_id: str, producer: Producer, where: TopicPartition, *, add: bool
    ) -> Promise[ErrorCode]:
        index, partitions = self._partition_for(transactional_id), frozenset({where})
        if add:
            return self._transactions.write(
                index,
                lambda machine: machine.add_partitions(
                    transactional_id, producer, partitions, client_version=EPOCH_PER_TRANSACTION
                ),
            )
        return self._transactions.read(
            index, lambda machine: machine.verify(transactional_id, producer, partitions)[where]
        )


class ClusterTxnPartitions:
    """`verification.TxnPartitions` for the transactions of all brokers."""

    def __init__(
        self,
        node_id: int,
        local: LocalTxnPartitions,
        partition_for: Callable[[str], int],
        peers: PeerRequests,
        scheduler: Scheduler,
    ) -> None:
        self._node_id = node_id
        self._local = local
        self._partition_for = partition_for
        self._remote: LeaderRequests[_TxnPartition] = LeaderRequests(peers, scheduler, _TxnPartitionFormat())

    def check(
        self, transactional_id: str, producer: Producer, where: TopicPartition, *, add: bool
    ) -> Promise[ErrorCode]:
        coordinator = TopicPartition(TRANSACTION_TOPIC, self._partition_for(transactional_id))
        leader = self._remote.leader_of(coordinator)
        if leader == self._node_id:
            return self._local.check(transactional_id, producer, where, add=add)
        if leader == NO_LEADER:
            return Promise.kept(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        result: Promise[ErrorCode] = Promise()
        self._remote.add(
            _TxnPartition(
                coordinator, partial(_completed, result), transactional_id, producer, where, add=add
            )
        )
        return result

    def on_metadata_changed(self, image: MetadataImage) -> None:
        """Fail the requests to coordinators that have been replaced."""
        self._remote.on_metadata_changed(image)


def _completed(result: Promise[ErrorCode], error: ErrorCode) -> None:
    moved = error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    result.keep(ErrorCode.NOT_COORDINATOR if moved else error)


class _TxnPartition(Entry):
    """A partition to verify or to add; `partition` is that of the coordinator."""

    __slots__ = ("add", "producer", "transactional_id", "where")

    def __init__(
        self,
        coordinator: TopicPartition,
        on_done: Callable[[ErrorCode], None],
        transactional_id: str,
        producer: Producer,
        where: TopicPartition,
        *,
        add: bool,
    ) -> None:
        super().__init__(coordinator, on_done)
        self.transactional_id = transactional_id
        self.producer = producer
        self.where = where
        self.add = add


def _transaction(entry: _TxnPartition, partitions: set[TopicPartition]) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=entry.transactional_id,
        producer_id=entry.producer.id,
        producer_epoch=entry.producer.epoch,
        verify_only=not entry.add,
        topics=[
            AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in by_topic(partitions)
        ],
    )


class _TxnPartitionFormat:
    """Partitions of several transactions in one AddPartitionsToTxn request."""

    response: type[Message] = AddPartitionsToTxnResponse
    versions: range = _FROM_BROKERS

    def group(self, entry: _TxnPartition) -> tuple[Hashable, Hashable]:
        return entry.transactional_id, (entry.producer, entry.add)

    def build(self, entries: list[_TxnPartition]) -> AddPartitionsToTxnRequest:
        partitions: dict[str, set[TopicPartition]] = {}
        for entry in entries:
            partitions.setdefault(entry.transactional_id, set()).add(entry.where)
        transactions = {entry.transactional_id: entry for entry in entries}
        return AddPartitionsToTxnRequest(
            transactions=[
                _transaction(transactions[transactional_id], each)
                for transactional_id, each in partitions.items()
            ]
        )

    def results(self, response: AddPartitionsToTxnResponse) -> Callable[[_TxnPartition], ErrorCode]:
        whole = known_error(response.error_code)
        if whole is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            whole = ErrorCode.INVALID_TXN_STATE
        found = {
            (each.transactional_id, TopicPartition(topic.name, result.partition_index)): known_error(
                result.partition_error_code
            )
            for each in response.results_by_transaction
            for topic in each.topic_results
            for result in topic.results_by_partition
        }
        unknown = ErrorCode.UNKNOWN_SERVER_ERROR
        return lambda entry: whole or found.get((entry.transactional_id, entry.where), unknown)
