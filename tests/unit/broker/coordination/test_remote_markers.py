"""Markers for partitions of several brokers: one result, when every partition has one."""

from __future__ import annotations

from typing import cast

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.broker.coordination.marker_sender import LocalMarkerSender, MarkerResults
from ottla.broker.coordination.remote_markers import RemoteMarkers
from ottla.coordinator.group.group_state_machine import GroupStateMachine
from ottla.coordinator.runtime.runtime import Runtime
from ottla.coordinator.txn.completion import TxnMarkerEntry
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.support.coordination import FakeClock
from tests.support.fake_peers import FakePeers, Sent, image_of
from tests.support.leaders import NODE, Leaders
from tests.support.shards import FakeScheduler

OWN, FAR, NEAR = TopicPartition("own", 0), TopicPartition("far", 0), TopicPartition("near", 1)
OFFSETS = TopicPartition("__consumer_offsets", 7)
IMAGE = {OWN: (NODE, 0), FAR: (2, 4), NEAR: (3, 4), OFFSETS: (2, 9)}


class Groups:
    def complete_transaction(self, *arguments: object, **options: object) -> Promise[None]:
        raise AssertionError("no group is coordinated here")


class Sending:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.scheduler = FakeScheduler(self.clock)
        self.leaders = Leaders(self.clock, "own")
        self.peers = FakePeers()
        local = LocalMarkerSender(
            self.leaders.replicas, cast(Runtime[GroupStateMachine], Groups()), self.clock
        )
        self.markers = RemoteMarkers(NODE, local, self.peers, self.scheduler)
        self.markers.on_metadata_changed(image_of(IMAGE))
        self.reported: list[MarkerResults] = []

    def send(self, *partitions: TopicPartition, producer_id: int = 17, epoch: int = 3) -> None:
        marker = TxnMarkerEntry(producer_id, epoch, 2, True, list(partitions), 2)
        self.markers.send(marker, self.reported.append)
        self.scheduler.run()
        self.leaders.settle()


def respond(sent: Sent, results: dict[TopicPartition, ErrorCode], producer_id: int = 17) -> None:
    topics = [
        WritableTxnMarkerTopicResult(
            name=where.topic,
            partitions=[WritableTxnMarkerPartitionResult(partition_index=where.partition, error_code=error)],
        )
        for where, error in results.items()
    ]
    sent.respond(
        WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=producer_id, topics=topics)])
    )


def test_the_result_is_reported_when_every_broker_has_written_its_markers() -> None:
    sending = Sending()
    sending.send(OWN, FAR, NEAR, OFFSETS)
    far, near = sending.peers.sent
    assert (far.node_id, near.node_id) == (2, 3)
    (marker,) = far.message.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (17, 3, 2)
    assert (marker.transaction_result, marker.transaction_version) == (True, 2)
    written = [(topic.name, topic.partition_indexes) for topic in marker.topics]
    assert written == [("__consumer_offsets", [7]), ("far", [0])]
    assert sending.leaders.get(*OWN).log.log_end_offset == 1
    respond(far, {FAR: ErrorCode.NONE, OFFSETS: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    assert sending.reported == []
    respond(near, {NEAR: ErrorCode.NONE})
    assert sending.reported == [
        {
            OWN: ErrorCode.NONE,
            FAR: ErrorCode.NONE,
            OFFSETS: ErrorCode.NOT_LEADER_OR_FOLLOWER,
            NEAR: ErrorCode.NONE,
        }
    ]


def test_markers_of_several_transactions_are_one_request() -> None:
    sending = Sending()
    sending.send(NEAR)
    sending.send(FAR, producer_id=18)
    sending.send(FAR, producer_id=19)
    _, far = sending.peers.sent
    assert [each.producer_id for each in far.message.markers] == [18]
    respond(far, {FAR: ErrorCode.NONE}, 18)
    sending.scheduler.run()
    assert sending.reported == [{FAR: ErrorCode.NONE}]
    assert [each.producer_id for each in sending.peers.sent[-1].message.markers] == [19]


def test_two_markers_of_one_producer_are_not_confused() -> None:
    sending = Sending()
    sending.send(NEAR, epoch=3)
    sending.send(NEAR, epoch=4)
    (first,) = sending.peers.sent
    assert [each.producer_epoch for each in first.message.markers] == [3]
    respond(first, {NEAR: ErrorCode.INVALID_PRODUCER_EPOCH})
    sending.scheduler.run()
    assert sending.reported == [{NEAR: ErrorCode.INVALID_PRODUCER_EPOCH}]
    assert [each.producer_epoch for each in sending.peers.sent[-1].message.markers] == [4]


def test_a_partition_without_a_leader_and_a_missing_result_are_errors() -> None:
    sending = Sending()
    nowhere = TopicPartition("nowhere", 0)
    sending.send(nowhere, FAR)
    respond(sending.peers.take(), {})
    assert sending.reported == [
        {nowhere: ErrorCode.LEADER_NOT_AVAILABLE, FAR: ErrorCode.UNKNOWN_SERVER_ERROR}
    ]


def test_a_marker_does_not_wait_for_a_leader_that_was_replaced() -> None:
    sending = Sending()
    sending.send(FAR)
    stale = sending.peers.take()
    sending.markers.on_metadata_changed(image_of(IMAGE | {FAR: (3, 5)}))
    assert sending.reported == [{FAR: ErrorCode.NOT_LEADER_OR_FOLLOWER}]
    sending.send(FAR)
    assert sending.peers.sent[-1].node_id == 3
    respond(stale, {FAR: ErrorCode.NONE})
    assert len(sending.reported) == 1
    respond(sending.peers.take(), {FAR: ErrorCode.NONE})
    assert sending.reported[1:] == [{FAR: ErrorCode.NONE}]
