"""What a local cluster is started with: given values, those of its directory, defaults; and what is refused."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.base.files import OsLock
from ottla.local.cluster_directory import (
    NAME,
    ClusterDescription,
    check_ports,
    check_unused,
    describe,
    on_free_ports,
    save,
)
from ottla.local.ports import free_port


def test_an_empty_directory_gets_the_defaults(tmp_path: Path) -> None:
    assert describe(tmp_path, None, None, None) == ClusterDescription(3, (), 9092, voters=(0, 1, 2))


def test_the_next_start_opens_the_same_cluster(tmp_path: Path) -> None:
    save(tmp_path, describe(tmp_path, 6, ["R1", "R2"], 20_000))
    voters = (0, 1, 2, 3, 4)
    expected = ClusterDescription(6, ("R1", "R2"), 20_000, voters=voters)
    assert describe(tmp_path, None, None, None) == expected
    assert describe(tmp_path, 6, ["A"], 9092) == ClusterDescription(6, ("A",), 9092, voters=voters)


def test_the_controllers_of_a_directory_cannot_change(tmp_path: Path) -> None:
    save(tmp_path, describe(tmp_path, 4, ["R1", "R2", "R3"], None))
    assert describe(tmp_path, None, ["R1"], None).voters == (0, 2, 3)
    (tmp_path / NAME).write_text('{"brokers": 4, "racks": ["R1", "R2", "R3"], "port": 9092}')
    assert describe(tmp_path, None, None, None).voters == (0, 1, 2), "as before they were recorded"


def test_the_number_of_brokers_of_a_directory_cannot_change(tmp_path: Path) -> None:
    save(tmp_path, ClusterDescription(5))
    with pytest.raises(LocalError, match=r"another cluster size \(5, not 3\); use --brokers 5"):
        describe(tmp_path, 3, None, None)


def test_the_directory_of_a_single_broker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    with pytest.raises(LocalError, match="data of a single broker"):
        describe(tmp_path, 3, None, None)


@pytest.mark.parametrize("content", ["", "[]", '{"brokers": 3}', '{"brokers": "x", "racks": [], "port": 1}'])
def test_a_damaged_description_is_reported(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content)
    with pytest.raises(LocalError, match=r"cannot read .*cluster.json"):
        describe(tmp_path, None, None, None)


@pytest.mark.parametrize(
    ("brokers", "racks", "port", "reason"),
    [
        (2, ["a", "b", "c"], None, "3 racks need at least as many brokers, not 2"),
        (3, ["a", "a"], None, "named twice"),
        (3, None, 65_000, "too high"),
    ],
)
def test_values_that_do_not_fit_are_refused(
    tmp_path: Path, brokers: int, racks: list[str] | None, port: int | None, reason: str
) -> None:
    with pytest.raises(LocalError, match=reason):
        describe(tmp_path, brokers, racks, port)


def test_a_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        taken = server.getsockname()[1]
        with pytest.raises(LocalError, match=rf"\b{taken}\b.* in use on 127\.0\.0\.1"):
            check_ports(ClusterDescription(2, (), taken - 1))


def test_free_ports_are_chosen_for_all_brokers() -> None:
    moved = on_free_ports(ClusterDescription(3, ("R1",), 1))
    assert (moved.brokers, moved.racks) == (3, ("R1",))
    check_ports(moved)


def test_a_directory_that_contains_the_directory_of_a_cluster_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    save(tmp_path / "cluster", ClusterDescription(3))
    with pytest.raises(LocalError, match=f"use --data {tmp_path}/cluster or another directory"):
        describe(tmp_path, 3, None, None)


def test_a_directory_with_a_running_broker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broker-1").mkdir()
    check_unused(tmp_path)
    lock = OsLock(str(tmp_path / "broker-1" / ".lock"))
    with pytest.raises(LocalError, match=f"a broker runs with {tmp_path}/broker-1; stop the command"):
        check_unused(tmp_path)
    lock.release()
    check_unused(tmp_path)


def test_a_description_that_cannot_be_written_leaves_the_former_one(tmp_path: Path) -> None:
    save(tmp_path, ClusterDescription(3))
    (tmp_path / f"{NAME}.new").mkdir()
    with pytest.raises(LocalError, match=r"cannot write .*cluster\.json: Is a directory"):
        save(tmp_path, ClusterDescription(5))
    assert describe(tmp_path, None, None, None).brokers == 3
