"""A group and an open transaction whose coordinator, node 2, is killed: what its successor, node 0, responds."""

from __future__ import annotations

from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.compat.differential.records import batch, produce, record
from tests.compat.differential.three_nodes import ClusterPlayer, create
from tests.support.waiting import wait_until

TOPIC = "ended"
ASSIGNMENT = {0: [0, 1, 2], 1: [1, 2, 0]}
COMPLETE = "CompleteCommit"


class DeadCoordinator:
    """One group and one transaction, both coordinated by node 2 before it is killed."""

    def __init__(self, player: ClusterPlayer, group: str, transactional_id: str) -> None:
        self._player = player
        self._group = group
        self._transactional_id = transactional_id
        self._producer = (-1, -1)

    def before(self) -> None:
        """Commit an offset and open a transaction."""
        player, owner = self._player, self._player.nodes[2]
        create(player, TOPIC, ASSIGNMENT, 0)
        offset = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=5, committed_metadata="some"
        )
        commit = OffsetCommitRequest(
            group_id=self._group, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[offset])]
        )
        wait_until(
            lambda: owner.quietly(commit, 8).topics[0].partitions[0].error_code == 0, "the coordinator", 60
        )
        begin = InitProducerIdRequest(transactional_id=self._transactional_id, transaction_timeout_ms=60_000)
        begun = owner.quietly(begin, 4)
        assert begun.error_code == 0, begun
        self._producer = begun.producer_id, begun.producer_epoch
        self._add("added", 2)
        for index, replicas in ASSIGNMENT.items():
            self._write(index, replicas[0])
        self._stable_ends("open")

    def after(self) -> None:
        """Ask the successor, and another node; end the transaction."""
        player = self._player
        wanted = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0, 1])
        fetched = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self._group, topics=[wanted])])
        wait_until(
            lambda: player.nodes[0].quietly(fetched, 8).groups[0].error_code == 0, "the new coordinator", 60
        )
        player.ask("offsets of the successor", fetched, 8)
        player.ask("group of the successor", DescribeGroupsRequest(groups=[self._group]), 5)
        wait_until(lambda: self._state() == "Ongoing", "the new coordinator of transactions", 60)
        for node in player.running:
            self._add("added again", node)
        self._stable_ends("still open")
        player.ask("ended at another node", self._end(committed=True), 3, [1])
        player.ask("ended", self._end(committed=True), 3, [0])
        wait_until(lambda: self._state() == COMPLETE, "the transaction to be complete", 60)
        player.ask("ended again", self._end(committed=True), 3, [0])
        player.ask("aborted afterwards", self._end(committed=False), 3, [0])
        self._stable_ends("ended")

    def _add(self, label: str, node: int) -> None:
        producer_id, producer_epoch = self._producer
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0, 1])],
        )
        self._player.ask(label, request, 3, [node])

    def _write(self, index: int, node: int) -> None:
        producer_id, producer_epoch = self._producer
        data = batch(
            record(),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        request = produce(self._player.nodes[node], (TOPIC, index, data))
        request.transactional_id = self._transactional_id
        self._player.ask(f"written to {index}", request, 9, [node])

    def _stable_ends(self, label: str) -> None:
        for level in (0, 1):
            for index, replicas in ASSIGNMENT.items():
                wanted = ListOffsetsPartition(partition_index=index, timestamp=-1)
                request = ListOffsetsRequest(
                    replica_id=-1,
                    isolation_level=level,
                    topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted])],
                )
                self._player.ask(f"{label}: end of {index}, level {level}", request, 7, [replicas[0]])

    def _end(self, *, committed: bool) -> EndTxnRequest:
        producer_id, producer_epoch = self._producer
        return EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=committed,
        )

    def _state(self) -> str:
        request = DescribeTransactionsRequest(transactional_ids=[self._transactional_id])
        (found,) = self._player.nodes[0].quietly(request, 0).transaction_states
        return str(found.transaction_state)
