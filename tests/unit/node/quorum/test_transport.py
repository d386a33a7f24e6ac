"""Evidence that a voter has ended, from the connection for fetches."""

from __future__ import annotations

import pytest

from ottla.node.quorum.addresses import ControllerAddresses
from ottla.node.quorum.transport import PeerTransport
from ottla.node.settings.quorum_config import VoterAddress
from ottla.peer.errors import PeerError, Reason
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.wire.messages.vote import VoteRequest, VoteResponse
from tests.unit.peer.fakes import FakeNetwork, FakeTimers, environment


@pytest.fixture
def lost() -> list[int]:
    return []


@pytest.fixture
def network() -> FakeNetwork:
    return FakeNetwork()


@pytest.fixture
def transport(lost: list[int], network: FakeNetwork) -> PeerTransport:
    ports = environment(FakeTimers(), network)
    addresses = ControllerAddresses(1, [VoterAddress(2, "two", 9093)])
    return PeerTransport(1, addresses, ports, lost.append)


def fail(transport: PeerTransport, reason: Reason) -> None:
    transport.on_disconnected(2, PeerError(reason, reason.value))


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ([Reason.CLOSED], []),
        ([Reason.CLOSED, Reason.REFUSED], [2]),
        ([Reason.CLOSED, Reason.CLOSED], [2]),
        ([Reason.CLOSED, Reason.TIMED_OUT], []),
        ([Reason.REFUSED], [2]),
        ([Reason.TIMED_OUT, Reason.UNREACHABLE], []),
    ],
)
def test_lost_after_a_refusal_or_a_second_close(
    transport: PeerTransport, lost: list[int], reasons: list[Reason], expected: list[int]
) -> None:
    for reason in reasons:
        fail(transport, reason)
    assert lost == expected


def test_an_open_connection_ends_the_suspicion(transport: PeerTransport, lost: list[int]) -> None:
    fail(transport, Reason.CLOSED)
    transport.on_connected(2)
    fail(transport, Reason.CLOSED)
    assert lost == []


def test_a_lost_connection_is_opened_again_at_once_and_others_are_not(
    transport: PeerTransport, network: FakeNetwork
) -> None:
    fail(transport, Reason.TIMED_OUT)
    assert network.attempts == []
    fail(transport, Reason.CLOSED)
    assert network.attempts == [("two", 9093)]


def test_fetches_have_their_own_connection(transport: PeerTransport, network: FakeNetwork) -> None:
    """A fetch may wait, and a vote does not wait for it."""
    for message, response in (
        (FetchRequest(topics=[]), FetchResponse),
        (FetchSnapshotRequest(topics=[]), FetchSnapshotResponse),
    ):
        transport.request(2, message, response, timeout_s=1, versions=None)
    assert len(network.attempts) == 1
    transport.request(2, VoteRequest(topics=[]), VoteResponse, timeout_s=1, versions=None)
    assert len(network.attempts) == 2


def test_all_connections_follow_the_address_of_a_node(transport: PeerTransport, network: FakeNetwork) -> None:
    transport.set_address(3, "three", 9094)
    transport.request(3, FetchRequest(topics=[]), FetchResponse, timeout_s=1, versions=None)
    transport.request(3, VoteRequest(topics=[]), VoteResponse, timeout_s=1, versions=None)
    assert network.attempts == [("three", 9094), ("three", 9094)]


def test_a_transport_that_is_closed_fails_all_requests(transport: PeerTransport) -> None:
    promises = [
        transport.request(2, FetchRequest(topics=[]), FetchResponse, timeout_s=1, versions=None),
        transport.request(2, VoteRequest(topics=[]), VoteResponse, timeout_s=1, versions=None),
    ]
    transport.close()
    assert [promise.done for promise in promises] == [True, True]
