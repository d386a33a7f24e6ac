"""The voters of a quorum: an immutable set of replicas, the majorities in it, and its record in the log.

A replica is identified by its node id and the id of the directory that holds its metadata log. A directory id of
zero means "unknown": clusters at kraft.version 0 do not record directory ids, so zero matches every directory.
A voter with a directory id is this replica only: a node that returns with another directory is not the voter.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from ottla.base.ids import ZERO_UUID
from ottla.quorum.quorum import ListenerAddress
from ottla.wire.messages.control import Endpoint, KRaftVersionFeature, VotersRecord, VotersRecordVoter

KRAFT_VERSIONS: Final = (0, 1)
"""The lowest and the highest kraft.version that this release supports."""


class ReplicaKey(NamedTuple):
    """The identity of one replica of the metadata log."""

    node_id: int
    directory_id: uuid.UUID = ZERO_UUID

    def matches(self, other: ReplicaKey) -> bool:
        """Whether both name the same replica, as far as the directory ids are known."""
        if self.node_id != other.node_id:
            return False
        return ZERO_UUID in (self.directory_id, other.directory_id) or self.directory_id == other.directory_id


class Voter(NamedTuple):
    """One voter, the addresses of its controller listeners, and the kraft.versions that it supports."""

    key: ReplicaKey
    listeners: tuple[ListenerAddress, ...] = ()
    kraft_versions: tuple[int, int] = KRAFT_VERSIONS

    def has(self, replica: ReplicaKey) -> bool:
        """Whether this replica is the voter. The directory of a static voter is not known: any one counts."""
        return self.key == replica or self.key == ReplicaKey(replica.node_id)


class VoterSet:
    """The voters by node id; immutable."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[Voter]) -> None:
        self._voters = {voter.key.node_id: voter for voter in voters}

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    def __len__(self) -> int:
        return len(self._voters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and other._voters == self._voters

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._voters)))

    def __contains__(self, key: ReplicaKey) -> bool:
        voter = self._voters.get(key.node_id)
        return voter is not None and voter.has(key)

    @property
    def ids(self) -> tuple[int, ...]:
        """The node ids in ascending order."""
        return tuple(sorted(self._voters))

    def others(self, node_id: int) -> list[int]:
        """The node ids without this one, in ascending order."""
        return [voter_id for voter_id in self.ids if voter_id != node_id]

    def __getitem__(self, key: ReplicaKey) -> Voter:
        """The voter that this replica is."""
        return self._voters[key.node_id]

    def get(self, node_id: int) -> Voter | None:
        return self._voters.get(node_id)

    def key(self, node_id: int) -> ReplicaKey:
        """The key of a voter; one without a directory for any other node."""
        voter = self._voters.get(node_id)
        return ReplicaKey(node_id) if voter is None else voter.key

    @property
    def keys(self) -> frozenset[ReplicaKey]:
        return frozenset(voter.key for voter in self._voters.values())

    def with_voter(self, voter: Voter) -> VoterSet:
        """The set with this voter added, or in place of the one with its node id."""
        return VoterSet([*(each for each in self if each.key.node_id != voter.key.node_id), voter])

    def without(self, key: ReplicaKey) -> VoterSet:
        """The set without this voter."""
        return VoterSet(each for each in self if each.key != key)

    def record(self) -> VotersRecord:
        """The control record of this set."""
        return VotersRecord(
            voters=[
                VotersRecordVoter(
                    voter_id=each.key.node_id,
                    voter_directory_id=each.key.directory_id,
                    endpoints=[Endpoint(name=at.name, host=at.host, port=at.port) for at in each.listeners],
                    kraft_version_feature=KRaftVersionFeature(
                        min_supported_version=each.kraft_versions[0],
                        max_supported_version=each.kraft_versions[1],
                    ),
                )
                for each in sorted(self)
            ]
        )

    @staticmethod
    def of(record: VotersRecord) -> VoterSet:
        """The set that a control record names."""
        return VoterSet(
            Voter(
                ReplicaKey(each.voter_id, each.voter_directory_id),
                tuple(ListenerAddress(at.name, at.host, at.port) for at in each.endpoints),
                (
                    each.kraft_version_feature.min_supported_version,
                    each.kraft_version_feature.max_supported_version,
                ),
            )
            for each in record.voters
        )

    @property
    def majority(self) -> int:
        """How many voters form a majority."""
        return len(self._voters) // 2 + 1

    def has_majority(self, node_ids: Iterable[int]) -> bool:
        """Whether these nodes contain a majority of the voters."""
        return len(self._voters.keys() & set(node_ids)) >= self.majority

    def majority_value(self, value_of: Callable[[Voter], float]) -> float:
        """The greatest value that a majority of the voters has reached."""
        values = sorted(map(value_of, self), reverse=True)
        return values[self.majority - 1]
