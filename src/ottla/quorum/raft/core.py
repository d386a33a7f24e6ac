"""The KRaft protocol of one replica, as a pure state machine: elections with pre-vote, replication by Fetch.

Events are method calls with the current time; effects (`messages`) are collected in order and returned by
`take_effects`. The core reads no clock, opens no socket and waits for nothing. The log is a port (`raft_log`).

Parts: `election` counts votes, `leader` and `follower` hold the state of one role in one epoch, `outbound` the
outstanding requests. Rules that the protocol depends on:

- The election state is durable before a response or request that depends on it is sent (`Persist` is a barrier).
- A replica votes once per epoch, and only for a candidate whose log is at least as up to date as its own.
- A leader counts a replica's records when that replica fetches from beyond them: a follower fetches again only when
  all records it has appended are on stable storage. Its own records count when they are durable.
- The high watermark moves only over records of the leader's own epoch, and never back.
- A follower truncates only in response to its outstanding fetch of the current epoch, never below the high watermark.
- A response to a request that is no longer outstanding is ignored, so nothing from an earlier role has an effect.
- The voters are those of the newest record in the log, committed or not (`voter_history`); `changes` has the rules for
  new ones. A replica votes for any candidate with an up-to-date log: it may not know yet which replicas are voters.

A connection to the leader that was closed or refused is evidence that the leader has failed (`follower.LeaderContact`).

Concurrency: one owner. Time: milliseconds of any clock that does not go backwards.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from ottla.base.errors import ErrorCode, RemoteProtocolError, violated
from ottla.quorum.quorum import NotLeader
from ottla.quorum.raft.election import Election, is_valid
from ottla.quorum.raft.follower import Following
from ottla.quorum.raft.leader import Leadership, leader_change, snapshot_part
from ottla.quorum.raft.messages import (
    EPOCH_MAX,
    NO_LEADER,
    BeginEpoch,
    BeginEpochResponse,
    Committed,
    EndEpoch,
    EndEpochResponse,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    LeaderChanged,
    Persist,
    Recovered,
    Request,
    Response,
    SnapshotInstalled,
    Vote,
    VoteResponse,
)
from ottla.quorum.raft.recovery import Recovery
from ottla.quorum.raft.replica import Replica
from ottla.quorum.raft.roles import TRANSITIONS, Role
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.wire.schema import Message

_NOMINEES: Final = (Role.PROSPECTIVE, Role.CANDIDATE)


class Core(Replica):
    """The roles of one replica, and the transitions between them."""

    # Events

    def start(self, now_ms: float) -> None:
        """Join the quorum. The only voter elects itself at once."""
        if self.voters.ids == (self.local.node_id,) and self.can_vote:
            self._become_prospective(now_ms)
        elif self.leader_id not in (NO_LEADER, self.local.node_id):
            self._become_follower(now_ms, self.epoch, self.leader_id)
        else:
            # A replica that led this epoch before its restart does not lead it again: it voted for itself.
            self.leader_id = NO_LEADER
            self._deadline_ms = now_ms + self._election_timeout()
            if self.can_vote:
                self._elect_in_turn(now_ms, 1 + self._position(self.voters.ids))
        self._poll(now_ms)

    def tick(self, now_ms: float) -> None:
        """Time has passed."""
        if self.leadership is not None:
            self._respond_all(self.leadership.expired(now_ms, self.voters))
            self._publish_high_watermark(now_ms)
        self._poll(now_ms)

    def receive(self, now_ms: float, token: Hashable, request: Request) -> None:
        """A request of another replica; it gets exactly one `Respond`, perhaps later."""
        match request:
            case Vote():
                self._respond(token, self._on_vote(now_ms, request))
            case BeginEpoch():
                self._respond(token, self._on_begin_epoch(now_ms, request))
            case EndEpoch():
                self._respond(token, self._on_end_epoch(now_ms, request))
            case Fetch():
                self._on_fetch(now_ms, token, request)
            case FetchSnapshot():
                self._respond(token, self._on_fetch_snapshot(now_ms, request))
        self._poll(now_ms)

    def responded(self, now_ms: float, node_id: int, request: Request, response: Response) -> None:
        """The response to a request that this replica sent."""
        if not self._outbound.finished(node_id, request):
            return
        if response.error:
            self._outbound.back_off(node_id, now_ms)
        if self._recovery is not None:
            self._recovery.reported(node_id)
        if not self._observe(now_ms, node_id, response):
            match response:
                case VoteResponse() if not response.error:
                    self._count_vote(now_ms, node_id, granted=response.granted)
                case EndEpochResponse():
                    self.unacknowledged.discard(node_id)
                case FetchResponse() if not response.error:
                    self._on_fetch_response(now_ms, response)
                case FetchSnapshotResponse():
                    self._on_snapshot_response(now_ms, response)
                case _:
                    pass
        self._poll(now_ms)

    def failed(self, now_ms: float, node_id: int, request: Request) -> None:
        """A request that this replica sent got no response in time, or its connection failed."""
        if self._outbound.finished(node_id, request):
            self._outbound.back_off(node_id, now_ms)
            self._poll(now_ms)

    def peer_lost(self, now_ms: float, node_id: int) -> None:
        """The connection to a node was closed or refused: its process has probably ended."""
        following = self._following
        if following is None or node_id != following.leader_id:
            return
        if not self.can_vote:
            self._become_unattached(now_ms, self.epoch)
            asked = (*self._others, *self._bootstrap)
            self._outbound.pause(asked, now_ms + self._contact.pause_ms(self._timeouts))
        elif not following.leader_suspected:
            following.leader_suspected = True
            others = self.voters.others(node_id)
            soon_ms = now_ms + self._contact.pause_ms(self._timeouts)
            self._elect_in_turn(soon_ms, self._position(others))
        self._poll(now_ms)

    def durable(self, now_ms: float) -> None:
        """The log's durable offset has moved."""
        if self.leadership is not None:
            self.leadership.advance(self.voters)
            self._publish_high_watermark(now_ms)
        self._poll(now_ms)

    def append(self, now_ms: float, epoch: int, values: Sequence[bytes]) -> int:
        """Append one decision of the controller; returns the offset of its last record."""
        if self.leadership is None or epoch != self.epoch:
            raise NotLeader(f"this node does not lead epoch {epoch} of the metadata quorum")
        end_offset = self._log.append(epoch, values)
        self._complete_fetches(now_ms)
        return end_offset - 1

    def add_voter(
        self, now_ms: float, token: Hashable, voter: Voter, timeout_ms: float, *, wait_for_commit: bool = True
    ) -> None:
        """Add a voter; `Changed` has the result."""
        self.changes.add(now_ms, token, self.leadership, voter, timeout_ms, wait_for_commit=wait_for_commit)
        self._poll(now_ms)

    def remove_voter(self, now_ms: float, token: Hashable, key: ReplicaKey, timeout_ms: float) -> None:
        """Remove a voter; `Changed` has the result."""
        self.changes.remove(now_ms, token, self.leadership, key, timeout_ms)
        self._poll(now_ms)

    def update_voter(self, now_ms: float, token: Hashable, voter: Voter) -> None:
        """Replace the addresses of a voter; `Changed` has the result."""
        self.changes.update(now_ms, token, self.leadership, voter)
        self._poll(now_ms)

    def probed(self, now_ms: float, key: ReplicaKey, kraft_versions: tuple[int, int] | None) -> None:
        """The result of `ProbeVoter`."""
        if self.leadership is not None:
            self.changes.probed(now_ms, key, self.leadership, kraft_versions)
            self._poll(now_ms)

    def _append_voters(self, now_ms: float, voters: VoterSet) -> int:
        offset = super()._append_voters(now_ms, voters)
        if self.leadership is not None:
            self.leadership.advance(self.voters)
            self._complete_fetches(now_ms)
        return offset

    def resign(self, now_ms: float) -> None:
        """Give up leadership and let the other voters elect a leader at once."""
        if self.leadership is not None:
            self._become_resigned(now_ms)
            self._poll(now_ms)

    # Transitions

    def _enter(self, now_ms: float, role: Role) -> None:
        if role not in TRANSITIONS[self.role]:
            violated(f"a replica cannot change from {self.role.value} to {role.value}")
        self.role = role
        self._outbound.forget_all()
        self._election = Election()
        self._following = None
        leadership, self.leadership = self.leadership, None
        if leadership is not None:
            self._contact.heard(now_ms)
            refusal = self._fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._respond_all((token, refusal) for token in leadership.waiting())
            self.changes.abandon()

    def _become_unattached(self, now_ms: float, epoch: int) -> None:
        is_new = epoch > self.epoch
        announce = is_new or self.leader_id != NO_LEADER
        if is_new:
            self.epoch, self.voted = epoch, None
        self.leader_id = NO_LEADER
        self._enter(now_ms, Role.UNATTACHED)
        self._deadline_ms = now_ms + self._election_timeout()
        if is_new:
            self._effects.append(Persist(self.state))
        if announce:
            self._effects.append(LeaderChanged(self.epoch, NO_LEADER))

    def _become_follower(self, now_ms: float, epoch: int, leader_id: int) -> None:
        if epoch > self.epoch:
            self.epoch, self.voted = epoch, None
        self.leader_id = leader_id
        self._enter(now_ms, Role.FOLLOWER)
        self._following = Following(epoch, leader_id, self._log)
        self._expect_response(now_ms)
        self._effects += [Persist(self.state), LeaderChanged(self.epoch, leader_id)]

    def _become_prospective(self, now_ms: float) -> None:
        self._enter(now_ms, Role.PROSPECTIVE)
        self._deadline_ms = now_ms + self._election_timeout()
        self._vote_for_itself(now_ms)

    def _become_candidate(self, now_ms: float) -> None:
        self._enter(now_ms, Role.CANDIDATE)
        self.epoch += 1
        self.voted = self.local
        self.leader_id = NO_LEADER
        self._deadline_ms = now_ms + self._election_timeout()
        self._effects += [Persist(self.state), LeaderChanged(self.epoch, NO_LEADER)]
        self._vote_for_itself(now_ms)

    def _become_leader(self, now_ms: float) -> None:
        granting = sorted(self._election.granted)
        self._enter(now_ms, Role.LEADER)
        self.leader_id = self.local.node_id
        self._effects.append(Persist(self.state))
        start_offset = self._log.end_offset
        self.leadership = Leadership(
            self.local,
            self.epoch,
            self._log,
            self.high_watermark,
            now_ms,
            self._timeouts.fetch_ms,
            self._contact.elected(now_ms),
        )
        controls: list[Message] = [leader_change(self.local.node_id, self.voters, granting)]
        self._log.append_controls(self.epoch, [*controls, *self._own_voter_records()])
        self._refresh_voters()
        self._effects.append(LeaderChanged(self.epoch, self.leader_id, start_offset))
        self._deadline_ms = now_ms + self._check_quorum_ms

    def _become_resigned(self, now_ms: float) -> None:
        if self.leadership is not None:
            self._resigning_to = self.leadership.progress.successors(self.voters)
        self._enter(now_ms, Role.RESIGNED)
        self.leader_id = NO_LEADER
        self._effects.append(LeaderChanged(self.epoch, NO_LEADER))
        self.unacknowledged = set(self._others)
        self._deadline_ms = now_ms + self._election_timeout()

    # What is due

    def _poll(self, now_ms: float) -> None:
        self._outbound.end_pauses(now_ms)
        if now_ms >= self._deadline_ms:
            self._timed_out(now_ms)
        match self.role:
            case Role.PROSPECTIVE | Role.CANDIDATE:
                self._send_votes(now_ms)
            case Role.FOLLOWER:
                self._send_fetch(now_ms)
            case Role.UNATTACHED:
                self._look_for_leader(now_ms)
            case Role.LEADER:
                self._change_voters(now_ms)
                self._send_begin_epoch(now_ms)
            case Role.RESIGNED:
                self._send_end_epoch(now_ms)
        if self._recovery is not None and self._following is not None:
            self._recover(self._recovery, self._following)

    def _change_voters(self, now_ms: float) -> None:
        """Proceed with a change of the voters. A leader that is no voter any more resigns when that is committed."""
        if self.leadership is not None:
            self.changes.proceed(now_ms, self.leadership)
            if not self.is_voter and self.history.last.offset < self.leadership.high_watermark:
                self._become_resigned(now_ms)
                self._send_end_epoch(now_ms)

    def _recover(self, recovery: Recovery, following: Following) -> None:
        """Request the epochs of the voters, and vote again when the log is complete."""
        if recovery.is_complete(self.voters, self._log, self.epoch, following.committed):
            self._recovery = None
            self._effects.append(Recovered())
        else:
            for node_id in recovery.missing(self._others):
                self._send(node_id, self._probe())

    def _timed_out(self, now_ms: float) -> None:
        match self.role:
            case Role.UNATTACHED | Role.FOLLOWER if not self.can_vote:
                self._become_unattached(now_ms, self.epoch)
            case Role.UNATTACHED | Role.FOLLOWER | Role.CANDIDATE:
                self._become_prospective(now_ms)
            case Role.PROSPECTIVE:
                self._pre_vote_lost(now_ms)
            case Role.RESIGNED:
                self._become_unattached(now_ms, min(self.epoch + 1, EPOCH_MAX))
            case Role.LEADER:
                self._check_quorum(now_ms)

    def _check_quorum(self, now_ms: float) -> None:
        """Resign if no majority of the voters has fetched for too long: another leader may exist already."""
        if self.leadership is not None:
            contact_ms = self.leadership.progress.majority_contact_ms(self.voters, now_ms)
            self._deadline_ms = contact_ms + self._check_quorum_ms
            if now_ms >= self._deadline_ms:
                self._become_resigned(now_ms)

    def _pre_vote_lost(self, now_ms: float) -> None:
        if self.leader_id not in (NO_LEADER, self.local.node_id):
            self._become_follower(now_ms, self.epoch, self.leader_id)
            self._elect_in_turn(now_ms, 2 + self._position(self.voters.ids))
        else:
            self._become_unattached(now_ms, self.epoch)

    def _send_votes(self, now_ms: float) -> None:
        for node_id in self._election.open_votes(self.voters):
            voter, is_pre_vote = self.voters.key(node_id), self.role is Role.PROSPECTIVE
            self._send(node_id, Vote(self.local, voter, self.epoch, self.log_end, is_pre_vote))

    def _send_begin_epoch(self, now_ms: float) -> None:
        if self.leadership is not None:
            for node_id in self.leadership.unnotified(now_ms, self.voters):
                self._send(node_id, BeginEpoch(self.local.node_id, self.voters.key(node_id), self.epoch))

    def _send_end_epoch(self, now_ms: float) -> None:
        for node_id in sorted(self.unacknowledged):
            self._send(node_id, EndEpoch(self.local.node_id, self.epoch, self._resigning_to))

    def _send_fetch(self, now_ms: float) -> None:
        if self._following is not None:
            wait_ms = self._timeouts.fetch_wait_ms
            request = self._following.next_request(self.local, self.high_watermark, wait_ms)
            if request is not None:
                self._send(self.leader_id, request)

    def _look_for_leader(self, now_ms: float) -> None:
        """Send a fetch to one of the voters or bootstrap nodes: its response names its epoch and leader."""
        asked = (*self._others, *self._bootstrap)
        ready = [node_id for node_id in asked if self._outbound.ready(node_id)]
        if ready and self._outbound.idle:
            self._send(self._rng.choice(ready), self._probe())

    # Elections

    def _on_vote(self, now_ms: float, vote: Vote) -> VoteResponse:
        if not is_valid(vote):
            return VoteResponse(ErrorCode.INVALID_REQUEST, self.epoch, self.leader_id)
        if vote.epoch < self.epoch:
            return VoteResponse(ErrorCode.FENCED_LEADER_EPOCH, self.epoch, self.leader_id)
        if vote.candidate.node_id < 0:
            return VoteResponse(ErrorCode.INVALID_REQUEST, self.epoch, self.leader_id)
        if vote.epoch > self.epoch:
            self._become_unattached(now_ms, vote.epoch)
        if not self._is_addressed(vote.voter):
            return VoteResponse(ErrorCode.INVALID_VOTER_KEY, self.epoch, self.leader_id)
        granted = self._may_grant(vote, now_ms)
        if granted and not vote.pre_vote and self.voted is None:
            self.voted = vote.candidate
            self._deadline_ms = now_ms + self._election_timeout()
            self._effects.append(Persist(self.state))
        return VoteResponse(ErrorCode.NONE, self.epoch, self.leader_id, granted)

    def _is_addressed(self, voter: ReplicaKey) -> bool:
        """Whether a request is for this replica. Earlier versions of requests do not name the voter."""
        return voter.node_id < 0 or voter.matches(self.local)

    def _may_grant(self, vote: Vote, now_ms: float) -> bool:
        if self._recovery is not None:
            return False
        mine = self.log_end
        is_up_to_date = (vote.last.epoch, vote.last.offset) >= (mine.epoch, mine.offset)
        if vote.pre_vote:
            hears_leader = self._contact.hears(self._following, now_ms, self._timeouts)
            return is_up_to_date and self.role is not Role.LEADER and not hears_leader
        if self.voted is not None:
            return self.voted.matches(vote.candidate)
        return is_up_to_date and self.leader_id == NO_LEADER and self.role is not Role.RESIGNED

    def _vote_for_itself(self, now_ms: float) -> None:
        if self.is_voter:
            self._count_vote(now_ms, self.local.node_id, granted=True)

    def _count_vote(self, now_ms: float, node_id: int, *, granted: bool) -> None:
        if self.role not in _NOMINEES:
            return
        self._election.count(node_id, granted=granted)
        if self._election.won(self.voters):
            if self.role is Role.CANDIDATE:
                self._become_leader(now_ms)
            elif self.epoch < EPOCH_MAX:
                self._become_candidate(now_ms)
            else:
                self._pre_vote_lost(now_ms)
        elif self._election.lost(self.voters):
            if self.role is Role.PROSPECTIVE:
                self._pre_vote_lost(now_ms)
            else:
                # Wait before the next attempt: the voters that refused may elect another leader meanwhile.
                backoff_ms = self._rng.randrange(1, self._timeouts.election_backoff_max_ms)
                self._deadline_ms = min(self._deadline_ms, now_ms + backoff_ms)

    # Leaders of epochs

    def _observe(self, now_ms: float, node_id: int, response: Response) -> bool:
        """Take over the epoch and leader that a response names; True if the response has no other meaning."""
        epoch, leader_id = response.epoch, response.leader_id
        if epoch < self.epoch:
            return True
        # A nominee with a known leader in its epoch does not return to it: it has lost contact with that leader.
        is_news = epoch > self.epoch or self.leader_id == NO_LEADER
        if is_news and self._heard_of(now_ms, epoch, leader_id):
            return True
        resigned = response.error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE)
        if resigned and self._following is not None and node_id == self.leader_id:
            # The leader has resigned or restarted, and will not lead this epoch again.
            self.peer_lost(now_ms, node_id)
            return True
        return False

    def _heard_of(self, now_ms: float, epoch: int, leader_id: int) -> bool:
        """Another replica named a leader, or a higher epoch; True if that changed the role."""
        if leader_id not in (NO_LEADER, self.local.node_id):
            if self.role is not Role.FOLLOWER or epoch > self.epoch:
                self._become_follower(now_ms, epoch, leader_id)
                return True
        elif epoch > self.epoch:
            self._become_unattached(now_ms, epoch)
            return True
        return False

    def _on_begin_epoch(self, now_ms: float, request: BeginEpoch) -> BeginEpochResponse:
        error = self._check_leader_request(now_ms, request.epoch, request.leader_id)
        if not error and not self._is_addressed(request.voter):
            error = ErrorCode.INVALID_VOTER_KEY
        return BeginEpochResponse(error, self.epoch, self.leader_id)

    def _on_end_epoch(self, now_ms: float, request: EndEpoch) -> EndEpochResponse:
        error = self._check_leader_request(now_ms, request.epoch, request.leader_id)
        following = self._following
        if not error and following is not None and following.leader_id == request.leader_id and self.can_vote:
            following.leader_suspected = True
            keys = enumerate(request.successors)
            position = next((at for at, key in keys if key.matches(self.local)), len(request.successors))
            self._elect_in_turn(now_ms, position)
        return EndEpochResponse(error, self.epoch, self.leader_id)

    def _check_leader_request(self, now_ms: float, epoch: int, leader_id: int) -> ErrorCode:
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if leader_id == self.leader_id == self.local.node_id and epoch == self.epoch:
            return ErrorCode.NONE
        if leader_id < 0 or leader_id == self.local.node_id:
            return ErrorCode.INVALID_REQUEST
        if epoch == self.epoch and self.leader_id not in (NO_LEADER, leader_id):
            return ErrorCode.INVALID_REQUEST
        self._contact.heard(now_ms)
        self._heard_of(now_ms, epoch, leader_id)
        return ErrorCode.NONE

    # Replication

    def _on_fetch(self, now_ms: float, token: Hashable, fetch: Fetch) -> None:
        error = self._check_fetch_epoch(fetch.epoch)
        if fetch.max_wait_ms < 0 or fetch.offset < 0 or not 0 <= fetch.last_epoch <= fetch.epoch:
            error = ErrorCode.INVALID_REQUEST
        if error or self.leadership is None:
            self._respond(token, self._fetch_error(error))
            return
        self._outbound.forget(fetch.replica.node_id)
        response = self.leadership.fetch(now_ms, token, fetch, self.voters)
        if response is not None:
            self._respond(token, response)
        self._publish_high_watermark(now_ms)

    def _check_fetch_epoch(self, epoch: int) -> ErrorCode:
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.role is Role.LEADER else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _publish_high_watermark(self, now_ms: float) -> None:
        """Report a high watermark that the leadership has moved, and complete the fetches that wait for it."""
        leadership = self.leadership
        while leadership is not None and leadership.high_watermark > self.high_watermark:
            self.high_watermark = leadership.high_watermark
            self._effects.append(Committed(self.high_watermark))
            self._respond_all(leadership.completed(now_ms, self.voters))

    def _complete_fetches(self, now_ms: float) -> None:
        if self.leadership is not None:
            self._respond_all(self.leadership.completed(now_ms, self.voters))
            self._publish_high_watermark(now_ms)

    def _on_fetch_snapshot(self, now_ms: float, request: FetchSnapshot) -> FetchSnapshotResponse:
        response = FetchSnapshotResponse(self._check_fetch_epoch(request.epoch), self.epoch, self.leader_id)
        if response.error or self.leadership is None:
            return response
        response = snapshot_part(self._log, request, response)
        if not response.error and request.replica in self.voters:
            self.leadership.progress.contacted(self.voters[request.replica].key, now_ms)
        return response

    def _on_fetch_response(self, now_ms: float, response: FetchResponse) -> None:
        if self._following is None:
            return
        self._contact.responded(now_ms)
        self._expect_response(now_ms)
        try:
            self._following.fetched(response, self.high_watermark)
            if response.records or response.diverging is not None:
                self._refresh_voters()
        except RemoteProtocolError:
            # The batches are damaged or do not continue the log: fetch them again after a pause.
            self._outbound.back_off(self.leader_id, now_ms)
            return
        committed = min(response.high_watermark, self._log.end_offset)
        if response.diverging is None and response.snapshot is None and committed > self.high_watermark:
            self.high_watermark = committed
            self._effects.append(Committed(committed))

    def _on_snapshot_response(self, now_ms: float, response: FetchSnapshotResponse) -> None:
        if self._following is None:
            return
        if not response.error:
            self._expect_response(now_ms)
        snapshot = self._following.snapshot_fetched(response)
        if snapshot is not None:
            self._refresh_voters()
            self.high_watermark = max(self.high_watermark, snapshot.offset)
            self._effects.append(SnapshotInstalled(snapshot))
