"""Free ports are different, free, and not in the range of client ports."""

from __future__ import annotations

import socket

import pytest

from ottla.local import ports
from ottla.local.ports import FIRST, free_ports, is_free


def test_ports_are_different_and_below_the_range_of_clients() -> None:
    found = free_ports(40)
    assert len(set(found)) == 40
    assert all(FIRST <= port < 32_768 for port in found)


def test_a_port_in_use_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)


def test_a_port_in_use_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", free_ports(1)[0])) as server:
        taken = server.getsockname()[1]
        monkeypatch.setattr(ports, "_range", lambda: (taken - 3, taken + 4))
        assert taken not in {port for _ in range(20) for port in free_ports(2)}


def test_workers_of_one_test_run_have_different_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    first, end = ports._range()
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "3")
    parts = []
    for name in ("gw0", "gw1", "gw2"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", name)
        parts.append(ports._range())
    assert parts[0][0] == first
    assert [stop for _, stop in parts[:2]] == [start for start, _ in parts[1:]]
    assert end - 3 < parts[2][1] <= end
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw4")  # replaces a crashed worker
    assert ports._range() == parts[1]


@pytest.mark.parametrize(("name", "count"), [("master", "3"), ("gw1", ""), ("gw1", "0"), ("gw1", "many")])
def test_without_workers_all_ports_are_used(monkeypatch: pytest.MonkeyPatch, name: str, count: str) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    expected = ports._range()
    monkeypatch.setenv("PYTEST_XDIST_WORKER", name)
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", count)
    assert ports._range() == expected
