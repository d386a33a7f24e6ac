"""The part of a partition that reads: its role, its offsets, the checks of requests, and the reads themselves.

`Partition` adds what changes it. Consumers read up to the high watermark, or the last stable offset, from the leader or
from a follower (KIP-392). Followers copy up to the readable end, from the leader only.

Concurrency: the event loop only. Failure: a log in an offline directory raises KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ottla.base.errors import ApiError, ErrorCode, StorageFault
from ottla.base.ids import Uuid
from ottla.metadata.image import BrokerImage
from ottla.records.batch import BatchHeader
from ottla.replication.cluster_view import ClusterView
from ottla.replication.leader import LeaderState
from ottla.replication.traffic import Traffic
from ottla.storage.log.log import Log
from ottla.storage.log.log_reader import FoundRecord
from ottla.storage.log.log_slice import LogSlice, StagedSlice

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
_LOADING_CHUNK_BYTES: Final = 256 * 1024
_RACK_AWARE: Final = "RackAwareReplicaSelector"


def is_rack_aware(selector: str | None) -> bool:
    """Return whether `replica.selector.class` sends consumers to followers in their racks (KIP-392)."""
    return selector is not None and selector.endswith(_RACK_AWARE)


class Read:
    """The result of one read: the location of the bytes, and the offsets of the log at that moment."""

    __slots__ = ("diverging", "high_watermark", "last_stable_offset", "log_start_offset", "slice", "upto")

    def __init__(self, partition: ReadablePartition, found: LogSlice | StagedSlice | None, upto: int) -> None:
        log = partition.log
        self.slice = found
        self.upto = upto
        self.high_watermark = log.high_watermark
        self.last_stable_offset = log.last_stable_offset
        self.log_start_offset = log.log_start_offset
        self.diverging: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        return 0 if self.slice is None else self.slice.size


class ReadablePartition:
    """Role, offsets and reads of a partition of which this broker has a replica."""

    __slots__ = (
        "_cluster",
        "_leading",
        "_on_fault",
        "epoch_start_offset",
        "index",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "node_id",
        "replicas",
        "topic",
        "topic_id",
        "traffic",
    )

    def __init__(
        self,
        log: Log,
        topic_id: Uuid,
        node_id: int,
        on_fault: Callable[[StorageFault], None],
        cluster: ClusterView,
    ) -> None:
        self.log = log
        self.topic, self.index = log.topic_partition
        self.topic_id = topic_id
        self.node_id = node_id
        self.leader = -1
        self.leader_epoch = NO_EPOCH
        self.epoch_start_offset = NO_OFFSET
        """The end of the log when this broker was elected; -1 if it does not lead."""
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self._leading: LeaderState | None = None
        self._on_fault = on_fault
        self._cluster = cluster
        self.traffic = Traffic()

    @property
    def leads(self) -> bool:
        """Whether this broker is the leader."""
        return self.leader == self.node_id

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    def check_replica_here(self, claimed_epoch: int = NO_EPOCH) -> None:
        """Raise ApiError unless this replica, leader or not, has the epoch that the client claims if it claims one."""
        if self.log.offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        if claimed_epoch not in (NO_EPOCH, self.leader_epoch):
            raise self._wrong_epoch(claimed_epoch)

    def check_offsets_available(self) -> None:
        """Raise OFFSET_NOT_AVAILABLE while the high watermark of a new leader may be below that of the last one."""
        if self.log.high_watermark < self.epoch_start_offset:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)

    def check_leader(self, claimed_epoch: int = NO_EPOCH) -> None:
        """Raise ApiError unless this broker leads, in the epoch that the client claims if it claims one."""
        if self.log.offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        if claimed_epoch not in (NO_EPOCH, self.leader_epoch):
            raise self._wrong_epoch(claimed_epoch)
        if self.leader != self.node_id:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _wrong_epoch(self, claimed_epoch: int) -> ApiError:
        if claimed_epoch < self.leader_epoch:
            return ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        return ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # Reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        committed: bool,
        last_fetched_epoch: int = NO_EPOCH,
        min_one: bool = True,
    ) -> Read:
        """Find the bytes that a consumer reads next; raises ApiError if the offset is out of range."""
        log = self.log
        upto = log.last_stable_offset if committed else log.high_watermark
        return self._read(offset, max_bytes, upto, last_fetched_epoch, min_one)

    def read_for_replica(
        self, offset: int, max_bytes: int, *, last_fetched_epoch: int = NO_EPOCH, min_one: bool = True
    ) -> Read:
        """Find the bytes that a follower reads next: also those that are not committed, or are being written."""
        log = self.log
        upto = log.readable_offset
        if offset != upto:
            return self._read(offset, max_bytes, upto, last_fetched_epoch, min_one)
        read = Read(self, None, upto)
        if last_fetched_epoch > NO_EPOCH:
            read.diverging = self._divergence(offset, last_fetched_epoch)
        staged = log.read_staged(max_bytes) if read.diverging is None else None
        if staged is not None:
            read.slice, read.upto = staged, staged.end_offset
        return read

    def _read(self, offset: int, max_bytes: int, upto: int, last_fetched_epoch: int, min_one: bool) -> Read:
        log = self.log
        if log.truncating:
            return Read(self, None, upto)  # a worker changes segments and epochs
        if last_fetched_epoch > NO_EPOCH:
            diverging = self._divergence(offset, last_fetched_epoch)
            if diverging is not None:
                read = Read(self, None, upto)
                read.diverging = diverging
                return read
        try:
            return Read(self, log.read(offset, max_bytes, upto=upto, min_one=min_one), upto)
        except StorageFault as fault:
            raise self._storage_error(fault) from fault
        except ApiError:
            self._check_here(offset)
            raise

    def _check_here(self, offset: int) -> None:
        """Raise OFFSET_NOT_AVAILABLE for an offset that a follower has not copied yet: the leader may have it."""
        if self.leader != self.node_id and offset > self.log.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)

    def preferred_read_replica(self, rack: str, offset: int) -> int:
        """The in-sync follower in the client's rack that has most records; -1 if the leader serves the client.

        It must have the offset, so that it does not refuse the client (KIP-392).
        """
        leading, brokers = self._leading, self._cluster.brokers
        if leading is None or self.leader != self.node_id or _rack_of(brokers, self.node_id) == rack:
            return -1
        found = [
            (follower.end_offset, follower.caught_up_at, replica_id)
            for replica_id, follower in leading.followers.items()
            if replica_id in self.isr
            and follower.log_start_offset <= offset <= follower.end_offset
            and _rack_of(brokers, replica_id) == rack
        ]
        return max(found)[2] if found else -1

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """All committed batches, read in chunks; not for the fetch path."""
        log = self.log
        try:
            yield from log.batches(
                log.log_start_offset, upto=log.high_watermark, chunk_bytes=_LOADING_CHUNK_BYTES
            )
        except StorageFault as fault:
            raise self._storage_error(fault) from fault

    def offset_for_timestamp(self, timestamp: int) -> FoundRecord | None:
        """The first record with this timestamp or a later one, committed or not."""
        try:
            return self.log.offset_for_timestamp(timestamp)
        except StorageFault as fault:
            raise self._storage_error(fault) from fault

    def max_timestamp(self) -> FoundRecord | None:
        """The first record that has the greatest timestamp."""
        try:
            return self.log.max_timestamp()
        except StorageFault as fault:
            raise self._storage_error(fault) from fault

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions with records in that range."""
        try:
            aborted = self.log.aborted_transactions(start_offset, end_offset)
        except StorageFault as fault:
            raise self._storage_error(fault) from fault
        return [(one.producer_id, one.first_offset) for one in aborted]

    def _divergence(self, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """(epoch, end offset) at which the reader's log diverges from this one; None if it does not."""
        self._check_here(offset)
        epoch, end_offset = self.log.end_offset_for_epoch(last_fetched_epoch)
        if end_offset < 0 or offset < self.log.log_start_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch < last_fetched_epoch or end_offset < offset:
            return epoch, end_offset
        return None

    def _storage_error(self, fault: StorageFault) -> ApiError:
        """Take the directory offline; returns the error for the request that failed."""
        self._on_fault(fault)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(fault))


def _rack_of(brokers: Mapping[int, BrokerImage], broker_id: int) -> str | None:
    """The rack of an active broker."""
    broker = brokers.get(broker_id)
    return None if broker is None or broker.fenced else broker.rack
