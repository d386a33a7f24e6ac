"""The file `quorum-state`: the highest epoch that this node has seen, its leader, and this node's vote.

A JSON object beside the metadata log. Version 1 is Kafka 4's format. Version 0, of clusters whose voters are
listed in the configuration, has more fields, which are written too. An epoch and a vote are durable here
before the node acts on them, so that two leaders never share an epoch.

Crash policy: the file is replaced as a whole. A missing file is epoch 0. A file that does not parse stops the
start, because a guessed epoch could be used twice.
"""

from __future__ import annotations

import json
import uuid
from typing import Any, Final

import msgspec

from ottla.base.errors import LocalError
from ottla.base.files import Disk
from ottla.base.ids import ZERO_UUID, parse_uuid, uuid_text

FILE_NAME: Final = "quorum-state"
RECOVERY_FILE: Final = "quorum-recovery"
"""Exists beside `quorum-state` while a voter recovers a lost log (`quorum.raft.recovery`)."""
NO_NODE: Final = -1


class QuorumState(msgspec.Struct, frozen=True):
    """The leader of an epoch, and the candidate for which this node voted in it."""

    leader_epoch: int
    leader_id: int = NO_NODE
    voted_id: int = NO_NODE
    voted_directory_id: uuid.UUID = ZERO_UUID


def read_quorum_state(disk: Disk, path: str) -> QuorumState:
    """Read the stored state; epoch 0 without a leader if the file is missing."""
    if not disk.exists(path):
        return QuorumState(0)
    try:
        content = json.loads(disk.read(path))
        voted_directory = content.get("votedDirectoryId")
        return QuorumState(
            int(content["leaderEpoch"]),
            int(content.get("leaderId", NO_NODE)),
            int(content.get("votedId", NO_NODE)),
            parse_uuid(voted_directory) if voted_directory else ZERO_UUID,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LocalError(f"{path} is damaged: {error!r}; restore it from a backup") from error


def write_quorum_state(
    disk: Disk, path: str, state: QuorumState, *, kraft_version: int, node_id: int
) -> None:
    """Store the state durably. Blocks, so it is called in a worker thread."""
    content: dict[str, Any] = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
    }
    if kraft_version == 0:
        content = {"clusterId": "", **content, "appliedOffset": 0, "currentVoters": [{"voterId": node_id}]}
    else:
        content["votedDirectoryId"] = uuid_text(state.voted_directory_id)
    content["data_version"] = 1 if kraft_version else 0
    disk.replace(path, json.dumps(content, separators=(",", ":")).encode())


def is_dynamic_state(disk: Disk, path: str) -> bool:
    """Whether the stored state is that of a replica whose voters are in the log (version 1)."""
    if not disk.exists(path):
        return False
    try:
        return bool(json.loads(disk.read(path)).get("data_version", 0))
    except (ValueError, AttributeError) as error:
        raise LocalError(f"{path} is damaged: {error!r}; restore it from a backup") from error


def prepare_replica(disk: Disk, directory: str, node_id: int) -> None:
    """Prepare the empty metadata directory of a controller that may become a voter, durably.

    It is done before the directory gets its id: a directory with an id and without this file has lost its vote.
    """
    disk.makedirs(directory)
    write_quorum_state(disk, f"{directory}/{FILE_NAME}", QuorumState(0), kraft_version=1, node_id=node_id)


def prepare_voter(disk: Disk, directory: str, node_id: int, *, recovering: bool) -> None:
    """Prepare the empty metadata directory of a voter with static voters, durably.

    The mark of a recovering voter is durable first, so that it is never forgotten.
    """
    disk.makedirs(directory)
    if recovering:
        disk.replace(f"{directory}/{RECOVERY_FILE}", b"")
    elif is_recovering(disk, directory):
        end_recovery(disk, directory)
    write_quorum_state(disk, f"{directory}/{FILE_NAME}", QuorumState(0), kraft_version=0, node_id=node_id)


def is_recovering(disk: Disk, directory: str) -> bool:
    """Whether the voter of this directory has lost its log and does not vote yet."""
    return disk.exists(f"{directory}/{RECOVERY_FILE}")


def end_recovery(disk: Disk, directory: str) -> None:
    """Record that the voter votes again. Blocks."""
    disk.remove(f"{directory}/{RECOVERY_FILE}")
    disk.sync_dir(directory)
