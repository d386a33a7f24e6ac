from __future__ import annotations

import contextlib
import random
import uuid
from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.base.files import OsDisk
from ottla.quorum.quorum_state import (
    FILE_NAME,
    RECOVERY_FILE,
    QuorumState,
    end_recovery,
    is_dynamic_state,
    is_recovering,
    prepare_replica,
    prepare_voter,
    read_quorum_state,
    write_quorum_state,
)
from ottla.testing.disk import SimDisk, Survival

KAFKA = (
    '{"leaderId":1,"leaderEpoch":4,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)
KAFKA_STATIC = (
    '{"clusterId":"","leaderId":1,"leaderEpoch":7,"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1}],"data_version":0}'
)


@pytest.mark.parametrize(("kraft_version", "text", "epoch"), [(1, KAFKA, 4), (0, KAFKA_STATIC, 7)])
def test_written_as_kafka_writes_it(tmp_path: Path, kraft_version: int, text: str, epoch: int) -> None:
    path = tmp_path / "quorum-state"
    state = QuorumState(epoch, 1)
    write_quorum_state(OsDisk(), str(path), state, kraft_version=kraft_version, node_id=1)
    assert path.read_text() == text
    assert read_quorum_state(OsDisk(), str(path)) == state


def test_vote_is_stored(tmp_path: Path) -> None:
    path = str(tmp_path / "quorum-state")
    state = QuorumState(5, voted_id=2, voted_directory_id=uuid.UUID(int=77))
    write_quorum_state(OsDisk(), path, state, kraft_version=1, node_id=1)
    assert read_quorum_state(OsDisk(), path) == state


def test_missing_file_is_epoch_0(tmp_path: Path) -> None:
    assert read_quorum_state(OsDisk(), str(tmp_path / "quorum-state")) == QuorumState(0)


@pytest.mark.parametrize("text", ["", "{}", "[]", "7", '{"leaderEpoch":"x"}', '{"leaderEpoch":null}'])
def test_damaged_file_stops_the_start(tmp_path: Path, text: str) -> None:
    path = tmp_path / "quorum-state"
    path.write_text(text)
    with pytest.raises(LocalError, match="quorum-state"):
        read_quorum_state(OsDisk(), str(path))


def test_the_version_says_whether_the_voters_are_in_the_log(tmp_path: Path) -> None:
    path = f"{tmp_path}/quorum-state"
    assert not is_dynamic_state(OsDisk(), path)
    prepare_voter(OsDisk(), str(tmp_path), 1, recovering=False)
    assert not is_dynamic_state(OsDisk(), path)
    prepare_replica(OsDisk(), str(tmp_path), 1)
    assert is_dynamic_state(OsDisk(), path)
    assert read_quorum_state(OsDisk(), path) == QuorumState(0)
    Path(path).write_text('{"leaderEpoch":3}')
    assert not is_dynamic_state(OsDisk(), path)
    Path(path).write_text("7")
    with pytest.raises(LocalError, match="quorum-state"):
        is_dynamic_state(OsDisk(), path)


# Voters that have lost their logs


def prepared(*, recovering: bool) -> SimDisk:
    disk = SimDisk(random.Random(1))
    prepare_voter(disk, "/m", 1, recovering=recovering)
    return disk


def test_a_voter_recovers_until_the_end_of_its_recovery_is_recorded() -> None:
    disk = prepared(recovering=True)
    for _ in range(2):
        assert is_recovering(disk, "/m")
        assert read_quorum_state(disk, f"/m/{FILE_NAME}") == QuorumState(0)
        disk = disk.crash(Survival.NONE)
    end_recovery(disk, "/m")
    for _ in range(2):
        assert not is_recovering(disk, "/m")
        disk = disk.crash(Survival.NONE)


def test_a_voter_that_has_lost_nothing_does_not_recover() -> None:
    assert not is_recovering(prepared(recovering=False), "/m")


def test_a_directory_that_is_prepared_again_recovers_only_if_it_has_to() -> None:
    """An earlier start may have been interrupted before the directory got its id."""
    for first, second in ((True, False), (False, True)):
        disk = prepared(recovering=first)
        prepare_voter(disk, "/m", 1, recovering=second)
        assert is_recovering(disk.crash(Survival.NONE), "/m") is second


@pytest.mark.parametrize("survival", list(Survival))
def test_a_voter_with_an_election_state_has_the_mark_of_its_recovery(survival: Survival) -> None:
    """Otherwise a crash could make a voter of a directory that has lost its log."""
    states = set()
    for change in range(20):
        disk = SimDisk(random.Random(change))
        disk.fail_at(change)
        with contextlib.suppress(OSError):
            prepare_voter(disk, "/m", 1, recovering=True)
        found = disk.crash(survival)
        has_state = found.exists(f"/m/{FILE_NAME}")
        assert found.exists(f"/m/{RECOVERY_FILE}") or not has_state
        states.add(has_state)
    assert states == {False, True}


def test_a_replica_is_prepared_with_a_state_that_names_no_leader() -> None:
    disk = SimDisk(random.Random(1))
    prepare_replica(disk, "/m", 1)
    found = disk.crash(Survival.NONE)
    assert is_dynamic_state(found, f"/m/{FILE_NAME}")
    assert read_quorum_state(found, f"/m/{FILE_NAME}") == QuorumState(0)
    assert not is_recovering(found, "/m")
