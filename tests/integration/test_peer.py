"""Connections to other nodes against a real broker, and against listeners that misbehave."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from ottla.base.promise import Promise
from ottla.base.rng import system_random
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from ottla.peer.errors import PeerError, Reason
from ottla.peer.peers import Peers, peer_environment
from ottla.peer.settings import PeerSettings
from ottla.peer.sockets import SocketConnector
from ottla.wire import codec
from ottla.wire.fetch import FIRST_TOPIC_IDS
from ottla.wire.frames import parse_request_header, response_frame
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.negotiation import api_versions_request
from tests.conftest import MakeBroker
from tests.support.asking import produce
from tests.support.clients import create_topic, fresh
from tests.support.raw import Address, RawClient

T = TypeVar("T")
NODE = 1
TIMEOUT_S = 30.0


class Listener:
    """Records the evidence, and lets a test wait for it."""

    def __init__(self) -> None:
        self.reasons: list[Reason] = []
        self.connections = 0
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def on_connected(self, node_id: int) -> None:
        self.connections += 1
        self._check()

    def on_disconnected(self, node_id: int, error: PeerError) -> None:
        self.reasons.append(error.reason)
        self._check()

    async def until(self, condition: Callable[[], bool]) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((condition, future))
        self._check()
        await asyncio.wait_for(future, TIMEOUT_S)

    def _check(self) -> None:
        for condition, future in self._waiting:
            if condition() and not future.done():
                future.set_result(None)


class Client:
    """The peers of a node on the running event loop."""

    def __init__(self, address: str, **settings: Any) -> None:
        loop = asyncio.get_running_loop()
        self.listener = Listener()
        environment = peer_environment(loop, SocketConnector(loop), system_random())
        self.peers = Peers(PeerSettings(client_id="peer", **settings), environment, self.listener)
        host, port = address.rsplit(":", 1)
        self.peers.set_address(NODE, host, int(port))

    async def cluster_id(self, timeout_s: float = TIMEOUT_S) -> str:
        response = await awaited(
            self.peers.request(NODE, MetadataRequest(topics=[]), MetadataResponse, timeout_s=timeout_s)
        )
        return response.cluster_id or ""


async def awaited(promise: Promise[T]) -> T:
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(value: T | None, error: BaseException | None) -> None:
        if error is None:
            future.set_result(value)  # type: ignore[arg-type]
        else:
            future.set_exception(error)

    promise.when_done(done)
    return await asyncio.wait_for(future, TIMEOUT_S)


async def failure(promise: Promise[Any]) -> PeerError:
    with pytest.raises(PeerError) as raised:
        await awaited(promise)
    return raised.value


def test_several_apis_on_one_connection(broker: BrokerProcess) -> None:
    async def scenario() -> None:
        client = Client(broker.bootstrap)
        peers = client.peers
        promises = (
            peers.request(NODE, api_versions_request(), ApiVersionsResponse, timeout_s=TIMEOUT_S),
            peers.request(NODE, MetadataRequest(topics=[]), MetadataResponse, timeout_s=TIMEOUT_S),
            peers.request(NODE, DescribeClusterRequest(), DescribeClusterResponse, timeout_s=TIMEOUT_S),
            peers.request(
                NODE, MetadataRequest(topics=[]), MetadataResponse, timeout_s=TIMEOUT_S, versions=range(2, 3)
            ),
        )
        versions = await awaited(promises[0])
        assert any(served.api_key == 3 for served in versions.api_keys)
        metadata, cluster, old = (
            await awaited(promises[1]),
            await awaited(promises[2]),
            await awaited(promises[3]),
        )
        assert metadata.cluster_id == cluster.cluster_id == old.cluster_id
        assert [node.node_id for node in metadata.brokers] == [node.broker_id for node in cluster.brokers]
        assert client.listener.connections == 1
        peers.close()

    asyncio.run(scenario())


def test_a_raw_fetch_response_is_read_without_decoding(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("peer"))
    value = b"v" * 300_000
    with RawClient(Address.parse(broker.bootstrap)) as raw:
        produce(raw, topic, 0, [value])

    async def scenario() -> None:
        client = Client(broker.bootstrap)
        wanted = FetchPartition(partition=0, partition_max_bytes=1 << 20)
        fetch = FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic=topic, partitions=[wanted])])
        response = await awaited(
            client.peers.request_raw(NODE, fetch, timeout_s=TIMEOUT_S, versions=range(4, FIRST_TOPIC_IDS))
        )
        assert response.version == FIRST_TOPIC_IDS - 1
        decoded = codec.decode(FetchResponse, response.frame, response.version, start=response.body_start)
        records = decoded.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        assert records.obj is response.frame.obj
        assert value in bytes(records)
        client.peers.close()

    asyncio.run(scenario())


def test_a_killed_broker_is_noticed_at_once_and_used_again_when_it_is_back(make_broker: MakeBroker) -> None:
    broker = make_broker()

    async def scenario() -> None:
        client = Client(broker.bootstrap)
        cluster_id = await client.cluster_id()
        broker.kill()
        await client.listener.until(lambda: Reason.CLOSED in client.listener.reasons)
        with pytest.raises(PeerError) as raised:
            await client.cluster_id()
        assert raised.value.reason is Reason.REFUSED
        assert not raised.value.sent
        assert client.listener.reasons == [Reason.CLOSED, Reason.REFUSED]
        broker.start()
        assert await client.cluster_id() == cluster_id
        assert client.listener.connections == 2
        client.peers.close()

    asyncio.run(scenario())


def test_requests_in_flight_fail_when_the_broker_is_killed(make_broker: MakeBroker) -> None:
    broker = make_broker()
    topic = create_topic(broker.bootstrap, fresh("peer"))

    async def scenario() -> None:
        client = Client(broker.bootstrap)
        await client.cluster_id()
        # A Fetch that waits for bytes that no one produces.
        wanted = FetchPartition(partition=0, partition_max_bytes=1 << 20)
        fetch = FetchRequest(
            max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[wanted])]
        )
        promise = client.peers.request_raw(NODE, fetch, timeout_s=90.0, versions=range(4, FIRST_TOPIC_IDS))
        broker.kill()
        error = await failure(promise)
        assert error.reason is Reason.CLOSED
        assert error.sent
        client.peers.close()

    asyncio.run(scenario())


def test_an_address_without_listener_refuses() -> None:
    async def scenario() -> None:
        client = Client(f"127.0.0.1:{free_port()}")
        for _ in range(3):
            with pytest.raises(PeerError) as raised:
                await client.cluster_id()
            assert raised.value.reason is Reason.REFUSED
        assert client.listener.reasons == [Reason.REFUSED] * 3
        client.peers.close()

    asyncio.run(scenario())


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A listener that runs `serve` with its first connection; the connection stays open until the end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        accepted: list[socket.socket] = []

        def run() -> None:
            try:
                connection, _ = listening.accept()
                accepted.append(connection)
                serve(connection)
            except OSError:
                pass

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        for connection in accepted:
            connection.close()
        thread.join()


def first_request(connection: socket.socket) -> tuple[int, int]:
    """Version and correlation id of the ApiVersions request."""
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    frame = connection.recv(size, socket.MSG_WAITALL)
    return parse_request_header(memoryview(frame))[1:3]


def send_after_request(data: bytes, *, end: bool) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        first_request(connection)
        connection.sendall(data)
        if end:
            connection.shutdown(socket.SHUT_RDWR)

    return serve


def half_a_response(connection: socket.socket) -> None:
    version, correlation_id = first_request(connection)
    connection.sendall(response_frame(ApiVersionsResponse(), version, correlation_id)[:-1])


@pytest.mark.parametrize(
    ("serve", "reason"),
    [
        (lambda connection: None, Reason.TIMED_OUT),
        (half_a_response, Reason.TIMED_OUT),
        (send_after_request(b"\0\0\0\x20\0\0", end=False), Reason.TIMED_OUT),
        (send_after_request(b"\0\0\0\x20\0\0", end=True), Reason.CLOSED),
        (send_after_request(b"", end=True), Reason.CLOSED),
        (send_after_request(b"HTTP/1.1 400 Bad Request\r\n\r\n", end=False), Reason.PROTOCOL_ERROR),
        (send_after_request(struct.pack(">i", 1 << 30), end=False), Reason.PROTOCOL_ERROR),
        (send_after_request(struct.pack(">ii", 4, 77), end=False), Reason.PROTOCOL_ERROR),
        (send_after_request(struct.pack(">iih", 6, 1, 0), end=False), Reason.PROTOCOL_ERROR),
    ],
    ids=[
        "black hole",
        "half a response",
        "half a frame",
        "half a frame and the end",
        "end",
        "garbage",
        "oversized frame",
        "wrong correlation id",
        "cut message",
    ],
)
def test_a_listener_that_misbehaves(serve: Callable[[socket.socket], None], reason: Reason) -> None:
    async def scenario(address: str) -> None:
        setup_timeout_s = 0.3 if reason is Reason.TIMED_OUT else TIMEOUT_S
        client = Client(address, connection_setup_timeout_s=setup_timeout_s, reconnect_backoff_s=60.0)
        with pytest.raises(PeerError) as raised:
            await client.cluster_id()
        assert raised.value.reason is reason
        assert client.listener.reasons == [reason]
        assert client.listener.connections == 0
        client.peers.close()

    with server(serve) as address:
        asyncio.run(scenario(address))


def test_a_broker_that_stops_responding_times_out(make_broker: MakeBroker) -> None:
    """A stopped process keeps its sockets: only the timeout shows that it does not respond."""
    broker = make_broker()

    async def scenario() -> None:
        client = Client(broker.bootstrap)
        cluster_id = await client.cluster_id()
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            with pytest.raises(PeerError) as raised:
                await client.cluster_id(timeout_s=0.3)
            assert raised.value.reason is Reason.TIMED_OUT
            assert raised.value.sent
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert await client.cluster_id() == cluster_id
        client.peers.close()

    asyncio.run(scenario())
