"""Entries for leaders on other brokers: one request in flight to a broker, and one result for each entry."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.coordination.leader_requests import Entry, LeaderRequests, known_error
from ottla.metadata.image import NO_LEADER
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.support.coordination import FakeClock
from tests.support.fake_peers import FakePeers, image_of
from tests.support.shards import FakeScheduler

A, B, C = (TopicPartition("t", index) for index in range(3))


class Named(Entry):
    __slots__ = ("name",)

    def __init__(self, name: int, partition: TopicPartition, on_done: Callable[[ErrorCode], None]) -> None:
        super().__init__(partition, on_done)
        self.name = name


class NamedFormat:
    """The producer id is the name of an entry; the response has the error in the same field."""

    response = WriteTxnMarkersResponse
    versions = WriteTxnMarkersRequest.SPEC.versions

    def group(self, entry: Named) -> tuple[Hashable, Hashable]:
        return entry.name % 10, entry.name

    def build(self, entries: list[Named]) -> WriteTxnMarkersRequest:
        return WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=each.name) for each in entries])

    def results(self, response: WriteTxnMarkersResponse) -> Callable[[Named], ErrorCode]:
        return lambda entry: known_error(response.markers[0].producer_id)


class Sending:
    def __init__(self) -> None:
        self.peers = FakePeers()
        self.scheduler = FakeScheduler(FakeClock())
        self.requests: LeaderRequests[Named] = LeaderRequests(self.peers, self.scheduler, NamedFormat())
        self.requests.on_metadata_changed(image_of({A: (2, 5), B: (2, 5), C: (3, 5)}))
        self.results: list[tuple[int, ErrorCode]] = []

    def add(self, name: int, partition: TopicPartition) -> None:
        self.requests.add(Named(name, partition, lambda error: self.results.append((name, error))))

    def sent(self) -> tuple[int, list[int]]:
        """The destination and the entries of the request that is in flight."""
        self.scheduler.run()
        request = self.peers.sent[-1]
        return request.node_id, [each.producer_id for each in request.message.markers]

    def respond(self, error: ErrorCode = ErrorCode.NONE) -> None:
        result = WritableTxnMarkerResult(producer_id=error, topics=[])
        self.peers.take().respond(WriteTxnMarkersResponse(markers=[result]))
        self.scheduler.run()


def test_entries_of_one_iteration_are_one_request_to_each_leader() -> None:
    sending = Sending()
    for name, partition in ((1, A), (2, B), (3, C)):
        sending.add(name, partition)
    assert sending.peers.sent == []
    sending.scheduler.run()
    assert [each.node_id for each in sending.peers.sent] == [2, 3]
    assert [each.producer_id for each in sending.peers.sent[0].message.markers] == [1, 2]


def test_entries_that_are_added_meanwhile_form_the_next_request() -> None:
    sending = Sending()
    sending.add(1, A)
    assert sending.sent() == (2, [1])
    sending.add(2, B)
    sending.add(3, A)
    assert sending.sent() == (2, [1])
    sending.respond()
    assert sending.results == [(1, ErrorCode.NONE)]
    assert sending.sent() == (2, [2, 3])
    sending.respond(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert sending.results[1:] == [(2, ErrorCode.NOT_ENOUGH_REPLICAS), (3, ErrorCode.NOT_ENOUGH_REPLICAS)]
    assert sending.peers.sent == []


def test_entries_that_contradict_each_other_are_in_two_requests() -> None:
    sending = Sending()
    sending.add(1, A)
    sending.add(11, A)
    assert sending.sent() == (2, [1])
    sending.respond()
    assert sending.sent() == (2, [11])


def test_a_lost_connection_is_a_result() -> None:
    sending = Sending()
    sending.add(1, A)
    sending.scheduler.run()
    sending.peers.take().fail()
    assert sending.results == [(1, ErrorCode.NETWORK_EXCEPTION)]
    sending.add(2, A)
    assert sending.sent() == (2, [2])


@pytest.mark.parametrize("changed", [(3, 6), (2, 6), (NO_LEADER, 6)])
def test_a_new_leader_completes_entries_in_flight_and_waiting(changed: tuple[int, int]) -> None:
    sending = Sending()
    sending.add(1, A)
    sending.add(2, B)
    sending.scheduler.run()
    sending.add(3, A)
    sending.requests.on_metadata_changed(image_of({A: changed, B: (2, 5), C: (3, 5)}))
    moved = [(1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (3, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert sending.results == moved
    sending.respond()
    assert sending.results == [*moved, (2, ErrorCode.NONE)]
    assert sending.peers.sent == []


def test_a_deleted_topic_completes_its_entries() -> None:
    sending = Sending()
    sending.add(1, A)
    sending.requests.on_metadata_changed(image_of({C: (3, 5)}))
    assert sending.results == [(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert sending.requests.leader_of(A) == NO_LEADER
    sending.scheduler.run()
    assert sending.peers.sent == []


def test_an_unknown_error_code_is_an_unknown_error() -> None:
    assert known_error(31_000) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert known_error(0) is ErrorCode.NONE
