"""What identifies a replica and its quorum."""

from __future__ import annotations

from typing import NamedTuple

from ottla.quorum.quorum import ListenerAddress
from ottla.quorum.raft.timeouts import DEFAULT_TIMEOUTS, Timeouts
from ottla.quorum.raft.voters import ReplicaKey, VoterSet


class RaftSettings(NamedTuple):
    """What identifies a replica and its quorum."""

    cluster_id: str
    local: ReplicaKey
    voters: VoterSet
    snapshot_interval_bytes: int
    timeouts: Timeouts = DEFAULT_TIMEOUTS
    request_timeout_s: float = 2.0
    recovering: bool = False
    """This voter has lost its log: it gives no vote until it has everything that was committed."""
    static: bool = True
    """The settings list the voters and their addresses; those of messages do not count at kraft.version 0."""
    dynamic: bool = False
    """The voters are those of the log, and this node may become one; `voters` may know the leader."""
    bootstrap: tuple[int, ...] = ()
    """Ids under which the transport knows the bootstrap servers."""
    listener: str = "CONTROLLER"
    """The name of the listener through which the voters connect to each other."""
    listeners: tuple[ListenerAddress, ...] = ()
    """The controller listeners of this node."""
    auto_join: bool = False
    """Become a voter as soon as possible."""
