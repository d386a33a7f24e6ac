"""What the metadata directory of a node shows at a start: whether it has metadata, has voted, and where voters are."""

from __future__ import annotations

import random

import pytest

from ottla.node.quorum.members import bootstrap_members
from ottla.node.quorum.metadata import has_metadata, has_voted, is_dynamic, metadata_directory
from ottla.quorum.quorum_state import FILE_NAME, prepare_replica, prepare_voter
from ottla.quorum.snapshots import SnapshotId, SnapshotStore, encode_snapshot
from ottla.testing.disk import SimDisk
from ottla.wire.messages.control import KRaftVersionRecord

HOME = "/data"
DIRECTORY = metadata_directory(HOME)


def empty() -> SimDisk:
    disk = SimDisk(random.Random(1))
    disk.makedirs(HOME)
    return disk


def snapshot(disk: SimDisk, offset: int, level: int | None) -> None:
    """A snapshot that has this level of kraft.version, or none."""
    disk.makedirs(DIRECTORY)
    controls = [] if level is None else [KRaftVersionRecord(kraft_version=level)]
    data = encode_snapshot((), epoch=1, last_timestamp_ms=0, controls=controls, now_ms=0)
    SnapshotStore(disk, DIRECTORY).write(SnapshotId(offset, 1), data)


def shows(disk: SimDisk) -> tuple[bool, bool, bool]:
    return has_metadata(disk, HOME), has_voted(disk, HOME), is_dynamic(disk, HOME)


def test_an_empty_directory_shows_nothing() -> None:
    disk = empty()
    assert shows(disk) == (False, False, False)
    disk.makedirs(DIRECTORY)
    assert shows(disk) == (False, False, False)


def test_a_replica_that_was_prepared_has_voted_and_has_no_metadata() -> None:
    disk = empty()
    prepare_voter(disk, DIRECTORY, 1, recovering=False)
    assert shows(disk) == (False, True, False)
    prepare_replica(disk, DIRECTORY, 1)
    assert shows(disk) == (False, True, True)


@pytest.mark.parametrize("name", [f"{0:020d}.log", f"{5:020d}-{1:010d}.checkpoint"])
def test_a_log_or_a_snapshot_is_metadata_also_without_an_election_state(name: str) -> None:
    disk = empty()
    disk.makedirs(DIRECTORY)
    disk.replace(f"{DIRECTORY}/{name}", b"")
    assert shows(disk) == (True, True, False)


def test_other_files_are_no_metadata() -> None:
    disk = empty()
    disk.makedirs(DIRECTORY)
    disk.replace(f"{DIRECTORY}/partition.metadata", b"")
    assert shows(disk) == (False, False, False)


@pytest.mark.parametrize(("level", "dynamic"), [(None, False), (0, False), (1, True)])
def test_the_snapshot_of_formatting_says_where_the_voters_are(level: int | None, dynamic: bool) -> None:
    disk = empty()
    snapshot(disk, 0, level)
    assert shows(disk) == (True, True, dynamic)


def test_the_newest_snapshot_that_can_be_read_counts() -> None:
    disk = empty()
    snapshot(disk, 0, None)
    snapshot(disk, 9, 1)
    assert is_dynamic(disk, HOME)
    snapshot(disk, 12, None)
    assert not is_dynamic(disk, HOME)
    disk.corrupt(f"{DIRECTORY}/{SnapshotId(12, 1).file_name}", 70)
    assert is_dynamic(disk, HOME)


def test_static_voters_with_a_snapshot_are_not_dynamic() -> None:
    disk = empty()
    prepare_voter(disk, DIRECTORY, 1, recovering=False)
    snapshot(disk, 9, None)
    assert disk.exists(f"{DIRECTORY}/{FILE_NAME}")
    assert shows(disk) == (True, True, False)


def test_bootstrap_servers_have_ids_that_no_node_has() -> None:
    members = bootstrap_members([("one", 1), ("two", 2)])
    assert [tuple(each) for each in members] == [(-2, "one", 1), (-3, "two", 2)]
