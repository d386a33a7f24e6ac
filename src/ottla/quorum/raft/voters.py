"""The voters of a quorum: an immutable set of replicas, and the majorities in it.

A replica is identified by its node id and the id of the directory that holds its metadata log. A directory id of
zero means "unknown": clusters at kraft.version 0 do not record directory ids, so zero matches every directory.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ottla.base.ids import ZERO_UUID
from ottla.quorum.quorum import ListenerAddress


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
    """One voter and the addresses of its controller listeners."""

    key: ReplicaKey
    listeners: tuple[ListenerAddress, ...] = ()


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
        return voter is not None and voter.key.matches(key)

    @property
    def ids(self) -> tuple[int, ...]:
        """The node ids in ascending order."""
        return tuple(sorted(self._voters))

    def others(self, node_id: int) -> list[int]:
        """The node ids without this one, in ascending order."""
        return [voter_id for voter_id in self.ids if voter_id != node_id]

    def get(self, node_id: int) -> Voter | None:
        return self._voters.get(node_id)

    def key(self, node_id: int) -> ReplicaKey:
        """The key of a voter; one without a directory for any other node."""
        voter = self._voters.get(node_id)
        return ReplicaKey(node_id) if voter is None else voter.key

    @property
    def majority(self) -> int:
        """How many voters form a majority."""
        return len(self._voters) // 2 + 1

    def has_majority(self, node_ids: Iterable[int]) -> bool:
        """Whether these nodes contain a majority of the voters."""
        return len(self._voters.keys() & set(node_ids)) >= self.majority

    def majority_value(self, value_of: Callable[[int], float]) -> float:
        """The greatest value that a majority of the voters has reached."""
        values = sorted((value_of(node_id) for node_id in self._voters), reverse=True)
        return values[self.majority - 1]
