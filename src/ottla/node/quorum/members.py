"""The quorum as a node knows it when it starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.node.settings.quorum_config import VoterAddress


class QuorumMembers(NamedTuple):
    """The quorum, as the settings of this node and other controllers name it."""

    voters: tuple[VoterAddress, ...] = ()
    """Static voters, or nodes that may know the leader."""
    static: bool = False
    """The settings list the voters."""
    dynamic: bool = False
    """The voters are in the log, and this node may become one of them."""
    founds: bool = False
    """This node founds the quorum if its directory is empty."""
    bootstrap: tuple[VoterAddress, ...] = ()
    """The bootstrap servers, under ids that no node has."""


def bootstrap_members(servers: Sequence[tuple[str, int]]) -> tuple[VoterAddress, ...]:
    """Bootstrap servers under negative ids, as in Kafka: it is not known which nodes they are."""
    return tuple(VoterAddress(-2 - at, host, port) for at, (host, port) in enumerate(servers))
