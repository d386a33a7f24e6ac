"""The state of the quorum as one of its replicas sees it, for DescribeQuorum."""

from __future__ import annotations

from collections.abc import Callable

from ottla.quorum.quorum import QuorumStatus, ReplicaStatus
from ottla.quorum.raft.core import Core
from ottla.quorum.raft.progress import ReplicaProgress


def describe(core: Core, now_ms: int, elapsed_ms: float, wall_ms: Callable[[float], int]) -> QuorumStatus:
    """The voters and observers; only the leader has the progress of the others.

    `elapsed_ms` is the time of the core; `wall_ms` turns such a time into milliseconds of the wall clock. The
    directories of static voters are not known, as in Kafka.
    """
    if core.leadership is not None:
        core.leadership.progress.forget_inactive(core.voters, elapsed_ms)
    replicas = [] if core.leadership is None else core.leadership.progress.replicas
    voters = []
    for voter in core.voters:
        node_id, directory_id = voter.key
        if voter.has(core.local):
            status = ReplicaStatus(node_id, directory_id, core.log_end.offset, now_ms, now_ms, ())
        else:
            progress = None if core.leadership is None else core.leadership.progress.voter(voter)
            status = _status(progress or ReplicaProgress(voter.key), wall_ms)
        voters.append(status._replace(directory_id=directory_id, listeners=voter.listeners))
    others: dict[int, ReplicaProgress] = {}  # the latest replica of each node
    for one in sorted(replicas, key=lambda each: each.last_fetch_ms):
        if one.key not in core.voters and one.key != core.local:
            others[one.key.node_id] = one
    observers = tuple(_status(one, wall_ms) for one in others.values())
    return QuorumStatus(core.leader_id, core.epoch, core.high_watermark, tuple(voters), observers)


def _status(one: ReplicaProgress, wall_ms: Callable[[float], int]) -> ReplicaStatus:
    return ReplicaStatus(
        one.key.node_id,
        one.key.directory_id,
        one.end_offset,
        wall_ms(one.last_fetch_ms),
        wall_ms(one.last_caught_up_ms),
        (),
    )
