"""A quorum of one voter: this node leads, and a batch that is durable here is committed.

Owns the epoch, the voters as control records describe them, appends and snapshots. The directory has the layout
of a KRaft voter, so Apache Kafka can open it, and a directory that Kafka wrote can be opened here.

- Every start begins a new epoch, one above the highest in `quorum-state`, log and snapshots. It is durable in
  `quorum-state` before the first batch of the epoch is written.
- The first batch of an epoch is a leader change. If kraft.version is 1 and the newest voters record is not in
  the log, or is out of date, a current one follows in the same batch.
- One write is one batch, and a write starts after the one before it is durable. Appends of one iteration of the loop,
  and those made during a write, share the next batch. So a crash keeps a whole prefix of the writes, and each
  append is kept completely or not at all. A failed write is not retried: this node resigns and stays failed.
- A snapshot is due after a number of bytes of log. When it is durable, log and snapshots below the snapshot
  *before* it are deleted: if the newest is damaged, the state can still be restored.

Concurrency: the event loop. Writes and snapshots are written in the executor, at most one of each at a time. The roll
before a snapshot and the deletion of old segments and snapshots after it are done on the loop.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import structlog

from ottla.base.clock import Clock
from ottla.base.errors import ErrorCode, LocalError, StorageFault, invariant
from ottla.base.executor import Executor
from ottla.base.files import Disk
from ottla.base.promise import Promise
from ottla.quorum.control_records import control_batch, read_control_batch
from ottla.quorum.metadata_log import MetadataLog
from ottla.quorum.quorum import (
    ChangeResult,
    CommitListener,
    CommittedBatch,
    CommittedSnapshot,
    LeadershipListener,
    NotLeader,
    QuorumStatus,
    ReplicaStatus,
    VoterChange,
)
from ottla.quorum.quorum_state import (
    FILE_NAME,
    NO_NODE,
    QuorumState,
    is_dynamic_state,
    read_quorum_state,
    write_quorum_state,
)
from ottla.quorum.snapshots import SnapshotId, SnapshotStore, encode_snapshot
from ottla.quorum.voter import LocalVoter
from ottla.records.builder import NewRecord, build_batch
from ottla.records.record import iter_records
from ottla.wire.messages.control import KRaftVersionRecord, LeaderChangeMessage, Voter, VotersRecord
from ottla.wire.schema import Message

_log = structlog.get_logger(__name__)

# The record values of one batch; a single append above it is written alone.
BATCH_BYTES_MAX: Final = 8 << 20


class SingleQuorum:
    """The quorum in the directory `directory`, with the log `log`."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        log: MetadataLog,
        *,
        voter: LocalVoter,
        clock: Clock,
        executor: Executor,
        defer: Callable[[Callable[[], None]], object],
        snapshot_interval_bytes: int,
    ) -> None:
        self._disk = disk
        self._state_path = f"{directory}/{FILE_NAME}"
        self._log = log
        self._voter = voter
        self._clock = clock
        self._executor = executor
        self._defer = defer
        self._snapshots = SnapshotStore(disk, directory)
        self._snapshot_interval_bytes = snapshot_interval_bytes
        self._commits: CommitListener
        self._leadership: LeadershipListener
        self._kraft_version = 0
        self._voters: VotersRecord | None = None
        self._voters_in_log = False
        self._bytes_since_snapshot = 0
        self._last_timestamp_ms = 0
        self._snapshot_running = False
        self._leads = False
        self._pending: deque[Sequence[bytes]] = deque()
        self._writing = False
        self._write_scheduled = False
        self._stopping: Promise[None] | None = None
        self._base = self._newest_usable_snapshot()
        self._epoch = max(read_quorum_state(disk, self._state_path).leader_epoch, self._base.epoch)
        self._scan()
        self._high_watermark = self._next_offset = log.end_offset

    # State

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def leader_id(self) -> int:
        """The node that leads: this one, once it has begun its epoch and until it fails or stops."""
        return self._voter.node_id if self._leads else NO_NODE

    @property
    def is_voter(self) -> bool:
        return True

    @property
    def log_end_offset(self) -> int:
        return self._next_offset

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @property
    def kraft_version(self) -> int:
        return self._kraft_version

    @property
    def silence_ms(self) -> float:
        return 0.0

    def describe(self) -> QuorumStatus:
        """The quorum for DescribeQuorum; the leader counts as caught up at the current time."""
        now_ms = self._clock.now_ms()
        status = ReplicaStatus(
            self._voter.node_id,
            self._voter.directory_id,
            self._log.end_offset,
            now_ms,
            now_ms,
            self._voter.listeners,
        )
        return QuorumStatus(self._voter.node_id, self._epoch, self._high_watermark, (status,))

    # The voter does not change: no other replica can follow this one

    def add_voter(
        self, voter: VoterChange, timeout_ms: int, *, wait_for_commit: bool
    ) -> Promise[ChangeResult]:
        if voter.node_id == self._voter.node_id and self._kraft_version:
            text = f"node {voter.node_id} is a voter already"
            return Promise.kept(ChangeResult(ErrorCode.DUPLICATE_VOTER, text))
        text = f"node {voter.node_id} cannot follow a quorum of one: it has no controller listener"
        return self._unchanged(ErrorCode.REQUEST_TIMED_OUT, text)

    def remove_voter(self, node_id: int, directory_id: uuid.UUID) -> Promise[ChangeResult]:
        known = (node_id, directory_id) == (self._voter.node_id, self._voter.directory_id)
        text = "the last voter cannot be removed" if known else "no voter has this node id and directory id"
        return self._unchanged(ErrorCode.VOTER_NOT_FOUND, text)

    def update_voter(self, voter: VoterChange) -> Promise[ChangeResult]:
        """Refuse an update: the voter updates itself when it starts."""
        known = (voter.node_id, voter.directory_id) == (self._voter.node_id, self._voter.directory_id)
        return self._unchanged(ErrorCode.INVALID_REQUEST if known else ErrorCode.VOTER_NOT_FOUND, "")

    def _unchanged(self, error: ErrorCode, text: str) -> Promise[ChangeResult]:
        if not self._kraft_version:
            error, text = ErrorCode.UNSUPPORTED_VERSION, "the voters are static (kraft.version is 0)"
        return Promise.kept(ChangeResult(error, text))

    # Start

    def _newest_usable_snapshot(self) -> SnapshotId:
        """The snapshot to start from; the empty state if there is none."""
        for snapshot_id in reversed(self._snapshots.ids()):
            try:
                snapshot = self._snapshots.read(snapshot_id)
            except LocalError as error:
                if self._log.start_offset >= snapshot_id.end_offset > 0:
                    raise
                _log.warning("a metadata snapshot is damaged; an older one is used", reason=str(error))
                continue
            for control in snapshot.controls:
                self._note_control(control)
            self._last_timestamp_ms = snapshot.last_timestamp_ms
            if self._log.end_offset < snapshot_id.end_offset:
                self._log.restart_at(snapshot_id.end_offset)
            return snapshot_id
        if self._log.start_offset > 0:
            raise LocalError(
                f"the metadata log starts at offset {self._log.start_offset} and no snapshot covers the records "
                "before it; restore the .checkpoint files of the directory"
            )
        return SnapshotId(0, 0)

    def _scan(self) -> None:
        """Read epoch, voters and size of the log after the snapshot."""
        for header, batch in self._log.batches(self._base.end_offset):
            self._epoch = max(self._epoch, header.partition_leader_epoch)
            self._last_timestamp_ms = header.max_timestamp
            self._bytes_since_snapshot += header.size_in_bytes
            if header.is_control:
                for control in read_control_batch(header, batch):
                    self._note_control(control)
                    self._voters_in_log |= isinstance(control, VotersRecord)
        if self._voters is not None:
            self._voter.check(self._voters)
        elif is_dynamic_state(self._disk, self._state_path):
            raise LocalError(
                f"{self._state_path} belongs to a node that follows a quorum whose voters it does not know yet; set "
                "controller.quorum.bootstrap.servers"
            )

    def _note_control(self, control: Message) -> None:
        if isinstance(control, KRaftVersionRecord):
            self._kraft_version = control.kraft_version
        elif isinstance(control, VotersRecord):
            self._voters = control

    def start(self, commits: CommitListener, leadership: LeadershipListener) -> None:
        """Deliver the stored snapshot and log, then begin a new epoch; the only voter elects itself."""
        self._commits, self._leadership = commits, leadership
        if self._base.end_offset:
            values = chain.from_iterable(self._snapshots.read(self._base).batches)
            commits.load_snapshot(CommittedSnapshot(self._base.end_offset - 1, self._base.epoch, values))
        stored = list(self._stored_batches())
        if stored:
            commits.committed(stored)
        self._begin_epoch(self._epoch + 1)

    def _stored_batches(self) -> Iterator[CommittedBatch]:
        for header, batch in self._log.batches(self._base.end_offset):
            values = []
            if not header.is_control:
                values = [bytes(record.value or b"") for record in iter_records(batch, header)]
            yield CommittedBatch(
                header.last_offset, header.partition_leader_epoch, header.max_timestamp, values
            )

    def _begin_epoch(self, epoch: int) -> None:
        """Make the epoch durable, then write its first batch."""

        def write_state() -> None:
            state = QuorumState(epoch, self._voter.node_id)
            write_quorum_state(
                self._disk,
                self._state_path,
                state,
                kraft_version=self._kraft_version,
                node_id=self._voter.node_id,
            )

        def stored(failure: BaseException | None) -> None:
            if failure is not None:
                self._fail(failure)
                return
            self._epoch = epoch
            self._write_leader_change()

        self._executor.submit(write_state, stored)

    def _write_leader_change(self) -> None:
        me = [Voter(voter_id=self._voter.node_id)]
        controls: list[Message] = [
            LeaderChangeMessage(leader_id=self._voter.node_id, voters=me, granting_voters=me)
        ]
        if self._kraft_version and (not self._voters_in_log or self._voters != self._voter.record()):
            self._voters = self._voter.record()
            self._voters_in_log = True
            controls += [KRaftVersionRecord(kraft_version=self._kraft_version), self._voters]
        now_ms = self._clock.now_ms()
        data = control_batch(controls, base_offset=self._next_offset, epoch=self._epoch, now_ms=now_ms)
        self._next_offset += len(controls)

        def committed() -> None:
            self._leads = True
            self._leadership.leading(self._epoch)

        self._write(data, CommittedBatch(self._next_offset - 1, self._epoch, now_ms, []), committed)

    # Appends

    def append(self, epoch: int, values: Sequence[bytes]) -> int:
        """Append records to the next batch. Listeners are never called before this returns."""
        if not self._leads or epoch != self._epoch:
            raise NotLeader(f"append in epoch {epoch}: this node does not lead it (epoch {self._epoch})")
        invariant(len(values) > 0, "an append has at least one record")
        self._pending.append(values)
        self._next_offset += len(values)
        if not self._writing and not self._write_scheduled:
            self._write_scheduled = True
            self._defer(self._write_pending)
        return self._next_offset - 1

    def _write_pending(self) -> None:
        """Write pending appends, up to the size limit, as one batch."""
        self._write_scheduled = False
        if self._writing or not self._pending:
            self._stop_if_idle()
            return
        values = list(self._pending.popleft())
        size = sum(map(len, values))
        while self._pending and (size := size + sum(map(len, self._pending[0]))) <= BATCH_BYTES_MAX:
            values += self._pending.popleft()
        now_ms = self._clock.now_ms()
        base_offset = self._high_watermark
        records = [NewRecord(None, value, (), now_ms) for value in values]
        data = build_batch(records, base_offset=base_offset, leader_epoch=self._epoch)
        self._write(data, CommittedBatch(base_offset + len(values) - 1, self._epoch, now_ms, values), None)

    def _write(self, data: bytes, batch: CommittedBatch, committed: Callable[[], None] | None) -> None:
        """Write one batch; deliver it when it is durable, then call `committed`."""
        self._writing = True

        def written(failure: BaseException | None) -> None:
            self._writing = False
            if failure is not None:
                self._fail(failure)
                return
            self._high_watermark = batch.last_offset + 1
            self._last_timestamp_ms = batch.timestamp_ms
            self._bytes_since_snapshot += len(data)
            try:
                self._commits.committed([batch])
            except Exception as error:  # noqa: BLE001 - this node cannot follow its own log any more
                _log.exception("committed metadata records cannot be applied", offset=batch.last_offset)
                self._fail(error)
                return
            if committed is not None:
                committed()
            self._write_pending()
            self._stop_if_idle()

        try:
            self._log.append(data, written)
        except StorageFault as fault:
            written(fault)

    def _fail(self, error: BaseException) -> None:
        led, self._leads = self._leads, False
        self._pending.clear()
        self._leadership.failed(error)
        if led:
            self._leadership.resigned(self._epoch)
        self._stop_if_idle()

    # Stop

    def stop(self) -> Promise[None]:
        """Refuse appends from now on; the promise is kept when all writes, snapshots included, are finished."""
        stopping = self._stopping = Promise()
        self._leads = False
        self._stop_if_idle()
        return stopping

    def _stop_if_idle(self) -> None:
        stopping = self._stopping
        is_busy = self._writing or self._write_scheduled or self._pending or self._snapshot_running
        if stopping is not None and not stopping.done and not is_busy:
            stopping.keep(None)

    # Snapshots

    @property
    def snapshot_due(self) -> bool:
        return not self._snapshot_running and self._bytes_since_snapshot >= self._snapshot_interval_bytes

    def write_snapshot(self, last_offset: int, epoch: int, values: Iterable[bytes]) -> None:
        """Write a snapshot of the state after `last_offset` in the executor."""
        invariant(not self._snapshot_running, "one snapshot is written at a time")
        invariant(not self._writing, "a snapshot starts while no batch is being written")
        self._snapshot_running = True
        self._bytes_since_snapshot = 0
        snapshot_id = SnapshotId(last_offset + 1, epoch)
        timestamp_ms, now_ms = self._last_timestamp_ms, self._clock.now_ms()
        controls = self._snapshot_controls()
        self._log.roll()

        def write() -> None:
            data = encode_snapshot(
                values, epoch=epoch, last_timestamp_ms=timestamp_ms, controls=controls, now_ms=now_ms
            )
            self._snapshots.write(snapshot_id, data)

        def written(failure: BaseException | None) -> None:
            self._snapshot_running = False
            if failure is not None:
                # The log still has every record; the next interval tries again.
                _log.warning("a metadata snapshot could not be written", reason=str(failure))
            else:
                self._delete_below(self._base)
                self._base = snapshot_id
            self._stop_if_idle()

        self._executor.submit(write, written)

    def _snapshot_controls(self) -> list[Message]:
        if not self._kraft_version or self._voters is None:
            return []
        return [KRaftVersionRecord(kraft_version=self._kraft_version), self._voters]

    def _delete_below(self, kept: SnapshotId) -> None:
        """Delete log segments and snapshots that only states older than `kept` need."""
        try:
            self._log.delete_before(kept.end_offset)
            for snapshot_id in self._snapshots.ids():
                if snapshot_id < kept:
                    self._snapshots.delete(snapshot_id)
        except (OSError, StorageFault) as error:
            _log.warning("old metadata could not be deleted; it is ignored", reason=str(error))
