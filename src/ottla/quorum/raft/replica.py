"""What a replica of the quorum holds in every role: log, epoch, vote, voters, timers and outstanding requests.

The base of `core.Core`, which has the roles. Nothing here decides anything about elections or commits.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

from ottla.base.errors import ErrorCode
from ottla.base.rng import Random
from ottla.quorum.quorum import ListenerAddress
from ottla.quorum.raft.changes import VoterChanges
from ottla.quorum.raft.election import Election
from ottla.quorum.raft.follower import Following, LeaderContact
from ottla.quorum.raft.leader import Leadership
from ottla.quorum.raft.messages import (
    NO_LEADER,
    UNKNOWN_OFFSET,
    Effect,
    ElectionState,
    Fetch,
    FetchResponse,
    OffsetAndEpoch,
    Request,
    Respond,
    Response,
    Send,
    VotersChanged,
)
from ottla.quorum.raft.outbound import Outbound
from ottla.quorum.raft.raft_log import RaftLog
from ottla.quorum.raft.recovery import Recovery
from ottla.quorum.raft.roles import Role
from ottla.quorum.raft.timeouts import DEFAULT_TIMEOUTS, Timeouts
from ottla.quorum.raft.voter_history import BEFORE_LOG, VoterHistory
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.wire.messages.control import KRaftVersionRecord
from ottla.wire.schema import Message


class Replica:
    """A voter, or an observer if the voters do not contain it.

    `voters` are static; a record in the log replaces them. `bootstrap` are the ids of other nodes that may know the
    leader, and `listeners` the addresses of this node, to be recorded when it leads.
    """

    def __init__(
        self,
        local: ReplicaKey,
        voters: VoterSet,
        log: RaftLog,
        state: ElectionState,
        rng: Random,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        *,
        recovering: bool = False,
        bootstrap: Sequence[int] = (),
        listeners: tuple[ListenerAddress, ...] | None = None,
    ) -> None:
        self.local = local
        self.history = VoterHistory(voters, log)
        self.voters = self.history.last.voters
        self.changes = VoterChanges(self.history, self._append_voters, self._emit)
        self.role = Role.UNATTACHED
        self.epoch = max(state.epoch, log.last_epoch)
        is_current = state.epoch == self.epoch
        self.leader_id = state.leader_id if is_current else NO_LEADER
        self.voted = state.voted if is_current else None
        self.high_watermark = UNKNOWN_OFFSET
        self.leadership: Leadership | None = None
        self._following: Following | None = None
        self._election = Election()
        self._log = log
        self._rng = rng
        self._timeouts = timeouts
        self._check_quorum_ms = timeouts.fetch_ms * 1.5
        self._effects: list[Effect] = []
        self._outbound = Outbound(timeouts.retry_backoff_ms)
        self._deadline_ms = 0.0
        self._resigning_to: tuple[ReplicaKey, ...] = ()
        self.unacknowledged: set[int] = set()  # voters that do not know of the resignation yet
        self._contact = LeaderContact()
        self._bootstrap = tuple(bootstrap)
        self._listeners = listeners
        self._others = self.voters.others(local.node_id)
        self._recovery = Recovery() if recovering and self.is_voter else None

    # State

    @property
    def is_voter(self) -> bool:
        return self.local in self.voters

    @property
    def can_vote(self) -> bool:
        """Whether this replica takes part in elections; not while it recovers a lost log.

        A voter that leaves does until its removal is committed: no other may be able to lead, because its log may be
        the longest. As a leader it commits its removal and resigns.
        """
        is_leaving = self.history.is_leaving(self.local, self.high_watermark)
        return (self.is_voter or is_leaving) and self._recovery is None

    @property
    def state(self) -> ElectionState:
        """The election state as it must be persisted."""
        return ElectionState(self.epoch, self.leader_id, self.voted)

    @property
    def log_end(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self._log.end_offset, self._log.last_epoch)

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, to be executed in order."""
        effects, self._effects = self._effects, []
        return effects

    def wake_at_ms(self) -> float:
        """When `tick` has to be called next if nothing else happens."""
        leading = [] if self.leadership is None else [self.leadership.wake_at_ms()]
        return min([self._deadline_ms, self.changes.wake_at_ms(), *leading, *self._outbound.retry_times()])

    def _emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    # Voters

    def _append_voters(self, now_ms: float, voters: VoterSet) -> int:
        """Append a new set of voters, which is in force from now on; returns the offset of its record."""
        end_offset = self._log.append_controls(self.epoch, [voters.record()])
        self._refresh_voters()
        return end_offset - 1

    def _refresh_voters(self) -> None:
        """The log has changed, and perhaps the voters in it."""
        self.history.refresh()
        if self.history.last.voters != self.voters:
            self.voters = self.history.last.voters
            self._others = self.voters.others(self.local.node_id)
            self._effects.append(VotersChanged(self.voters))

    def _own_voter_records(self) -> list[Message]:
        """The voters, if they are not in the log yet or have other addresses of this node; the members are the same."""
        level, last = self.history.kraft_version, self.history.last
        if not level or self.local not in last.voters:
            return []
        own = Voter(
            self.local, last.voters[self.local].listeners if self._listeners is None else self._listeners
        )
        if last.offset > BEFORE_LOG and own == last.voters[self.local]:
            return []
        return [KRaftVersionRecord(kraft_version=level), last.voters.with_voter(own).record()]

    # Timers

    def _election_timeout(self) -> int:
        return self._timeouts.election_ms + self._rng.randrange(self._timeouts.election_ms)

    def _expect_response(self, now_ms: float) -> None:
        """Start the fetch timeout. Voters that lose the leader at the same moment do not all start an election."""
        position = self._position(self.voters.others(self.leader_id)) if self.is_voter else 0
        self._deadline_ms = math.inf
        self._elect_in_turn(now_ms + self._timeouts.fetch_ms, position)

    def _position(self, node_ids: Sequence[int]) -> int:
        """The position of this node in a list; after all others if it is not there."""
        return node_ids.index(self.local.node_id) if self.local.node_id in node_ids else len(node_ids)

    def _elect_in_turn(self, now_ms: float, position: int) -> None:
        """Start a pre-vote soon: at once for the first in turn, later for the others, so that votes do not split."""
        self._deadline_ms = min(self._deadline_ms, now_ms + position * self._timeouts.election_ms / 8)

    # Messages

    def _send(self, node_id: int, request: Request) -> None:
        """Send a request unless one to this node is outstanding or it is too early to try again."""
        if self._outbound.ready(node_id):
            self._outbound.sent(node_id, request)
            self._effects.append(Send(node_id, request))

    def _probe(self) -> Fetch:
        """A fetch that does not wait: its response has the epoch of the other replica, and the leader it knows."""
        return Fetch(self.local, self.epoch, self.log_end.offset, self.log_end.epoch, self.high_watermark, 0)

    def _fetch_error(self, error: ErrorCode) -> FetchResponse:
        return FetchResponse(error, self.epoch, self.leader_id)

    def _respond(self, token: Hashable, response: Response) -> None:
        self._effects.append(Respond(token, response))

    def _respond_all(self, completed: Iterable[tuple[Hashable, Response]]) -> None:
        self._effects += [Respond(token, response) for token, response in completed]
