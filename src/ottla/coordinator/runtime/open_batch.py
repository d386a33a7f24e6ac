"""The batch that a shard is filling: records of several decisions, where one decision is never split.

A decision is added completely or not at all, and only if the batch stays within the topic's limit. Records have the
time at which they were decided. Pure.
"""

from __future__ import annotations

from typing import Final

from ottla.coordinator.runtime.codec import encode_key, encode_value
from ottla.coordinator.runtime.decision import LogRecord
from ottla.records.batch import (
    HEADER_SIZE,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_MASK,
)
from ottla.records.builder import assemble_batch
from ottla.records.record import Record, append_record

_PLAIN: Final = 0


class OpenBatch:
    """Records to be appended at `base_offset`."""

    __slots__ = ("_bytes_max", "_max_timestamp", "_section", "_start_ms", "base_offset", "count")

    def __init__(self, base_offset: int, bytes_max: int) -> None:
        self.base_offset = base_offset
        self.count = 0
        self._bytes_max = bytes_max
        self._section = bytearray()
        self._start_ms = 0
        self._max_timestamp = 0

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.count

    def add(self, records: list[LogRecord], now_ms: int) -> bool:
        """Add the records of one decision; False, and nothing added, if they do not fit."""
        start_ms = self._start_ms if self.count else now_ms
        added = bytearray()
        for delta, record in enumerate(records, self.count):
            key, value = encode_key(record.key), encode_value(record)
            append_record(added, Record(delta, now_ms - start_ms, key, value))
        if HEADER_SIZE + len(self._section) + len(added) > self._bytes_max:
            return False
        self._max_timestamp = max(self._max_timestamp, now_ms) if self.count else now_ms
        self._start_ms = start_ms
        self._section += added
        self.count += len(records)
        return True

    def build(
        self,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        *,
        transactional: bool = False,
    ) -> memoryview:
        """Encode the batch; the log sets its offset and leader epoch."""
        return memoryview(
            assemble_batch(
                self._section,
                base_offset=0,
                leader_epoch=NO_LEADER_EPOCH,
                attributes=TRANSACTIONAL_MASK if transactional else _PLAIN,
                last_offset_delta=self.count - 1,
                base_timestamp=self._start_ms,
                max_timestamp=self._max_timestamp,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=NO_SEQUENCE,
                records_count=self.count,
            )
        )
