"""Runs the quorum core on a node: effects are applied to the log, the executor, the other voters and the listeners.

Implements the port `quorum.quorum.Quorum`. Effects are executed in their order. `Persist` is written by the executor,
and everything behind it waits, so no vote and no request is sent before the state it depends on is durable.

Committed batches are delivered to the commit listener in order, once they are in the local log. This node counts as
leading when the first batch of its epoch has been delivered: from then on its state contains everything committed
before.

Concurrency: the event loop. Failure: a storage fault ends the replica; it reports `failed` and stops.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import structlog

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode, OttlaError, RemoteProtocolError
from ottla.base.executor import Executor
from ottla.base.files import Disk
from ottla.base.promise import Promise
from ottla.base.rng import Random
from ottla.quorum.quorum import (
    CommitListener,
    CommittedBatch,
    CommittedSnapshot,
    LeadershipListener,
    NotLeader,
    QuorumStatus,
    ReplicaStatus,
)
from ottla.quorum.quorum_state import FILE_NAME, NO_NODE, QuorumState, read_quorum_state, write_quorum_state
from ottla.quorum.raft.core import Core
from ottla.quorum.raft.messages import (
    Committed,
    Effect,
    ElectionState,
    LeaderChanged,
    OffsetAndEpoch,
    Persist,
    Recovered,
    Request,
    Respond,
    Response,
    Send,
    SnapshotInstalled,
)
from ottla.quorum.raft.progress import ReplicaProgress
from ottla.quorum.raft.roles import Role
from ottla.quorum.raft.storage_log import StorageRaftLog
from ottla.quorum.raft.timeouts import DEFAULT_TIMEOUTS, Timeouts
from ottla.quorum.raft.translation import (
    decode_request,
    decode_response,
    encode_error,
    encode_request,
    encode_response,
)
from ottla.quorum.raft.voters import ReplicaKey, VoterSet
from ottla.quorum.snapshots import SnapshotId, SnapshotStore, encode_snapshot
from ottla.records.record import iter_records
from ottla.wire.schema import Message

_log = structlog.get_logger(__name__)
_STOP_S: Final = 0.5
"""How long a stopping leader waits until the voters have acknowledged its resignation."""
_POLL_S: Final = 0.005
M = TypeVar("M", bound=Message)


class QuorumTransport(Protocol):
    """Sends requests to the controller listeners of other nodes."""

    def request(
        self, node_id: int, message: Message, response: type[M], *, timeout_s: float, versions: range | None
    ) -> Promise[M]: ...


class Timer(Protocol):
    def cancel(self) -> None: ...


class Timers(Protocol):
    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer: ...

    def call_soon(self, callback: Callable[[], None], /) -> Any: ...


class RaftSettings(NamedTuple):
    """What identifies a replica and its quorum."""

    cluster_id: str
    local: ReplicaKey
    voters: VoterSet
    snapshot_interval_bytes: int
    timeouts: Timeouts = DEFAULT_TIMEOUTS
    kraft_version: int = 0
    request_timeout_s: float = 2.0
    recovering: bool = False
    """This voter has lost its log: it gives no vote until it has everything that was committed."""


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
        )
        self._effects: deque[Effect] = deque()
        self._received: dict[Promise[Message], None] = {}
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
        return self._settings.kraft_version

    @property
    def leader_id(self) -> int:
        return self._core.leader_id

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
        self._step(self._core.start)

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
        self._received[promise] = None
        self._step(lambda now_ms: self._core.receive(now_ms, promise, request))
        return promise

    def describe(self) -> QuorumStatus:
        """The state of the quorum on this replica; only the leader has the progress of the others."""
        core, now_ms = self._core, self._clock.now_ms()
        leadership = core.leadership
        known = {} if leadership is None else {one.key.node_id: one for one in leadership.progress.replicas}
        local_id = core.local.node_id
        voters = []
        for voter in core.voters:
            listeners = voter.listeners
            directory_id = voter.key.directory_id  # unknown if the voters are static, as in Kafka
            if voter.key.node_id == local_id:
                status = ReplicaStatus(
                    local_id, directory_id, self._log.end_offset, now_ms, now_ms, listeners
                )
            else:
                progress = known.pop(voter.key.node_id, ReplicaProgress(voter.key))
                status = self._status(progress)._replace(directory_id=directory_id, listeners=listeners)
            voters.append(status)
        known.pop(local_id, None)
        observers = tuple(self._status(one) for one in known.values())
        return QuorumStatus(core.leader_id, core.epoch, core.high_watermark, tuple(voters), observers)

    def _status(self, one: ReplicaProgress) -> ReplicaStatus:
        def wall_ms(at_ms: float) -> int:
            return -1 if at_ms < 0 else int(self._clock.now_ms() - (self._now_ms() - at_ms))

        fetched_ms, caught_up_ms = wall_ms(one.last_fetch_ms), wall_ms(one.last_caught_up_ms)
        return ReplicaStatus(
            one.key.node_id, one.key.directory_id, one.end_offset, fetched_ms, caught_up_ms, ()
        )

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
                promise.keep(encode_response(response, self._log.start_offset))
            case Committed(high_watermark):
                self._committed = high_watermark
                self._log.committed(high_watermark)
            case LeaderChanged():
                self._leader_changed(effect)
            case SnapshotInstalled(snapshot):
                self._load_snapshot(snapshot)
            case Recovered():
                self._on_recovered()

    def _persist(self, state: ElectionState) -> None:
        voted = state.voted or ReplicaKey(NO_NODE)
        stored = QuorumState(state.epoch, state.leader_id, voted.node_id, voted.directory_id)
        write = partial(
            write_quorum_state,
            self._disk,
            self._state_path,
            stored,
            kraft_version=self._settings.kraft_version,
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
        wire = encode_request(request, self._settings.cluster_id)
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
                self._refused_by.discard(node_id)
            except (ApiError, RemoteProtocolError) as refusal:
                _log.warning("a voter refused a request of the quorum", node=node_id, reason=str(refusal))
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
        received, self._received = self._received, {}
        for promise in received:
            promise.fail(RemoteProtocolError("this replica of the quorum has stopped"))
