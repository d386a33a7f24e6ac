"""The local node as a voter, and its check against the voters that a directory names."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

from ottla.base.errors import LocalError
from ottla.base.ids import uuid_text
from ottla.quorum.quorum import ListenerAddress
from ottla.wire.messages.control import Endpoint, KRaftVersionFeature, VotersRecord, VotersRecordVoter

KRAFT_VERSION_MAX: Final = 1


class LocalVoter:
    """This node as the only voter of its quorum."""

    __slots__ = ("directory_id", "listeners", "node_id")

    def __init__(self, node_id: int, directory_id: uuid.UUID, listeners: Sequence[ListenerAddress]) -> None:
        self.node_id = node_id
        self.directory_id = directory_id
        self.listeners = tuple(listeners)

    def record(self) -> VotersRecord:
        """The voters of a quorum that consists of this node only."""
        return VotersRecord(
            voters=[
                VotersRecordVoter(
                    voter_id=self.node_id,
                    voter_directory_id=self.directory_id,
                    endpoints=[Endpoint(name=at.name, host=at.host, port=at.port) for at in self.listeners],
                    kraft_version_feature=KRaftVersionFeature(max_supported_version=KRAFT_VERSION_MAX),
                )
            ]
        )

    def check(self, record: VotersRecord) -> None:
        """Raise LocalError if the log of `record` belongs to another quorum or another directory."""
        voters = {voter.voter_id: voter.voter_directory_id for voter in record.voters}
        if list(voters) != [self.node_id]:
            raise LocalError(
                f"the metadata log belongs to voters {sorted(voters)}, but this node is {self.node_id} and runs "
                "a quorum of one; check node.id and log.dirs. A voter of several needs a controller listener and "
                "controller.quorum.bootstrap.servers"
            )
        directory_id = voters[self.node_id]
        if directory_id != self.directory_id:
            raise LocalError(
                f"the metadata log belongs to directory {uuid_text(directory_id)}, but meta.properties names "
                f"directory {uuid_text(self.directory_id)}; restore the original meta.properties"
            )
