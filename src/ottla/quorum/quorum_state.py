"""The file `quorum-state`: the epoch this node has seen, and for whom it voted there.

A JSON object beside the metadata log. Version 1 is Kafka 4's; version 0, of clusters whose voters stand in
the settings, has more fields, which we keep. An epoch is durable here before anything is done in it, so
that no two terms of office ever share a number.

Crash policy: replaced as a whole. A missing file is epoch 0; one that does not parse stops the start,
because an epoch that is guessed could be used twice.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from ottla.base.errors import LocalError
from ottla.base.files import Disk
from ottla.base.ids import ZERO_UUID, uuid_text

FILE_NAME: Final = "quorum-state"
NOBODY: Final = -1


class QuorumState(msgspec.Struct, frozen=True):
    """Who leads in which epoch."""

    leader_epoch: int
    leader_id: int = NOBODY


def read_quorum_state(disk: Disk, path: str) -> QuorumState:
    """The stored state; epoch 0 without a leader if there is none."""
    if not disk.exists(path):
        return QuorumState(0)
    try:
        content = json.loads(disk.read(path))
        return QuorumState(int(content["leaderEpoch"]), int(content.get("leaderId", NOBODY)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LocalError(f"{path} is damaged: {error!r}") from error


def write_quorum_state(
    disk: Disk, path: str, state: QuorumState, *, kraft_version: int, node_id: int
) -> None:
    """Store the state, durably."""
    content: dict[str, Any] = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": NOBODY,
    }
    if kraft_version == 0:
        content = {"clusterId": "", **content, "appliedOffset": 0, "currentVoters": [{"voterId": node_id}]}
    else:
        content["votedDirectoryId"] = uuid_text(ZERO_UUID)
    content["data_version"] = 1 if kraft_version else 0
    disk.replace(path, json.dumps(content, separators=(",", ":")).encode())
