"""The commit log in a compacted topic, one partition of it per query, shared by all queries of a cluster.

A query's partition is that of its name under a fixed number of partitions: partitions added to the topic later change
nothing. What was read stays known between the batches of a run, so that a batch costs no more than its two records. A
record that was appended where reading has come to is known without being read: nothing lies in between. Used by one
thread.
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
    # Only closed segments are compacted: small ones keep what a driver reads at its start short.
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
        """What was decided last, by whichever run."""
        self._read_on()
        return self._state.entry

    def expected(self, batch: int) -> CommitEntry | None:
        """What was decided last before that batch, without a look if it was decided here.

        Any of Spark's Python processes may commit a batch: what was decided here is the last if it is the batch before.
        """
        known = self._state.entry
        if self._is_writer and known is not None and known.batch == batch - 1:
            return known
        return self.entry()

    def is_own(self) -> bool:
        """Whether that was decided by this run."""
        present = self._state.present
        return present is not None and present.run == self._run

    def record(self, entry: CommitEntry) -> None:
        """Decide, after what `entry` or `expected` told; raises Superseded if another run was faster."""
        before = self._state.end
        self._is_writer = False
        offset = self._append(encode_value(before, entry))
        if offset == self._position:
            self._state.take(CommitRecord(offset, self._run, before, entry))
            self._position = offset + 1
        else:
            self._read_on()
        if not self._state.has(self._run, before, entry):
            raise Superseded(
                f"batch {entry.batch} was not committed here: another driver runs the query {self._query} at the same "
                "time and was faster"
            )
        self._is_writer = True

    def _append(self, value: bytes) -> int:
        """Where the record lies, if the broker said so."""
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

    def _read_on(self) -> None:
        """Take all records up to the end of the partition as it is now."""
        if self._position is None:
            self._make_topic()
            self._position = self._offset_at(EARLIEST)
        # A new leader knows its end only when it has heard from the others. It does not tell it before; a fetch would.
        end = self._offset_at(LATEST)
        if end < self._position:
            raise CommitLogDamaged(
                f"{self._partition} ends at {end} and has been read up to {self._position} before: it was cut, or it "
                "or its cluster was made anew. Start the query again to go on with what is there now"
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
            self._take(decoded)
            if decoded.next_offset == self._position:
                retry.backoff(
                    RetriableError(f"{self._partition} has nothing to read at {self._position} yet")
                )
            self._position = decoded.next_offset

    def _make_topic(self) -> None:
        name = self._partition.topic
        ensure_topic(self._cluster, name, PARTITIONS, CONFIGS)
        found = len(self._cluster.topic(name).partitions)
        if found < PARTITIONS:
            raise LocalError(f"the commit log topic {name} has {found} partitions, it needs {PARTITIONS}")

    def _offset_at(self, place: int) -> int:
        return self._cluster.list_offsets({self._partition: place})[self._partition][0]

    def _take(self, decoded: DecodedColumns) -> None:
        offsets = memoryview(decoded.offset or b"").cast("B").cast("q")
        keys, values = decoded.key, decoded.value
        if keys is None or values is None:
            return
        for row in range(decoded.rows):
            record = decode_record(self._query, offsets[row], _cell(keys, row), _cell(values, row))
            if record is not None:
                self._state.take(record)


def _single(cell: bytes) -> BinaryColumn:
    return BinaryColumn(b"".join(size.to_bytes(4, "little") for size in (0, len(cell))), cell)


def _cell(column: BinaryColumn, row: int) -> bytes | None:
    if column.validity is not None and not memoryview(column.validity).cast("B")[row >> 3] >> (row & 7) & 1:
        return None
    offsets = memoryview(column.offsets).cast("B").cast("i")
    return bytes(memoryview(column.data).cast("B")[offsets[row] : offsets[row + 1]])
