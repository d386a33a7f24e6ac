"""Partitions of transactions that other brokers coordinate: verified or added by AddPartitionsToTxn."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.broker.coordination.txn_partitions import ClusterTxnPartitions, LocalTxnPartitions
from ottla.coordinator.txn.transaction import Producer
from ottla.metadata.image import NO_LEADER
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tests.support.fake_peers import FakePeers, image_of
from tests.support.txn_stage import ID, WHERE, Stage

NODE = 1
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PRODUCER = Producer(17, 3)
NEAR, FAR, FAR_TOO, NOWHERE = (TopicPartition("__transaction_state", index) for index in range(4))
COORDINATORS = {NEAR: (NODE, 0), FAR: (2, 4), FAR_TOO: (2, 8), NOWHERE: (NO_LEADER, 1)}
IDS = {ID: 0, "far": 1, "far too": 2, "nowhere": 3}


class Checking:
    def __init__(self) -> None:
        self.stage = Stage()
        self.peers = FakePeers()
        self.partitions = ClusterTxnPartitions(
            NODE,
            LocalTxnPartitions(self.stage.runtime, IDS.__getitem__),
            IDS.__getitem__,
            self.peers,
            self.stage.scheduler,
        )
        self.partitions.on_metadata_changed(image_of(COORDINATORS))

    def check(
        self, name: str, where: TopicPartition = T0, *, producer: Producer = PRODUCER, add: bool = True
    ) -> Promise[ErrorCode]:
        return self.partitions.check(name, producer, where, add=add)

    def run(self) -> None:
        self.stage.scheduler.run()


def response(*results: tuple[str, TopicPartition, ErrorCode], error: int = 0) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        error_code=error,
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=name,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=where.topic,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=where.partition, partition_error_code=code
                            )
                        ],
                    )
                ],
            )
            for name, where, code in results
        ],
    )


def test_a_transaction_of_this_broker_is_checked_in_this_process() -> None:
    checking = Checking()
    missing = checking.check(ID, WHERE, producer=checking.stage.producer, add=False)
    added = checking.check(ID, WHERE, producer=checking.stage.producer)
    checking.stage.run()
    verified = checking.check(ID, WHERE, producer=checking.stage.producer, add=False)
    checking.stage.run()
    assert missing.result() is ErrorCode.TRANSACTION_ABORTABLE
    assert added.result() is verified.result() is ErrorCode.NONE
    assert checking.peers.sent == []


def test_partitions_of_several_transactions_are_one_request_to_their_coordinator() -> None:
    checking = Checking()
    results = [
        checking.check("far", T1),
        checking.check("far", T0),
        checking.check("far", T0),
        checking.check("far too", T0, add=False),
    ]
    checking.run()
    sent = checking.peers.take()
    assert sent.node_id == 2
    assert [
        (each.transactional_id, each.producer_id, each.producer_epoch, each.verify_only)
        for each in sent.message.transactions
    ] == [("far", 17, 3, False), ("far too", 17, 3, True)]
    assert [(topic.name, topic.partitions) for topic in sent.message.transactions[0].topics] == [
        ("t", [0, 1])
    ]
    sent.respond(
        response(
            ("far", T0, ErrorCode.NONE),
            ("far", T1, ErrorCode.NONE),
            ("far too", T0, ErrorCode.TRANSACTION_ABORTABLE),
        )
    )
    codes = [each.result() for each in results]
    assert codes == [ErrorCode.NONE] * 3 + [ErrorCode.TRANSACTION_ABORTABLE]


def test_another_producer_of_the_same_id_waits_for_the_next_request() -> None:
    checking = Checking()
    older = checking.check("far", producer=Producer(17, 2))
    newer = checking.check("far")
    checking.run()
    checking.peers.take().respond(response(("far", T0, ErrorCode.PRODUCER_FENCED)))
    checking.run()
    checking.peers.take().respond(response(("far", T0, ErrorCode.NONE)))
    assert (older.result(), newer.result()) == (ErrorCode.PRODUCER_FENCED, ErrorCode.NONE)


def test_errors_of_the_way_to_the_coordinator() -> None:
    checking = Checking()
    assert checking.check("nowhere").result() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    lost, moved = checking.check("far"), checking.check("far too")
    checking.run()
    checking.partitions.on_metadata_changed(image_of(COORDINATORS | {FAR_TOO: (3, 9)}))
    assert moved.result() is ErrorCode.NOT_COORDINATOR
    checking.peers.take().fail()
    assert lost.result() is ErrorCode.NETWORK_EXCEPTION


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_the_error_of_a_whole_response_and_a_missing_result(error: ErrorCode, expected: ErrorCode) -> None:
    checking = Checking()
    result = checking.check("far")
    checking.run()
    checking.peers.take().respond(response(error=error))
    assert result.result() is expected
