"""Markers in partitions of this broker: one callback, when all of them are committed or refused."""

from __future__ import annotations

from typing import cast

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.broker.coordination.marker_sender import LocalMarkerSender, MarkerResults
from ottla.coordinator.group.group_state_machine import GroupStateMachine
from ottla.coordinator.runtime.runtime import Runtime
from ottla.coordinator.txn.completion import TxnMarkerEntry
from tests.support.coordination import FakeClock
from tests.support.leaders import Leaders

A, B, NOWHERE = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("nowhere", 0)
OFFSETS = TopicPartition("__consumer_offsets", 0)


class Groups:
    """Notes what it is asked to end."""

    def __init__(self) -> None:
        self.ended: list[tuple[object, ...]] = []
        self.promise: Promise[None] = Promise()

    def complete_transaction(self, *asked: object, **options: object) -> Promise[None]:
        self.ended.append((*asked, *options.values()))
        return self.promise


class Sending:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.leaders = Leaders(self.clock, "a", "b", "__consumer_offsets")
        self.groups = Groups()
        self.markers = LocalMarkerSender(
            self.leaders.replicas, cast(Runtime[GroupStateMachine], self.groups), self.clock
        )
        self.reported: list[MarkerResults] = []

    def send(self, *partitions: TopicPartition, epoch: int = 3) -> None:
        marker = TxnMarkerEntry(17, epoch, 2, True, list(partitions), 2)
        self.markers.send(marker, self.reported.append)


def test_the_callback_is_called_once_when_all_markers_are_committed() -> None:
    sending = Sending()
    sending.send(A, B)
    assert sending.reported == []
    sending.leaders.settle()
    assert sending.reported == [{A: ErrorCode.NONE, B: ErrorCode.NONE}]
    assert sending.leaders.get("a", 0).log.log_end_offset == 1


def test_errors_are_reported_per_partition() -> None:
    sending = Sending()
    sending.send(A)
    sending.leaders.settle()
    sending.send(A, B, NOWHERE, epoch=2)
    sending.leaders.settle()
    assert sending.reported[1] == {
        A: ErrorCode.INVALID_PRODUCER_EPOCH,
        B: ErrorCode.NONE,
        NOWHERE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_offsets_are_ended_by_their_coordinator() -> None:
    sending = Sending()
    sending.send(OFFSETS)
    assert sending.groups.ended == [(0, 17, 3, 2, True, 2)]
    assert sending.reported == []
    sending.groups.promise.keep(None)
    assert sending.reported == [{OFFSETS: ErrorCode.NONE}]
    assert sending.leaders.get(*OFFSETS).log.log_end_offset == 0


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ApiError(ErrorCode.NOT_COORDINATOR), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ApiError(ErrorCode.INVALID_PRODUCER_EPOCH), ErrorCode.INVALID_PRODUCER_EPOCH),
        (RuntimeError("bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_coordinator_that_is_not_ready_is_reported_as_not_leader(
    error: Exception, reported: ErrorCode
) -> None:
    sending = Sending()
    sending.groups.promise.fail(error)
    sending.send(OFFSETS)
    assert sending.reported == [{OFFSETS: reported}]


def test_a_partition_of_offsets_that_is_not_here() -> None:
    sending = Sending()
    gone = TopicPartition("__consumer_offsets", 4)
    sending.send(gone)
    assert sending.reported == [{gone: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]
    assert sending.groups.ended == []


def test_a_partition_of_other_brokers_is_unknown_here() -> None:
    sending = Sending()
    offsets = TopicPartition("__consumer_offsets", 4)
    sending.leaders.elsewhere = {NOWHERE, offsets}
    sending.send(NOWHERE, offsets)
    assert sending.reported == [
        {NOWHERE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, offsets: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    ]
    assert sending.groups.ended == []
