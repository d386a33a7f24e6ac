"""Which records of a batch remain when its log is cleaned.

A record remains if no later record has its key, or if its offset is above those in the offset map. A
tombstone (a record without a value) that is the last of its key remains until its delete horizon: the first
cleaning that reads it sets now + `delete.retention.ms` in the batch (attribute bit 6, instead of the
base timestamp), a later one removes it after that time. Records of aborted transactions are removed. A
transaction's marker remains until a cleaning finds none of its records left, and then until its own delete
horizon.

Offsets never change: a batch keeps its base offset, its last offset delta and its sequence numbers even when
records in it are removed. An empty header remains where something depends on it: the last batch of a producer
that may still retry, and the last batch of a new segment, so that the segment ends where those it replaces
ended.

Batches that lose no record are copied unchanged. Remaining records are copied as bytes, not encoded again;
only their timestamp deltas are rewritten when a delete horizon replaces the base timestamp.

Pure. Concurrency: one cleaning at a time, on any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, NoReturn

from ottla.base.files import Buffer
from ottla.base.varint import MalformedVarint, append_varint, read_varint
from ottla.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_MASK,
    KNOWN_ATTRIBUTES,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
    TimestampType,
)
from ottla.records.builder import assemble_batch
from ottla.records.compression import compress
from ottla.records.record import MalformedRecord, records_section
from ottla.storage.cleaning.cleaner_map import OffsetMap
from ottla.storage.index.txn_index import AbortedTxn
from ottla.storage.producers.producer_replay import read_marker


class LastBatch(NamedTuple):
    """What must be retained of an active producer: the batch ending at `last_offset`, or (-1) its epoch's marker."""

    last_offset: int
    epoch: int


class RecordPosition(NamedTuple):
    """The position of a record in its section, and the fields that a cleaning needs."""

    start: int
    body: int  # behind the length
    rest: int  # behind the timestamp delta
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


