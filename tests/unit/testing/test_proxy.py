"""Faults of single directions between nodes, on real sockets with an echo server as the broker."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from ottla.local.ports import free_ports
from ottla.testing.proxy import CLIENT, NO_FAULT, Fault, ProxyNetwork
from tests.support.waiting import wait_until

TARGET = 7
ORIGIN = 3
SILENCE_S = 0.2


class EchoServer:
    """Sends back what it receives, and counts it."""

    def __init__(self, port: int) -> None:
        self.received = b""
        self._server = socket.create_server(("127.0.0.1", port))
        self.connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self.connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := connection.recv(1 << 16):
                self.received += piece
                connection.sendall(piece)

    def close(self) -> None:
        for each in (self._server, *self.connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


class Setup:
    def __init__(self, processes: dict[int, int]) -> None:
        self.port, target = free_ports(2)
        self.echo = EchoServer(target)
        self.network = ProxyNetwork(lambda: processes)
        self.network.add(TARGET, self.port, target)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 30)


@pytest.fixture
def setup() -> Iterator[Setup]:
    made = Setup({})
    yield made
    made.network.shut_down()
    made.echo.close()


def test_bytes_pass_in_both_directions(setup: Setup) -> None:
    with setup.connect() as client:
        sent = b"0123456789" * 100_000
        threading.Thread(target=client.sendall, args=(sent,), daemon=True).start()
        received = bytearray()
        while len(received) < len(sent):
            received += client.recv(1 << 16)
        assert received == sent


def test_in_a_cut_direction_nothing_arrives_and_nothing_is_closed(setup: Setup) -> None:
    with setup.connect() as client:
        client.sendall(b"a")
        assert client.recv(10) == b"a"
        setup.network.set_fault(TARGET, CLIENT, Fault(cut=True))
        client.sendall(b"b")
        wait_until(lambda: setup.echo.received == b"ab", "the direction that is not cut")
        client.settimeout(SILENCE_S)
        with pytest.raises(TimeoutError):
            client.recv(10)
        client.settimeout(30)
        setup.network.set_fault(TARGET, CLIENT, NO_FAULT)
        assert client.recv(10) == b"b"


def test_while_cut_a_new_connection_is_silent_and_works_afterwards(setup: Setup) -> None:
    setup.network.set_fault(CLIENT, TARGET, Fault(cut=True))
    with setup.connect() as client:
        client.sendall(b"a")
        client.settimeout(SILENCE_S)
        with pytest.raises(TimeoutError):
            client.recv(10)
        assert setup.echo.connections == []
        setup.network.clear_faults()
        client.settimeout(30)
        assert client.recv(10) == b"a"


def test_the_end_of_a_process_is_not_seen_through_a_cut(setup: Setup) -> None:
    with setup.connect() as client:
        client.sendall(b"a")
        assert client.recv(10) == b"a"
        setup.network.set_faults({(TARGET, CLIENT): Fault(cut=True), (CLIENT, TARGET): Fault(cut=True)})
        setup.echo.close()
        client.settimeout(SILENCE_S)
        with pytest.raises(TimeoutError):
            client.recv(10)
        setup.network.clear_faults()
        client.settimeout(30)
        with pytest.raises(ConnectionResetError):
            client.recv(10)


def test_a_reset_closes_the_connections_once(setup: Setup) -> None:
    with setup.connect() as client:
        client.sendall(b"a")
        assert client.recv(10) == b"a"
        setup.network.reset(TARGET, CLIENT)
        with pytest.raises(ConnectionResetError):
            client.recv(10)
    with setup.connect() as client:
        client.sendall(b"b")
        assert client.recv(10) == b"b"


def test_a_slow_direction_delivers_everything_in_order(setup: Setup) -> None:
    setup.network.set_fault(CLIENT, TARGET, Fault(delay_s=0.001, rate=20_000))
    sent = bytes(range(250)) * 8
    with setup.connect() as client:
        client.sendall(sent)
        received = bytearray()
        while len(received) < len(sent):
            received += client.recv(1 << 16)
    assert received == sent


def test_closed_listeners_refuse_connections_until_they_are_opened(setup: Setup) -> None:
    setup.network.close_listeners(TARGET)
    with pytest.raises(ConnectionRefusedError):
        setup.connect()
    setup.network.open(TARGET)
    with setup.connect() as client:
        client.sendall(b"a")
        assert client.recv(10) == b"a"


def test_the_origin_of_a_connection_is_the_broker_whose_process_has_opened_it() -> None:
    setup = Setup({ORIGIN: os.getpid()})
    try:
        setup.network.set_fault(CLIENT, TARGET, Fault(cut=True))
        with setup.connect() as client:
            client.sendall(b"a")
            assert client.recv(10) == b"a", "not affected by the fault of clients"
            setup.network.set_fault(ORIGIN, TARGET, Fault(cut=True))
            client.sendall(b"b")
            client.settimeout(SILENCE_S)
            with pytest.raises(TimeoutError):
                client.recv(10)
    finally:
        setup.network.shut_down()
        setup.echo.close()
