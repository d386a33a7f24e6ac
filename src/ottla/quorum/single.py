"""A quorum of one: this node leads, and what is durable here is committed.

Owns the epoch, the voters as the log tells them, appends and snapshots. It keeps the layout of a KRaft
voter, so that the directory can be opened by Apache Kafka and one that Kafka wrote can be opened here.

- Every start is a new epoch: one above whatever `quorum-state`, log and snapshots mention. It is durable in
  `quorum-state` before the first batch is written in it.
- The first batch of an epoch is a leader change. If the voters are told in the log (kraft.version 1) and the
  latest word on them lies outside of it, or is no longer right, they follow in the same batch.
- A decision is one batch: a crash keeps all of it or nothing. Nothing is retried after a failed write.
- A snapshot is due after so many bytes of log. When it is durable, log and snapshots below the one *before*
  it go: if the newest turns out to be damaged, the state can still be had.

Concurrency: the event loop. Writes run in an executor; one append and one snapshot at most are under way.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import structlog

from ottla.base.clock import Clock
from ottla.base.errors import LocalError, StorageFault, invariant
from ottla.base.executor import Executor
from ottla.base.files import Disk
from ottla.base.ids import uuid_text
from ottla.quorum.control_records import control_batch, read_control_batch
from ottla.quorum.metadata_log import MetadataLog
from ottla.quorum.quorum import (
    AppendDone,
    Appended,
    CommittedBatch,
    ListenerAddress,
    QuorumStatus,
    ReplicaStatus,
)
from ottla.quorum.quorum_state import FILE_NAME, QuorumState, read_quorum_state, write_quorum_state
from ottla.quorum.snapshots import SnapshotId, SnapshotStore, encode_snapshot
from ottla.records.builder import NewRecord, build_batch
from ottla.records.record import iter_records
from ottla.wire.messages.control import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    Voter,
    VotersRecord,
    VotersRecordVoter,
)
from ottla.wire.schema import Message

_log = structlog.get_logger(__name__)

KRAFT_VERSION_MAX: Final = 1


class LocalVoter:
    """This node as a voter."""

    __slots__ = ("directory_id", "listeners", "node_id")

    def __init__(self, node_id: int, directory_id: uuid.UUID, listeners: Sequence[ListenerAddress]) -> None:
        self.node_id = node_id
        self.directory_id = directory_id
        self.listeners = tuple(listeners)

    def record(self) -> VotersRecord:
        """The voters of a quorum that has only this one."""
        return VotersRecord(
            voters=[
                VotersRecordVoter(
                    voter_id=self.node_id,
                    voter_directory_id=self.directory_id,
                    endpoints=[Endpoint(name=at.name, host=at.host, port=at.port) for at in self.listeners],
                    kraft_version_feature=KRaftVersionFeature(max_supported_version=KRAFT_VERSION_MAX),
                )
            ]
        )


class SingleQuorum:
    """The quorum in the directory `directory`, whose log is `log`."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        log: MetadataLog,
        *,
        voter: LocalVoter,
        clock: Clock,
        executor: Executor,
        snapshot_interval_bytes: int,
    ) -> None:
        self._disk = disk
        self._state_path = f"{directory}/{FILE_NAME}"
        self._log = log
        self._voter = voter
        self._clock = clock
        self._executor = executor
        self._snapshots = SnapshotStore(disk, directory)
        self._snapshot_interval_bytes = snapshot_interval_bytes
        self._kraft_version = 0
        self._voters: VotersRecord | None = None
        self._voters_in_log = False
        self._bytes_since_snapshot = 0
        self._last_timestamp_ms = 0
        self._snapshot_running = False
        self._appending = False
        self._base = self._newest_usable_snapshot()
        self._epoch = max(read_quorum_state(disk, self._state_path).leader_epoch, self._base.epoch)
        self._scan()
        self._high_watermark = log.end_offset

    # What there is

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def log_end_offset(self) -> int:
        return self._log.end_offset

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @property
    def kraft_version(self) -> int:
        return self._kraft_version

    def load(self) -> Iterator[CommittedBatch]:
        """Everything committed: the newest snapshot, then the log after it."""
        if self._base.end_offset:
            snapshot = self._snapshots.read(self._base)
            last_offset = self._base.end_offset - 1
            for values in snapshot.batches:
                yield CommittedBatch(last_offset, self._base.epoch, snapshot.last_timestamp_ms, values)
        for header, batch in self._log.batches(self._base.end_offset):
            values = []
            if not header.is_control:
                values = [bytes(record.value or b"") for record in iter_records(batch, header)]
            yield CommittedBatch(
                header.last_offset, header.partition_leader_epoch, header.max_timestamp, values
            )

    def describe(self) -> QuorumStatus:
        """The quorum as DescribeQuorum tells it; a leader has always just heard from itself."""
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

    # Start

    def _newest_usable_snapshot(self) -> SnapshotId:
        """The snapshot to begin with; the state of nothing if there is none."""
        for snapshot_id in reversed(self._snapshots.ids()):
            try:
                snapshot = self._snapshots.read(snapshot_id)
            except LocalError as error:
                if self._log.start_offset >= snapshot_id.end_offset > 0:
                    raise
                _log.warning("a metadata snapshot is damaged; an older state is used", reason=str(error))
                continue
            for control in snapshot.controls:
                self._note_control(control)
            self._last_timestamp_ms = snapshot.last_timestamp_ms
            if self._log.end_offset < snapshot_id.end_offset:
                self._log.restart_at(snapshot_id.end_offset)
            return snapshot_id
        if self._log.start_offset > 0:
            raise LocalError(
                f"the metadata log begins at offset {self._log.start_offset}, no snapshot has what was before"
            )
        return SnapshotId(0, 0)

    def _scan(self) -> None:
        """Learn epoch, voters and size of what follows the snapshot."""
        for header, batch in self._log.batches(self._base.end_offset):
            self._epoch = max(self._epoch, header.partition_leader_epoch)
            self._last_timestamp_ms = header.max_timestamp
            self._bytes_since_snapshot += header.size_in_bytes
            if header.is_control:
                for control in read_control_batch(header, batch):
                    self._note_control(control)
                    self._voters_in_log |= isinstance(control, VotersRecord)
        self._check_voters()

    def _note_control(self, control: Message) -> None:
        if isinstance(control, KRaftVersionRecord):
            self._kraft_version = control.kraft_version
        elif isinstance(control, VotersRecord):
            self._voters = control

    def _check_voters(self) -> None:
        """Refuse a directory of another quorum."""
        if self._voters is None:
            return
        voters = {voter.voter_id: voter.voter_directory_id for voter in self._voters.voters}
        if list(voters) != [self._voter.node_id]:
            raise LocalError(
                f"the metadata log belongs to voters {sorted(voters)}; this node is {self._voter.node_id}, "
                "and runs a quorum of one"
            )
        directory_id = voters[self._voter.node_id]
        if directory_id != self._voter.directory_id:
            raise LocalError(
                f"the metadata log belongs to directory {uuid_text(directory_id)}, "
                f"this is {uuid_text(self._voter.directory_id)}"
            )

    def lead(self, done: AppendDone) -> None:
        """Begin a new epoch; nothing can be appended before it is durable."""
        self._epoch += 1
        write_quorum_state(
            self._disk,
            self._state_path,
            QuorumState(self._epoch, self._voter.node_id),
            kraft_version=self._kraft_version,
            node_id=self._voter.node_id,
        )
        me = [Voter(voter_id=self._voter.node_id)]
        controls: list[Message] = [
            LeaderChangeMessage(leader_id=self._voter.node_id, voters=me, granting_voters=me)
        ]
        if self._kraft_version and (not self._voters_in_log or self._voters != self._voter.record()):
            self._voters = self._voter.record()
            self._voters_in_log = True
            controls += [KRaftVersionRecord(kraft_version=self._kraft_version), self._voters]
        now_ms = self._clock.now_ms()
        base_offset = self._log.end_offset
        batch = control_batch(controls, base_offset=base_offset, epoch=self._epoch, now_ms=now_ms)
        self._append(batch, base_offset + len(controls) - 1, now_ms, done)

    # Appending

    def append(self, values: Sequence[bytes], done: AppendDone) -> None:
        """Append one decision as one batch."""
        now_ms = self._clock.now_ms()
        base_offset = self._log.end_offset
        records = [NewRecord(None, value, (), now_ms) for value in values]
        batch = build_batch(records, base_offset=base_offset, leader_epoch=self._epoch)
        self._append(batch, base_offset + len(records) - 1, now_ms, done)

    def _append(self, batch: bytes, last_offset: int, now_ms: int, done: AppendDone) -> None:
        invariant(not self._appending, "one decision at a time")
        self._appending = True

        def durable(failure: BaseException | None) -> None:
            self._appending = False
            if failure is not None:
                done(failure)
                return
            self._high_watermark = last_offset + 1
            self._last_timestamp_ms = now_ms
            self._bytes_since_snapshot += len(batch)
            done(Appended(last_offset, self._epoch))

        self._log.append(batch, durable)

    # Snapshots

    @property
    def snapshot_due(self) -> bool:
        return not self._snapshot_running and self._bytes_since_snapshot >= self._snapshot_interval_bytes

    def write_snapshot(self, last_offset: int, epoch: int, values: Iterable[bytes]) -> None:
        """Write the state after `last_offset`; `values` is drawn from a worker, so it must not change."""
        invariant(not self._snapshot_running, "one snapshot at a time")
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
                # The log still has everything; the next interval tries again.
                _log.warning("a metadata snapshot could not be written", reason=str(failure))
                return
            self._delete_below(self._base)
            self._base = snapshot_id

        self._executor.submit(write, written)

    def _snapshot_controls(self) -> list[Message]:
        if not self._kraft_version or self._voters is None:
            return []
        return [KRaftVersionRecord(kraft_version=self._kraft_version), self._voters]

    def _delete_below(self, kept: SnapshotId) -> None:
        """Give up what only a state older than `kept` needs."""
        try:
            self._log.delete_before(kept.end_offset)
            for snapshot_id in self._snapshots.ids():
                if snapshot_id < kept:
                    self._snapshots.delete(snapshot_id)
        except (OSError, StorageFault) as error:
            _log.warning("old metadata could not be deleted; it does no harm", reason=str(error))
