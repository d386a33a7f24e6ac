from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.base.files import OsDisk
from ottla.quorum.quorum_state import (
    QuorumState,
    is_dynamic_state,
    prepare_replica,
    prepare_voter,
    read_quorum_state,
    write_quorum_state,
)

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
    Path(path).write_text("7")
    with pytest.raises(LocalError, match="quorum-state"):
        is_dynamic_state(OsDisk(), path)
