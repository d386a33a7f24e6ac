"""Connections by node id."""

from __future__ import annotations

from ottla.peer.errors import PeerError, Reason
from ottla.peer.peers import Peers
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

from .fakes import SETTINGS, FakeNetwork, FakeTimers, api_versions, environment, error_of, response_to


class Listener:
    def __init__(self) -> None:
        self.events: list[tuple[int, str]] = []

    def on_connected(self, node_id: int) -> None:
        self.events.append((node_id, "connected"))

    def on_disconnected(self, node_id: int, error: PeerError) -> None:
        self.events.append((node_id, error.reason.value))


class Scenario:
    def __init__(self) -> None:
        self.network = FakeNetwork()
        self.listener = Listener()
        self.peers = Peers(SETTINGS, environment(FakeTimers(), self.network), self.listener)


def test_nodes_have_separate_connections() -> None:
    test = Scenario()
    test.peers.set_address(1, "one", 9092)
    test.peers.set_address(2, "two", 9092)
    promise = test.peers.request(1, MetadataRequest(topics=[]), MetadataResponse, timeout_s=5.0)
    transport = test.network.accept()
    transport.deliver(response_to(transport.remote.requests()[0], api_versions()))
    transport.deliver(response_to(transport.remote.requests()[0], MetadataResponse(cluster_id="c")))
    assert promise.result().cluster_id == "c"
    failed = test.peers.request_raw(2, FetchRequest(), timeout_s=5.0)
    test.network.reject(ConnectionRefusedError())
    assert error_of(failed).reason is Reason.REFUSED
    assert test.network.attempts == [("one", 9092), ("two", 9092)]
    assert test.listener.events == [(1, "connected"), (2, "refused")]
    assert test.peers.is_connected(1)
    assert not test.peers.is_connected(2)


def test_a_node_without_address_is_unknown() -> None:
    test = Scenario()
    test.peers.connect(7)
    assert not test.peers.is_connected(7)
    for promise in (
        test.peers.request(7, MetadataRequest(), MetadataResponse, timeout_s=5.0),
        test.peers.request_raw(7, FetchRequest(), timeout_s=5.0),
    ):
        assert error_of(promise).reason is Reason.UNKNOWN_NODE


def test_a_new_address_replaces_the_connection() -> None:
    test = Scenario()
    test.peers.set_address(1, "old", 9092)
    promise = test.peers.request(1, MetadataRequest(), MetadataResponse, timeout_s=5.0)
    test.peers.set_address(1, "old", 9092)
    assert not promise.done
    test.peers.set_address(1, "new", 9093)
    assert error_of(promise).reason is Reason.SHUTDOWN
    test.peers.connect(1)
    assert test.network.attempts == [("old", 9092), ("new", 9093)]


def test_removed_nodes_and_closed_peers_fail_their_requests() -> None:
    test = Scenario()
    test.peers.set_address(1, "one", 9092)
    removed = test.peers.request(1, MetadataRequest(), MetadataResponse, timeout_s=5.0)
    test.peers.remove(1)
    test.peers.remove(1)
    assert error_of(removed).reason is Reason.SHUTDOWN
    test.peers.set_address(2, "two", 9092)
    closed = test.peers.request(2, MetadataRequest(), MetadataResponse, timeout_s=5.0)
    test.peers.close()
    assert error_of(closed).reason is Reason.SHUTDOWN
    test.peers.set_address(2, "two", 9092)
    late = test.peers.request(2, MetadataRequest(), MetadataResponse, timeout_s=5.0)
    assert error_of(late).reason is Reason.SHUTDOWN
