"""The process that has opened a connection is found by its port."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from ottla.local.ports import free_port
from ottla.testing.socket_owner import owner_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the tables of the Linux kernel")


def test_the_owner_of_a_connection_is_found() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        remote = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", remote)) as client:
            port = client.getsockname()[1]
            assert owner_of(port, remote, [1, os.getpid()]) == os.getpid()
            assert owner_of(port, remote, []) is None
            assert owner_of(port, remote + 1, [os.getpid()]) is None


def test_the_owner_of_a_socket_for_both_families_is_found() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        remote = server.getsockname()[1]
        with socket.socket(socket.AF_INET6) as client:
            client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            client.connect(("::ffff:127.0.0.1", remote))
            assert owner_of(client.getsockname()[1], remote, [os.getpid()]) == os.getpid()


def test_the_table_of_all_sockets_is_read_where_the_kernel_has_no_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unsupported(*_: object) -> str:
        raise OSError("protocol not supported")

    monkeypatch.setattr("ottla.testing.socket_owner._inode_by_query", unsupported)
    test_the_owner_of_a_connection_is_found()
    test_the_owner_of_a_socket_for_both_families_is_found()


def test_a_process_that_has_ended_owns_nothing() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        remote = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", remote)) as client:
            assert owner_of(client.getsockname()[1], remote, [2**22 + 1]) is None
