"""Runs the quorum core on a node: effects are applied to the log, the executor, the other voters and the listeners.

Implements the port `quorum.quorum.Quorum`. Effects are executed in their order. `Persist` is written by the executor,
and everything behind it waits, so no vote and no request is sent before the state it depends on is durable.

Committed batches are delivered to the commit listener in order, once they are in the local log. This node counts as
leading when the first batch of its epoch has been delivered: from then on its state contains everything committed
before.

Concurrency: the event loop. Failure: a storage fault ends the replica; it reports `failed` and stops.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

import structlog

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode, OttlaError, RemoteProtocolError
from ottla.base.executor import Executor
from ottla.base.files import Disk
from ottla.base.promise import Promise
from ottla.base.rng import Random
from ottla.quorum.quorum import (
    ChangeResult,
    CommitListener,
    CommittedBatch,
    CommittedSnapshot,
    LeadershipListener,
    NotLeader,
    QuorumStatus,
    VoterChange,
)
from ottla.quorum.quorum_state import FILE_NAME, NO_NODE, QuorumState, read_quorum_state, write_quorum_state
from ottla.quorum.raft.core import Core
from ottla.quorum.raft.messages import (
    Changed,
    Committed,
    Effect,
    ElectionState,
    LeaderChanged,
    OffsetAndEpoch,
    Persist,
    ProbeVoter,
    Recovered,
    Request,
    Respond,
    Response,
    Send,
    SnapshotInstalled,
    VotersChanged,
)
from ottla.quorum.raft.roles import Role
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.quorum.runtime.ports import QuorumTransport, Timer, Timers
from ottla.quorum.runtime.settings import RaftSettings
from ottla.quorum.runtime.status import describe
from ottla.quorum.runtime.storage_log import StorageRaftLog
from ottla.quorum.runtime.translation import (
    LeaderAddress,
    address_of,
    decode_request,
    decode_response,
    encode_error,
    encode_request,
    encode_response,
    request_leader,
    response_leader,
)
from ottla.quorum.runtime.upkeep import VoterUpkeep, kraft_versions
from ottla.quorum.snapshots import SnapshotId, SnapshotStore, encode_snapshot
from ottla.records.record import iter_records
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.schema import Message

_log = structlog.get_logger(__name__)
_STOP_S: Final = 0.5
"""How long a stopping leader waits until the voters have acknowledged its resignation."""
_POLL_S: Final = 0.005
_ADD_VOTER_MS_MAX: Final = 30_000


def _ignore() -> None:
    """Ignore an event."""


class RaftQuorum:
    """One replica of a quorum of several voters, in the directory `directory`."""

    def __init__(
        self,
        settings: RaftSettings,
        disk: Disk,
        directory: str,
        log: StorageRaftLog,
        transport: QuorumTransport,
        timers: Timers,
        clock: Clock,
        executor: Executor,
        rng: Random,
        *,
        on_recovered: Callable[[], None] = _ignore,
        on_foreign: Callable[[], None] = _ignore,
    ) -> None:
        """Create the replica.

        `on_recovered` is called when a recovering voter may vote again, `on_foreign` when the voters refuse this node
        because it belongs to another cluster.
        """
        self._settings = settings
        self._disk = disk
        self._state_path = f"{directory}/{FILE_NAME}"
        self._store = SnapshotStore(disk, directory)
        self._log = log
        self._transport = transport
        self._timers = timers
        self._clock = clock
        self._executor = executor
        self._on_recovered = on_recovered
        self._on_foreign = on_foreign
        self._refused_by: set[int] = set()
        self._refusals: dict[int, str] = {}
        """The reason of each node that refuses the requests of this one; it is logged once."""
        self._commits: CommitListener
        self._leadership: LeadershipListener
        stored = read_quorum_state(disk, self._state_path)
        voted = None if stored.voted_id == NO_NODE else ReplicaKey(stored.voted_id, stored.voted_directory_id)
        state = ElectionState(stored.leader_epoch, stored.leader_id, voted)
        self._core = Core(
            settings.local,
            settings.voters,
            log,
            state,
            rng,
            settings.timeouts,
            recovering=settings.recovering,
            bootstrap=settings.bootstrap,
            listeners=settings.listeners or None,
        )
        self._upkeep = VoterUpkeep(self._core, settings, transport, timers)
        self._effects: deque[Effect] = deque()
        self._received: dict[Promise[Message], None] = {}
        self._changing: dict[Promise[ChangeResult], None] = {}
        self._persisting = False
        self._pumping = False
        self._failed = False
        self._timer: Timer | None = None
        self._timer_at_ms = 0.0
        self._committed = 0
        self._delivered = 0
        self._elected: tuple[int, int] | None = None  # epoch and its first offset, until that is delivered
        self._leading_epoch: int | None = None
        self._snapshot_running = False
        self._last_timestamp_ms = 0

    # The port

    @property
    def log_end_offset(self) -> int:
        return self._log.end_offset

    @property
    def kraft_version(self) -> int:
        return self._core.history.kraft_version

    @property
    def leader_id(self) -> int:
        return self._core.leader_id

    @property
    def is_voter(self) -> bool:
        return self._core.is_voter

    @property
    def epoch(self) -> int:
        return self._core.epoch

    @property
    def silence_ms(self) -> float:
        return 0.0 if self._core.leadership is None else self._core.leadership.silence_ms

    def start(self, commits: CommitListener, leadership: LeadershipListener) -> None:
        """Deliver the latest snapshot, then join the quorum. Later records are delivered once they are committed."""
        self._commits, self._leadership = commits, leadership
        self._log.on_durable = self._on_durable
        self._log.on_fault = self._fail
        snapshot = self._log.latest_snapshot()
        if snapshot is not None and snapshot.offset:
            self._load_snapshot(snapshot)
        self._use_addresses(self._core.voters)
        self._step(self._core.start)
        if self._settings.dynamic:
            self._upkeep.start()

    def append(self, epoch: int, values: Sequence[bytes]) -> int:
        """Append one decision. Listeners are never called before this returns."""
        if self._failed or epoch != self._leading_epoch:
            raise NotLeader(f"append in epoch {epoch}: this node does not lead it (epoch {self._core.epoch})")
        offset = self._core.append(self._now_ms(), epoch, values)
        self._timers.call_soon(self._pump)
        return offset

    def resign(self) -> None:
        """Give up leadership, so that another voter takes over at once."""
        self._step(self._core.resign)

    def peer_lost(self, node_id: int) -> None:
        """Evidence that a node has ended: its connection was closed or refused."""
        self._step(lambda now_ms: self._core.peer_lost(now_ms, node_id))

    def receive(self, message: Message) -> Promise[Message]:
        """A request of another replica, as it arrived at the controller listener."""
        promise: Promise[Message] = Promise()
        if self._failed:
            promise.fail(RemoteProtocolError("this replica of the quorum has stopped"))
            return promise
        try:
            request = decode_request(message, self._settings.cluster_id)
        except ApiError as error:
            promise.keep(encode_error(message, error.code))
            return promise
        self._learn(request_leader(message, self._settings.listener))
        self._received[promise] = None
        self._step(lambda now_ms: self._core.receive(now_ms, promise, request))
        return promise

    def describe(self) -> QuorumStatus:
        """The state of the quorum on this replica; only the leader has the progress of the others."""
        now_ms, elapsed_ms = self._clock.now_ms(), self._now_ms()
        return describe(
            self._core,
            now_ms,
            elapsed_ms,
            lambda at_ms: -1 if at_ms < 0 else int(now_ms - (elapsed_ms - at_ms)),
        )

    # Voters

    def add_voter(
        self, voter: VoterChange, timeout_ms: int, *, wait_for_commit: bool
    ) -> Promise[ChangeResult]:
        """Add a voter. The request waits for it at least as long as for a response, and 30 seconds at most."""
        added = Voter(ReplicaKey(voter.node_id, voter.directory_id), voter.listeners)
        limit_ms = min(max(timeout_ms, self._settings.request_timeout_s * 1000), _ADD_VOTER_MS_MAX)
        return self._change(
            lambda now_ms, token: self._core.add_voter(
                now_ms, token, added, limit_ms, wait_for_commit=wait_for_commit
            )
        )

    def remove_voter(self, node_id: int, directory_id: uuid.UUID) -> Promise[ChangeResult]:
        key, limit_ms = ReplicaKey(node_id, directory_id), self._settings.request_timeout_s * 1000
        return self._change(lambda now_ms, token: self._core.remove_voter(now_ms, token, key, limit_ms))

    def update_voter(self, voter: VoterChange) -> Promise[ChangeResult]:
        updated = Voter(ReplicaKey(voter.node_id, voter.directory_id), voter.listeners, voter.kraft_versions)
        return self._change(lambda now_ms, token: self._core.update_voter(now_ms, token, updated))

    def _change(self, act: Callable[[float, Promise[ChangeResult]], None]) -> Promise[ChangeResult]:
        promise: Promise[ChangeResult] = Promise()
        if self._failed:
            promise.keep(ChangeResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node stops"))
            return promise
        self._changing[promise] = None
        self._step(lambda now_ms: act(now_ms, promise))
        return promise

    def _probe(self, voter: Voter) -> None:
        """Request the versions that a new voter supports, at its controller listener."""
        self._use_addresses(VoterSet([voter]))
        promise = self._transport.request(
            voter.key.node_id,
            ApiVersionsRequest(client_software_name="ottla", client_software_version="1"),
            ApiVersionsResponse,
            timeout_s=self._settings.request_timeout_s,
            versions=range(4, 5),
        )

        def probed(response: ApiVersionsResponse | None, error: BaseException | None) -> None:
            versions = None if response is None or response.error_code else kraft_versions(response)
            self._step(lambda now_ms: self._core.probed(now_ms, voter.key, versions))

        promise.when_done(probed)

    def _use_addresses(self, voters: VoterSet) -> None:
        for voter in voters:
            self._learn(address_of(voter, self._settings.listener))

    def _learn(self, address: LeaderAddress | None) -> None:
        is_static = self._settings.static and not self.kraft_version
        if not is_static and address is not None and address.node_id != self._settings.local.node_id:
            self._transport.set_address(*address)

    # Steps and effects

    def _now_ms(self) -> float:
        return self._timers.time() * 1000

    def _step(self, act: Callable[[float], None]) -> None:
        """One event of the core. If it raises, an effect may be missing, such as that of a vote: the replica ends."""
        if self._failed:
            return
        try:
            act(self._now_ms())
        except Exception as error:
            self._fail(error)
            raise
        self._pump()

    def _on_durable(self) -> None:
        self._step(self._core.durable)

    def _pump(self) -> None:
        """Execute effects until none is left or one has to become durable first."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while not self._failed:
                self._effects.extend(self._core.take_effects())
                if self._persisting or not self._effects:
                    break
                self._execute(self._effects.popleft())
            if not self._failed:
                self._deliver()
                self._lead()
                self._arm_timer()
        finally:
            self._pumping = False

    def _execute(self, effect: Effect) -> None:
        match effect:
            case Persist(state):
                self._persist(state)
            case Send(node_id, request):
                self._send(node_id, request)
            case Respond(token, response):
                promise: Any = token
                del self._received[promise]
                leader = address_of(self._core.voters.get(response.leader_id), self._settings.listener)
                promise.keep(encode_response(response, self._log.start_offset, leader))
            case Committed(high_watermark):
                self._committed = high_watermark
                self._log.committed(high_watermark)
            case LeaderChanged():
                self._leader_changed(effect)
            case SnapshotInstalled(snapshot):
                self._load_snapshot(snapshot)
            case Recovered():
                self._on_recovered()
            case VotersChanged(voters):
                _log.info("voters of the metadata quorum", voters=list(voters.ids))
                self._use_addresses(voters)
            case ProbeVoter(voter):
                self._probe(voter)
            case Changed(token, error, text):
                result: Any = token
                del self._changing[result]
                result.keep(ChangeResult(error, text))

    def _persist(self, state: ElectionState) -> None:
        voted = state.voted or ReplicaKey(NO_NODE)
        stored = QuorumState(state.epoch, state.leader_id, voted.node_id, voted.directory_id)
        write = partial(
            write_quorum_state,
            self._disk,
            self._state_path,
            stored,
            kraft_version=1 if self._settings.dynamic else self.kraft_version,
            node_id=self._settings.local.node_id,
        )
        self._persisting = True

        def written(failure: BaseException | None) -> None:
            self._persisting = False
            if failure is not None:
                self._fail(failure)
            else:
                self._pump()

        self._executor.submit(write, written)

    def _send(self, node_id: int, request: Request) -> None:
        wire = encode_request(request, self._settings.cluster_id, self._settings.listeners)
        promise = self._transport.request(
            node_id,
            wire.message,
            wire.response,
            timeout_s=self._settings.request_timeout_s,
            versions=wire.versions,
        )
        promise.when_done(partial(self._responded, node_id, request))

    def _responded(
        self, node_id: int, request: Request, message: Message | None, error: BaseException | None
    ) -> None:
        response: Response | None = None
        if message is not None:
            try:
                response = decode_response(message)
                self._learn(response_leader(message))
                self._refused_by.discard(node_id)
                self._refusals.pop(node_id, None)
            except (ApiError, RemoteProtocolError) as refusal:
                self._note_refusal(node_id, refusal)
        elif not isinstance(error, OttlaError):
            _log.error("a request of the quorum failed", node=node_id, reason=str(error))
        if response is None:
            self._step(lambda now_ms: self._core.failed(now_ms, node_id, request))
        else:
            decoded = response
            self._step(lambda now_ms: self._core.responded(now_ms, node_id, request, decoded))

    def _note_refusal(self, node_id: int, refusal: Exception) -> None:
        """Report that this node is in a foreign cluster, if a majority of the voters or all others have refused it.

        A single voter may be the foreign one.
        """
        reason = str(refusal)
        if self._refusals.get(node_id) != reason:
            self._refusals[node_id] = reason
            cluster_id = self._settings.cluster_id
            _log.warning(
                "a voter refuses the requests of the quorum",
                node=node_id,
                reason=reason,
                own_cluster_id=cluster_id,
            )
        if not isinstance(refusal, ApiError) or refusal.code is not ErrorCode.INCONSISTENT_CLUSTER_ID:
            return
        self._refused_by.add(node_id)
        voters = self._core.voters
        others = {voter_id for voter_id in voters.ids if voter_id != self._settings.local.node_id}
        if voters.has_majority(self._refused_by) or others <= self._refused_by:
            self._on_foreign()

    def _arm_timer(self) -> None:
        at_ms = self._core.wake_at_ms()
        if self._timer is not None:
            if self._timer_at_ms == at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = at_ms
        self._timer = self._timers.call_later(max(0.0, (at_ms - self._now_ms()) / 1000), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._step(self._core.tick)

    # Listeners

    def _leader_changed(self, change: LeaderChanged) -> None:
        self._elected = None
        led, self._leading_epoch = self._leading_epoch, None
        if led is not None:
            self._leadership.resigned(led)
        if change.leader_id == self._settings.local.node_id:
            self._elected = (change.epoch, change.start_offset)
        _log.info("leader of the metadata quorum", epoch=change.epoch, leader=change.leader_id)

    def _load_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        found = self._store.read(SnapshotId(snapshot.offset, snapshot.epoch))
        self._last_timestamp_ms = found.last_timestamp_ms
        values = chain.from_iterable(found.batches)
        self._commits.load_snapshot(CommittedSnapshot(snapshot.offset - 1, snapshot.epoch, values))
        self._delivered = snapshot.offset

    def _deliver(self) -> None:
        """Deliver the committed batches that are in the local log.

        The high watermark of the core may be higher while `Committed` waits behind `Persist`: the log does not know it.
        """
        upto = min(self._committed, self._log.end_offset)
        if upto <= self._delivered:
            return
        batches = []
        for header, data in self._log.batches(self._delivered, upto):
            values = []
            if not header.is_control:
                values = [bytes(record.value or b"") for record in iter_records(data, header)]
            epoch, at_ms = header.partition_leader_epoch, header.max_timestamp
            batches.append(CommittedBatch(header.last_offset, epoch, at_ms, values))
        if not batches:
            return
        self._delivered = batches[-1].last_offset + 1
        self._last_timestamp_ms = batches[-1].timestamp_ms
        try:
            self._commits.committed(batches)
        except Exception as error:  # noqa: BLE001 - this node cannot follow its own log any more
            _log.exception("committed metadata records cannot be applied", offset=batches[-1].last_offset)
            self._fail(error)

    def _lead(self) -> None:
        """Lead once the first batch of the own epoch has been delivered."""
        if not self._failed and self._elected is not None and self._delivered > self._elected[1]:
            self._leading_epoch, self._elected = self._elected[0], None
            self._leadership.leading(self._leading_epoch)

    def _fail(self, error: BaseException) -> None:
        if self._failed:
            return
        self.close()
        self._leadership.failed(error)
        if self._leading_epoch is not None:
            self._leadership.resigned(self._leading_epoch)

    # Snapshots

    @property
    def snapshot_due(self) -> bool:
        return (
            not self._snapshot_running and self._log.bytes_appended >= self._settings.snapshot_interval_bytes
        )

    def write_snapshot(self, last_offset: int, epoch: int, values: Iterable[bytes]) -> None:
        """Write a snapshot of the state after `last_offset` in the executor."""
        self._snapshot_running = True
        snapshot_id = SnapshotId(last_offset + 1, epoch)
        timestamp_ms, now_ms = self._last_timestamp_ms, self._clock.now_ms()
        controls = self._core.history.controls_at(last_offset)

        def write() -> None:
            data = encode_snapshot(
                values, epoch=epoch, last_timestamp_ms=timestamp_ms, controls=controls, now_ms=now_ms
            )
            self._store.write(snapshot_id, data)

        def written(failure: BaseException | None) -> None:
            self._snapshot_running = False
            if failure is not None:
                # The log still has every record; the next interval tries again.
                _log.warning("a metadata snapshot could not be written", reason=str(failure))
            elif not self._failed:
                snapshot = OffsetAndEpoch(snapshot_id.end_offset, snapshot_id.epoch)
                self._log.snapshot_written(snapshot, controls)

        self._log.roll()
        self._executor.submit(write, written)

    # Stop

    def stop(self) -> Promise[None]:
        """Resign if this node leads, and close when the voters know it and no write is in flight."""
        stopping: Promise[None] = Promise()
        deadline = self._timers.time() + _STOP_S
        self.resign()

        def check() -> None:
            is_resigning = self._core.role is Role.RESIGNED and self._core.unacknowledged
            if is_resigning and not self._failed and self._timers.time() < deadline:
                self._timers.call_later(_POLL_S, check)
                return
            self.close()
            if self._persisting or self._snapshot_running or self._log.writing:
                self._timers.call_later(_POLL_S, check)
            else:
                stopping.keep(None)

        check()
        return stopping

    def close(self) -> None:
        """Stop taking part. Nothing is sent or delivered afterwards; requests without a response fail."""
        self._failed = True
        if self._timer is not None:
            self._timer.cancel()
        self._upkeep.close()
        received, self._received = self._received, {}
        for promise in received:
            promise.fail(RemoteProtocolError("this replica of the quorum has stopped"))
        changing, self._changing = self._changing, {}
        for change in changing:
            change.keep(ChangeResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node stops"))
