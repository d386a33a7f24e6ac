"""AddRaftVoter and RemoveRaftVoter in a quorum of one whose voter is in its log (kraft.version 1)."""

from __future__ import annotations

import uuid
from typing import Any

from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from tests.compat.differential.catalog import scenario
from tests.compat.differential.player import Player

OTHER = uuid.UUID(int=7)
UNREACHABLE = Listener(name="CONTROLLER", host="127.0.0.1", port=1)
KEYS: dict[str, dict[str, Any]] = {
    "another cluster": {"cluster_id": "another"},
    "another cluster, no id": {"cluster_id": "", "voter_id": -1},
    "no cluster": {"cluster_id": None},
    "no id": {"voter_id": -1},
    "a negative id": {"voter_id": -7},
    "no directory": {"voter_directory_id": uuid.UUID(int=0)},
}


def identity(player: Player) -> dict[str, Any]:
    """Cluster, node and directory of the only voter."""
    topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    (voter,) = player.quietly(DescribeQuorumRequest(topics=[topic]), 2).topics[0].partitions[0].current_voters
    return {
        "cluster_id": player.quietly(MetadataRequest(topics=[]), 12).cluster_id,
        "voter_id": voter.replica_id,
        "voter_directory_id": voter.replica_directory_id,
    }


@scenario(AddRaftVoterRequest)
def add_voter(player: Player) -> None:
    def ask(label: str, **fields: Any) -> None:
        player.ask(
            label, AddRaftVoterRequest(**{"timeout_ms": 2_000, "listeners": [UNREACHABLE]} | known | fields)
        )

    known = identity(player)
    ask("the voter")
    ask("the voter in another directory", voter_directory_id=OTHER)
    for label, fields in KEYS.items():
        ask(label, **fields)
    ask("no listener", listeners=[])
    ask("another listener", listeners=[Listener(name="X", host="127.0.0.1", port=1)])
    ask("a listener in small letters", voter_id=known["voter_id"], listeners=[Listener(name="controller")])
    ask("an unreachable node", voter_id=77, voter_directory_id=OTHER)
    ask("an unreachable node, no time", voter_id=77, voter_directory_id=OTHER, timeout_ms=0)


@scenario(RemoveRaftVoterRequest)
def remove_voter(player: Player) -> None:
    def ask(label: str, **fields: Any) -> None:
        player.ask(label, RemoveRaftVoterRequest(**known | fields))

    known = identity(player)
    ask("the last voter")
    ask("the voter in another directory", voter_directory_id=OTHER)
    ask("an unreachable node", voter_id=77, voter_directory_id=OTHER)
    for label, fields in KEYS.items():
        ask(label, **fields)
