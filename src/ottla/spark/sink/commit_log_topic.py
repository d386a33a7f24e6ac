"""The commit log in a compacted topic, which all queries of a cluster share; each query uses one partition.

The partition is the hash of the name of the query modulo a fixed number: partitions that are added later change
nothing. What was read is cached between the batches of a run, so a batch costs no more than appending its two records.
A record that was appended at the position up to which the log was read need not be read back. Used by one thread.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.client.raw import EARLIEST, LATEST, Cluster, OffsetOutOfRange, RawProducer
from ottla.client.raw.admin import ensure_topic
from ottla.client.raw.errors import RetriableError
from ottla.records import columns
from ottla.records.columns import BinaryColumn, DecodedColumns
from ottla.records.kernel import murmur2
from ottla.spark.sink.batch_commit import Superseded
from ottla.spark.sink.commit_log import (
    CommitEntry,
    CommitLogDamaged,
    CommitLogState,
    CommitRecord,
    decode_record,
    encode_value,
    key_of,
)

PARTITIONS: Final = 16
CONFIGS: Final = {
    "cleanup.policy": "compact",
    # Only inactive segments are compacted: with small segments a driver reads less at its start.
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
_WANTED = frozenset({columns.KEY, columns.VALUE, columns.OFFSET})


class TopicCommitLog:
    """The commit log of one run of a query."""

    def __init__(self, cluster: Cluster, topic: str, query: str, run: str) -> None:
        self._cluster = cluster
        self._query = query
        self._run = run
        self._partition = TopicPartition(topic, (murmur2(query.encode()) & 0x7FFFFFFF) % PARTITIONS)
        self._producer: RawProducer | None = None
        self._state = CommitLogState()
        self._position: int | None = None
        self._is_writer = False

    def entry(self) -> CommitEntry | None:
        """The last entry, of any run."""
        self._read_new()
        return self._state.entry

    def expected(self, batch: int) -> CommitEntry | None:
        """The last entry before that batch; not read again if this process has recorded the batch before it.

        Any of Spark's Python processes may commit a batch, so an older entry of this process may not be the last one.
        """
        known = self._state.entry
        if self._is_writer and known is not None and known.batch == batch - 1:
            return known
        return self.entry()

    def is_own(self) -> bool:
        """Whether this run has recorded the last entry."""
        current = self._state.current
        return current is not None and current.run == self._run

    def record(self, entry: CommitEntry) -> None:
        """Append an entry after the one that was read last; raises Superseded if another run has appended one."""
        before = self._state.end
        self._is_writer = False
        offset = self._append(encode_value(before, entry))
        if offset == self._position:
            self._state.apply(CommitRecord(offset, self._run, before, entry))
            self._position = offset + 1
        else:
            self._read_new()
        if not self._state.has(self._run, before, entry):
            raise Superseded(
                f"batch {entry.batch} was not committed by this driver: another driver runs the query {self._query} at "
                "the same time and has committed first"
            )
        self._is_writer = True

    def _append(self, value: bytes) -> int:
        """Append a record; return its offset as the broker has reported it."""
        producer, self._producer = self._producer, None
        if producer is None:
            producer = RawProducer(self._cluster)
            producer.init()
        batches = columns.encode(
            _single(value),
            1,
            keys=_single(key_of(self._query, self._run)),
            timestamp_ms=self._cluster.clock.now_ms(),
        )
        try:
            producer.send(self._partition, batches)
            producer.flush()
        except BaseException:
            producer.close()
            raise
        self._producer = producer
        return producer.last_offset(self._partition)

    def _read_new(self) -> None:
        """Read all records up to the current end of the partition."""
        if self._position is None:
            self._create_topic()
            self._position = self._offset_at(EARLIEST)
        # A new leader has no high watermark until its followers have fetched. ListOffsets waits for it, Fetch does not.
        end = self._offset_at(LATEST)
        if end < self._position:
            raise CommitLogDamaged(
                f"{self._partition} ends at offset {end}, but was read up to {self._position} before: it was "
                "truncated, or the topic or cluster was recreated. Restart the query to continue with its current state"
            )
        retry = self._cluster.retry(f"reading the commit log {self._partition}")
        while self._position < end:
            try:
                fetched = self._cluster.fetch(self._partition, self._position, committed=False)
            except OffsetOutOfRange as error:
                retry.backoff(error)
                self._position = max(self._offset_at(EARLIEST), self._position)
                continue
            decoded = columns.decode(
                fetched.data, start_offset=self._position, end_offset=end, wanted=_WANTED
            )
            self._apply(decoded)
            if decoded.next_offset == self._position:
                retry.backoff(
                    RetriableError(f"{self._partition} has no record at offset {self._position} yet")
                )
            self._position = decoded.next_offset

    def _create_topic(self) -> None:
        name = self._partition.topic
        ensure_topic(self._cluster, name, PARTITIONS, CONFIGS)
        found = len(self._cluster.topic(name, wait=True).partitions)
        if found < PARTITIONS:
            raise LocalError(f"the commit log topic {name} has {found} partitions, but needs {PARTITIONS}")

    def _offset_at(self, timestamp: int) -> int:
        return self._cluster.list_offsets({self._partition: timestamp})[self._partition][0]

    def _apply(self, decoded: DecodedColumns) -> None:
        offsets = memoryview(decoded.offset or b"").cast("B").cast("q")
        keys, values = decoded.key, decoded.value
        if keys is None or values is None:
            return
        for row in range(decoded.rows):
            record = decode_record(self._query, offsets[row], _cell(keys, row), _cell(values, row))
            if record is not None:
                self._state.apply(record)


def _single(cell: bytes) -> BinaryColumn:
    return BinaryColumn(b"".join(size.to_bytes(4, "little") for size in (0, len(cell))), cell)


def _cell(column: BinaryColumn, row: int) -> bytes | None:
    if column.validity is not None and not memoryview(column.validity).cast("B")[row >> 3] >> (row & 7) & 1:
        return None
    offsets = memoryview(column.offsets).cast("B").cast("i")
    return bytes(memoryview(column.data).cast("B")[offsets[row] : offsets[row + 1]])
