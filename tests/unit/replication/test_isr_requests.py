"""Proposed ISR changes on their way to a controller that is busy, refuses, or does not respond."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.promise import Promise
from ottla.replication.isr_requests import BACKOFF_S, UNRESOLVED_S, IsrRequests
from ottla.replication.leader import IsrProposal
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

TOPIC = uuid.UUID(int=7)
PROPOSAL = IsrProposal(3, 5, ((1, 100), (2, 20)))


class FakePartition:
    def __init__(self, index: int) -> None:
        self.topic_id = TOPIC
        self.index = index
        self.pending: IsrProposal | None = PROPOSAL
        self.withdrawn: list[IsrProposal] = []

    def wants(self, proposal: IsrProposal) -> bool:
        return self.pending == proposal

    def withdraw(self, proposal: IsrProposal) -> None:
        self.withdrawn.append(proposal)


class Controller:
    def __init__(self) -> None:
        self.requests: list[AlterPartitionRequest] = []
        self.open: list[Promise[AlterPartitionResponse]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.epoch = 9
        self.isr = IsrRequests(
            1, lambda: self.epoch, self._send, lambda delay, call: self.timers.append((delay, call))
        )

    def _send(self, request: AlterPartitionRequest) -> Promise[AlterPartitionResponse]:
        self.requests.append(request)
        promise: Promise[AlterPartitionResponse] = Promise()
        self.open.append(promise)
        return promise

    def respond(self, codes: dict[int, ErrorCode], epoch: int = 6) -> None:
        results = [
            AlterPartitionResponsePartitionData(partition_index=index, error_code=code, partition_epoch=epoch)
            for index, code in codes.items()
        ]
        topics = [AlterPartitionResponseTopicData(topic_id=TOPIC, partitions=results)]
        self.open.pop(0).keep(AlterPartitionResponse(topics=topics))

    def fire(self) -> float:
        delay, call = self.timers.pop(0)
        call()
        return delay

    def indexes(self) -> list[list[int]]:
        return [[p.partition_index for t in r.topics for p in t.partitions] for r in self.requests]


@pytest.fixture
def controller() -> Controller:
    return Controller()


def test_a_request_contains_the_epochs_of_partition_leader_and_brokers(controller: Controller) -> None:
    controller.isr.submit(FakePartition(4), PROPOSAL)
    (request,) = controller.requests
    assert (request.broker_id, request.broker_epoch) == (1, 9)
    (topic,) = request.topics
    (data,) = topic.partitions
    assert topic.topic_id == TOPIC
    assert (data.partition_index, data.leader_epoch, data.partition_epoch) == (4, 3, 5)
    assert [(one.broker_id, one.broker_epoch) for one in data.new_isr_with_epochs] == [(1, 100), (2, 20)]


def test_one_request_is_under_way_and_the_next_has_all_that_came_meanwhile(controller: Controller) -> None:
    partitions = [FakePartition(index) for index in range(4)]
    for partition in partitions:
        controller.isr.submit(partition, PROPOSAL)
    assert controller.indexes() == [[0]]
    partitions[2].pending = None  # resolved by the metadata
    controller.respond({0: ErrorCode.NONE})
    assert controller.indexes() == [[0], [1, 3]]


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_refused_proposal_is_withdrawn(controller: Controller, code: ErrorCode) -> None:
    partition = FakePartition(0)
    controller.isr.submit(partition, PROPOSAL)
    controller.respond({0: code})
    assert partition.withdrawn == [PROPOSAL]
    assert controller.timers == []


@pytest.mark.parametrize(
    "code", [ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION]
)
def test_a_partition_waits_for_the_image_and_asks_again_if_none_comes(
    controller: Controller, code: ErrorCode
) -> None:
    partition = FakePartition(0)
    controller.isr.submit(partition, PROPOSAL)
    controller.respond({0: code})
    assert partition.withdrawn == []
    assert controller.fire() == UNRESOLVED_S
    assert controller.indexes() == [[0], [0]]
    controller.respond({0: code})
    partition.pending = None
    controller.fire()
    assert len(controller.requests) == 2


def test_a_change_that_was_none_is_withdrawn(controller: Controller) -> None:
    partition = FakePartition(0)
    controller.isr.submit(partition, PROPOSAL)
    controller.respond({0: ErrorCode.NONE}, epoch=PROPOSAL.partition_epoch)
    assert partition.withdrawn == [PROPOSAL]


def test_after_a_lost_connection_the_result_is_unknown_and_the_request_is_sent_again(
    controller: Controller,
) -> None:
    partition, other = FakePartition(0), FakePartition(1)
    controller.isr.submit(partition, PROPOSAL)
    controller.open.pop(0).fail(ConnectionResetError())
    controller.isr.submit(other, PROPOSAL)
    assert len(controller.requests) == 1
    assert partition.withdrawn == []
    controller.epoch = 10
    assert controller.fire() == BACKOFF_S
    assert sorted(controller.indexes()[1]) == [0, 1]
    assert controller.requests[1].broker_epoch == 10


def test_an_error_of_the_whole_request_and_a_missing_partition_are_sent_again(controller: Controller) -> None:
    first, second = FakePartition(0), FakePartition(1)
    controller.isr.submit(first, PROPOSAL)
    controller.open.pop(0).keep(AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    controller.isr.submit(second, PROPOSAL)
    controller.fire()
    controller.respond({0: ErrorCode.INELIGIBLE_REPLICA})
    assert first.withdrawn == [PROPOSAL]
    controller.fire()
    assert controller.indexes() == [[0], [1, 0], [1]] or controller.indexes() == [[0], [0, 1], [1]]


def test_a_retriable_error_of_a_partition_is_retried_soon(controller: Controller) -> None:
    controller.isr.submit(FakePartition(0), PROPOSAL)
    controller.respond({0: ErrorCode.NETWORK_EXCEPTION})
    assert controller.fire() == BACKOFF_S
    assert controller.indexes() == [[0], [0]]


def test_a_newer_proposal_replaces_one_that_is_sent_again(controller: Controller) -> None:
    partition = FakePartition(0)
    controller.isr.submit(partition, PROPOSAL)
    newer = PROPOSAL._replace(partition_epoch=6)
    partition.pending = newer
    controller.isr.submit(partition, newer)
    controller.open.pop(0).fail(ConnectionResetError())
    controller.fire()
    assert controller.requests[1].topics[0].partitions[0].partition_epoch == 6


def test_an_error_does_not_say_that_nothing_has_changed(controller: Controller) -> None:
    partition = FakePartition(0)
    controller.isr.submit(partition, PROPOSAL)
    controller.respond({0: ErrorCode.NETWORK_EXCEPTION}, epoch=PROPOSAL.partition_epoch)
    assert partition.withdrawn == []