class CleanedTransactions:
    """Follows the transactions in a log as it is read from front to back."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._coming = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
        # Producer id -> the aborted transaction it is in, and whether a batch of it was met.
        self._aborted: dict[int, tuple[AbortedTxn, bool]] = {}
        self._committed: set[int] = set()

    def batch_read(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        self._advance(header)
        if not header.is_transactional:
            return False
        found = self._aborted.get(header.producer_id)
        if found is None or found[0].last_offset < header.base_offset:
            self._committed.add(header.producer_id)
            return False
        self._aborted[header.producer_id] = (found[0], True)
        return True

    def marker_read(self, batch: Buffer, header: BatchHeader) -> tuple[bool, AbortedTxn | None]:
        """Whether a control batch has nothing left to end, and the aborted transaction it ends if it has."""
        self._advance(header)
        if header.records_count == 0:
            return True, None
        marker = read_marker(batch, header)
        if marker is None:
            return False, None
        if marker.committed:
            had_records = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not had_records, None
        txn, had_records = self._aborted.pop(header.producer_id, (None, False))
        return (False, txn) if had_records else (True, None)

    def _advance(self, header: BatchHeader) -> None:
        coming = self._coming
        while coming and coming[-1].first_offset <= header.last_offset:
            txn = coming.pop()
            # Reading may begin behind a transaction, or its marker may have been removed: then it has ended.
            if txn.last_offset >= header.base_offset:
                self._aborted[txn.producer_id] = (txn, False)


class BatchFilter:
    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        producers: Mapping[int, LastBatch],
        *,
        delete_retention_ms: int,
        now_ms: int,
    ) -> None:
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers
        self._new_horizon = now_ms + delete_retention_ms
        self._now_ms = now_ms

    def clean(
        self, batch: Buffer, header: BatchHeader, *, keep_header: bool
    ) -> tuple[Buffer | None, AbortedTxn | None]:
        """What remains of a batch (None: nothing), and the aborted transaction it ends if it is still needed.

        With `keep_header` at least an empty batch remains.
        """
        keep_header = keep_header or self._is_last_of_producer(header)
        horizon = header.delete_horizon_ms
        if not header.is_control:
            if self._transactions.batch_read(header):
                return (empty_batch(header) if keep_header else None), None
            return self._clean_data(batch, header, keep_header=keep_header), None
        done, ended = self._transactions.marker_read(batch, header)
        if header.records_count == 0 or (done and horizon is not None and horizon <= self._now_ms):
            return (empty_batch(header) if keep_header else None), ended
        if done and horizon is None:
            section = records_section(batch, header)
            return self._assemble(
                header, section, list(scan_records(section, header)), set_horizon=True
            ), ended
        return batch, ended

    def _clean_data(self, batch: Buffer, header: BatchHeader, *, keep_header: bool) -> Buffer | None:
        section = records_section(batch, header)
        tombstones_stay = header.delete_horizon_ms is None or self._now_ms < header.delete_horizon_ms
        retained = []
        has_tombstone = False
        for record in scan_records(section, header):
            if self._retains(
                header.base_offset + record.offset_delta, record, tombstones_stay=tombstones_stay
            ):
                retained.append(record)
                has_tombstone |= not record.has_value
        if not retained:
            return empty_batch(header) if keep_header else None
        set_horizon = has_tombstone and header.delete_horizon_ms is None
        if len(retained) == header.records_count and not set_horizon:
            return batch
        return self._assemble(header, section, retained, set_horizon=set_horizon)

    def _retains(self, offset: int, record: RecordPosition, *, tombstones_stay: bool) -> bool:
        if offset > self._offsets.latest_offset:
            return True
        if record.key is None:
            return False  # written before the topic was compacted: a record without a key
        return offset >= self._offsets.get(record.key) and (record.has_value or tombstones_stay)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._producers.get(header.producer_id)
        if last is None or not header.has_producer_id:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _assemble(
        self, header: BatchHeader, section: Buffer, retained: list[RecordPosition], *, set_horizon: bool
    ) -> Buffer:
        """A batch of the retained records instead of the old one."""
        attributes = header.attributes & KNOWN_ATTRIBUTES
        base_timestamp = header.base_timestamp
        if set_horizon:
            attributes |= DELETE_HORIZON_MASK
            base_timestamp = self._new_horizon
        view = memoryview(section)
        shift = header.base_timestamp - base_timestamp
        out = bytearray()
        for record in retained:
            if shift:
                _append_shifted(out, view, record, shift)
            else:
                out += view[record.start : record.end]
        max_timestamp = header.max_timestamp
        if header.timestamp_type is TimestampType.CREATE_TIME:
            max_timestamp = header.base_timestamp + max(record.timestamp_delta for record in retained)
        return assemble_batch(
            compress(attributes & CODEC_MASK, out),
            base_offset=header.base_offset,
            leader_epoch=header.partition_leader_epoch,
            attributes=attributes,
            last_offset_delta=header.last_offset_delta,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            records_count=len(retained),
        )


def empty_batch(header: BatchHeader) -> Buffer:
    """The header of a batch without records: offsets, producer and sequence numbers remain."""
    return assemble_batch(
        b"",
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        attributes=header.attributes & KNOWN_ATTRIBUTES & ~(CODEC_MASK | DELETE_HORIZON_MASK),
        last_offset_delta=header.last_offset_delta,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        records_count=0,
    )


def scan_records(section: Buffer, header: BatchHeader) -> Iterator[RecordPosition]:
    """The records of a section without their values and headers; raises CorruptBatch."""
    position = 0
    limit = len(section)
    try:
        for _ in range(header.records_count):
            start = position
            size, body = read_varint(section, position, limit)
            position = body + size
            if size <= 0 or position > limit:
                _malformed(f"a record of {size} bytes passes the end")
            timestamp_delta, rest = read_varint(section, body + 1, position, 64)
            offset_delta, at = read_varint(section, rest, position)
            key_size, at = read_varint(section, at, position)
            key = None
            if key_size >= 0:
                key = bytes(section[at : at + key_size])
                at += key_size
            value_size, at = read_varint(section, at, position)
            if at + max(value_size, 0) > position or not 0 <= offset_delta <= header.last_offset_delta:
                _malformed("a record contradicts its batch")
            yield RecordPosition(
                start, body, rest, position, timestamp_delta, offset_delta, key, value_size >= 0
            )
        if position != limit:
            _malformed("bytes are left over after the last record")
    except (MalformedRecord, MalformedVarint) as error:
        raise CorruptBatch(f"batch at offset {header.base_offset}: {error}") from None


def _malformed(why: str) -> NoReturn:
    raise MalformedRecord(why)


def _append_shifted(out: bytearray, section: memoryview, record: RecordPosition, shift: int) -> None:
    """Append a record with another timestamp delta."""
    delta = bytearray()
    append_varint(delta, record.timestamp_delta + shift)
    append_varint(out, 1 + len(delta) + record.end - record.rest)
    out += section[record.body : record.body + 1]
    out += delta
    out += section[record.rest : record.end]
