"""Changes of the voters by the leader of the quorum (KIP-853): one voter at a time, and one change at a time.

Rules that safety depends on:

- A change is accepted only when the leader has committed a record of its own epoch, and the newest record of voters
  is committed. Otherwise two sets without a common majority could be in force at the same time.
- One replica is added or removed, so each majority of the old set has a member in each majority of the new one.
- A new set is in force when it is in the log. A leader that is not in it does not count itself.

A new voter is added when it has responded to a probe of the versions that it supports, and has caught up; the request
waits for that. A change that has been appended is not withdrawn when its request times out: it may be committed later.

Owned by the core; the pending change ends with the leadership.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.quorum.raft.leader import Leadership
from ottla.quorum.raft.messages import Changed, Effect, ProbeVoter
from ottla.quorum.raft.voter_history import VoterHistory
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet

_TIMED_OUT: Final = ErrorCode.REQUEST_TIMED_OUT
Append = Callable[[float, VoterSet], int]


@dataclass(slots=True)
class _Pending:
    """A change that is not finished."""

    token: Hashable | None
    """None when the request has its response."""
    deadline_ms: float
    added: Voter | None = None
    probed: bool = False
    offset: int | None = None
    """Where its record is; None before it has been appended."""
    wait_for_commit: bool = True


class VoterChanges:
    """The changes of one replica while it leads. Each request gets exactly one `Changed`."""

    def __init__(self, history: VoterHistory, append: Append, emit: Callable[[Effect], None]) -> None:
        """`append` appends a record of voters and returns its offset."""
        self._history = history
        self._append = append
        self._emit = emit
        self._pending: _Pending | None = None

    def wake_at_ms(self) -> float:
        return math.inf if self._pending is None else self._pending.deadline_ms

    def add(
        self,
        now_ms: float,
        token: Hashable,
        leadership: Leadership | None,
        voter: Voter,
        timeout_ms: float,
        *,
        wait_for_commit: bool = True,
    ) -> None:
        """Add a voter: probe it, wait until it has caught up, and append the new set."""
        if not self._accepted(token, leadership):
            return
        if self._history.last.voters.get(voter.key.node_id) is not None:
            text = f"node {voter.key.node_id} is a voter already"
            self._emit(Changed(token, ErrorCode.DUPLICATE_VOTER, text))
            return
        self._pending = _Pending(token, now_ms + timeout_ms, voter, wait_for_commit=wait_for_commit)
        self._emit(ProbeVoter(voter))

    def remove(
        self,
        now_ms: float,
        token: Hashable,
        leadership: Leadership | None,
        key: ReplicaKey,
        timeout_ms: float,
    ) -> None:
        """Remove a voter, perhaps the leader itself, but not the last one."""
        if not self._accepted(token, leadership):
            return
        voters = self._history.last.voters
        if key not in voters.keys or len(voters) == 1:
            known = key in voters.keys
            text = (
                "the last voter cannot be removed" if known else "no voter has this node id and directory id"
            )
            self._emit(Changed(token, ErrorCode.VOTER_NOT_FOUND, text))
            return
        self._pending = _Pending(token, now_ms + timeout_ms)
        self._change(self._pending, now_ms, voters.without(key))

    def update(self, now_ms: float, token: Hashable, leadership: Leadership | None, voter: Voter) -> None:
        """Replace the addresses and versions of a voter; the response does not wait for the commit."""
        if not self._accepted(token, leadership):
            return
        voters = self._history.last.voters
        low, high = voter.kraft_versions
        if not low <= self._history.kraft_version <= high:
            self._emit(Changed(token, ErrorCode.INVALID_REQUEST, "kraft.version is not supported"))
        elif voter.key not in voters.keys:
            self._emit(Changed(token, ErrorCode.VOTER_NOT_FOUND, "no such voter"))
        else:
            self._append(now_ms, voters.with_voter(voter))
            self._emit(Changed(token, ErrorCode.NONE, ""))

    def _accepted(self, token: Hashable, leadership: Leadership | None) -> bool:
        """Whether a change may begin; responds if not."""
        error, text = _TIMED_OUT, ""
        if leadership is None:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif self._pending is not None:
            text = "another change of the voters is not finished"
        elif leadership.high_watermark <= leadership.progress.epoch_start:
            text = "the leader has not committed a record of its epoch yet"
        elif not self._history.kraft_version:
            error, text = ErrorCode.UNSUPPORTED_VERSION, "the voters are static (kraft.version is 0)"
        elif self._history.last.offset >= leadership.high_watermark:
            text = "the latest change of the voters is not committed yet"
        else:
            return True
        self._emit(Changed(token, error, text))
        return False

    def probed(
        self, now_ms: float, key: ReplicaKey, leadership: Leadership, kraft_versions: tuple[int, int] | None
    ) -> None:
        """The new voter has responded with the versions of kraft.version that it supports; None if it has not."""
        pending = self._pending
        if pending is None or pending.added is None or pending.probed or pending.added.key != key:
            return
        level = self._history.kraft_version
        if kraft_versions is None:
            self._finish(_TIMED_OUT, f"node {key.node_id} does not respond at its controller listener")
        elif not kraft_versions[0] <= level <= kraft_versions[1]:
            text = f"node {key.node_id} does not support kraft.version {level}"
            self._finish(ErrorCode.INVALID_REQUEST, text)
        else:
            pending.added = pending.added._replace(kraft_versions=kraft_versions)
            pending.probed = True
            self.proceed(now_ms, leadership)

    def proceed(self, now_ms: float, leadership: Leadership) -> None:
        """Append the new set once the new voter has caught up; finish the change when it is committed, or late."""
        pending = self._pending
        if pending is None:
            return
        added = pending.added if pending.probed and pending.offset is None else None
        if added is not None and leadership.progress.is_caught_up(added.key, now_ms, leadership.fetch_ms):
            self._change(pending, now_ms, self._history.last.voters.with_voter(added))
        if pending.offset is not None and leadership.high_watermark > pending.offset:
            self._finish(ErrorCode.NONE, "")
        elif now_ms >= pending.deadline_ms:
            has_record = pending.offset is not None
            why = "the change is not committed yet" if has_record else "the new voter has not caught up"
            self._finish(_TIMED_OUT, why)

    def _change(self, pending: _Pending, now_ms: float, voters: VoterSet) -> None:
        pending.offset = self._append(now_ms, voters)
        if not pending.wait_for_commit:
            self._respond(pending, ErrorCode.NONE, "")

    def abandon(self) -> None:
        """The leadership has ended."""
        self._finish(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node no longer leads the quorum")

    def _finish(self, error: ErrorCode, text: str) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            self._respond(pending, error, text)

    def _respond(self, pending: _Pending, error: ErrorCode, text: str) -> None:
        token, pending.token = pending.token, None
        if token is not None:
            self._emit(Changed(token, error, text))
