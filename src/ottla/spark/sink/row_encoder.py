"""Encoding of Arrow record batches as Kafka record batches: the partition of each row, and its bytes.

The partition of a row is that of the column `partition`, otherwise the one that Java's client chooses for its key. Rows
without a key are written to one partition until it has `sticky_bytes`, then to the next; those of a large Arrow batch
are divided into one contiguous part per partition. Rows keep their order within a partition. No code runs per row in
Python. Runs in Spark's Python workers.

A batch is at most as large as the topic allows (`max.message.bytes`) after compression; data that cannot be compressed
grows slightly. A single record that is larger is sent, and the broker rejects it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.records import columns
from ottla.records.columns import BinaryColumn, HeadersColumn
from ottla.records.compression import Codec

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ottla.client.raw import Cluster
    from ottla.spark.sink.options import SinkOptions

VALUE, KEY, HEADERS, TOPIC, PARTITION = "value", "key", "headers", "topic", "partition"
_NOT_CHOSEN = -1
_NO_OFFSETS = bytes(4)
_HEADERS_TYPE = "array<struct<key:string,value:binary>>"
_TYPES = {
    VALUE: ("string", "binary"),
    KEY: ("string", "binary"),
    HEADERS: (_HEADERS_TYPE,),
    TOPIC: ("string",),
    PARTITION: ("int",),
}
_NULL_TOPIC = "null topic present in the data. Use the topic option for setting a topic."
METADATA_AGE_S: Final = 1.0
"""The age up to which a task uses metadata of a topic that other tasks of its process have read."""

Rows = npt.NDArray[np.int32]


def uncompressed_limit(limit: int, codec: Codec) -> int:
    """The size before compression with which a batch has at most `limit` bytes after it, for any data."""
    match codec:
        case Codec.NONE:
            return limit
        case Codec.SNAPPY:
            # Incompressible data grows by up to a sixth.
            return max(1, (limit - 256) * 5 // 6)
        case _:
            return max(1, limit - limit // 64 - 256)


def check_schema(schema: StructType, topic: str | None) -> None:
    """Reject what Spark's Kafka connector rejects, with its error messages."""
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    if topic is None and TOPIC not in found:
        raise LocalError(
            f"topic option required when no '{TOPIC}' attribute is present. Use the topic option for setting a topic."
        )
    if VALUE not in found:
        raise LocalError(f"Required attribute '{VALUE}' not found.")
    for name, allowed in _TYPES.items():
        kind = found.get(name)
        if kind is not None and _plain(kind) not in allowed:
            raise LocalError(f"{name} attribute unsupported type {kind}: it must be {' or '.join(allowed)}")


def _plain(kind: str) -> str:
    """A type without the collation or the length of a string."""
    return "string" if kind.startswith(("string ", "varchar(", "char(")) else kind


class RowEncoder:
    """Encodes the Arrow batches of one task as record batches of partitions."""

    def __init__(self, options: SinkOptions, cluster: Cluster, first_partition: int) -> None:
        self._options = options
        self._cluster = cluster
        self._sticky: dict[str, _StickyPartition] = {}
        self._first_partition = first_partition
        self._looked_up: set[str] = set()

    def encode(self, batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, list[bytearray]]]:
        if not batch.num_rows:
            return
        if self._options.topic is not None:
            yield from self._encode_for(self._options.topic, batch)
            return
        topics = batch.column(TOPIC)
        if topics.null_count:
            raise LocalError(_NULL_TOPIC)
        for name in topics.unique().to_pylist():
            yield from self._encode_for(name, batch.filter(pc.equal(topics, name)))

    def _encode_for(
        self, topic: str, batch: pa.RecordBatch
    ) -> Iterator[tuple[TopicPartition, list[bytearray]]]:
        partitions = self._partitions(topic, batch)
        rows = batch.num_rows
        values = _binary(batch.column(VALUE))
        keys = _binary(batch.column(KEY)) if KEY in batch.schema.names else None
        headers = _headers(batch.column(HEADERS)) if HEADERS in batch.schema.names else None
        chosen = self._chosen(topic, batch, keys, partitions)
        batch_bytes = self._batch_bytes(topic)
        for partition, selection in enumerate(columns.rows_by_partition(chosen.data, partitions)):
            if selection:
                yield (
                    TopicPartition(topic, partition),
                    columns.encode(
                        values,
                        rows,
                        keys=keys,
                        headers=headers,
                        timestamp_ms=self._cluster.clock.now_ms(),
                        selection=None if len(selection) == 4 * rows else selection,
                        codec=self._options.settings.codec,
                        level=self._options.settings.compression_level,
                        max_batch_bytes=batch_bytes,
                    ),
                )

    def _partitions(self, topic: str, batch: pa.RecordBatch) -> int:
        """The number of partitions of the topic; looked up again if a row has a higher one, which may be new.

        Since the last task of this process the topic may have been recreated with other partitions or limits.
        """
        if topic not in self._looked_up:
            self._looked_up.add(topic)
            self._cluster.forget_topic(topic, older_than_s=METADATA_AGE_S)
        known = len(self._cluster.topic(topic, create=True).partitions)
        highest = pc.max(batch.column(PARTITION)).as_py() if PARTITION in batch.schema.names else None
        if highest is None or highest < known:
            return known
        self._cluster.forget_topic(topic)
        return len(self._cluster.topic(topic, create=True).partitions)

    def _batch_bytes(self, topic: str) -> int:
        wanted, limit = self._options.batch_bytes, self._cluster.batch_limit(topic)
        return (
            wanted if limit is None else min(wanted, uncompressed_limit(limit, self._options.settings.codec))
        )

    def _chosen(self, topic: str, batch: pa.RecordBatch, keys: BinaryColumn | None, partitions: int) -> Rows:
        rows = batch.num_rows
        if keys is None or self._options.ignore_keys:
            chosen = np.full(rows, _NOT_CHOSEN, np.int32)
        else:
            chosen = np.frombuffer(
                columns.partition_of(keys, rows, partitions, keyless=_NOT_CHOSEN), np.int32
            )
        if PARTITION in batch.schema.names:
            given = batch.column(PARTITION)
            is_given = np.asarray(given.is_valid())
            wanted = np.asarray(given.fill_null(0))
            wrong = wanted[is_given & ((wanted < 0) | (wanted >= partitions))]
            if len(wrong):
                raise LocalError(
                    f"a row has partition {wrong[0]}, but topic {topic} has {partitions} partitions"
                )
            chosen = np.where(is_given, wanted, chosen).astype(np.int32)
        (keyless,) = np.nonzero(chosen == _NOT_CHOSEN)
        if len(keyless):
            sticky = self._sticky.setdefault(
                topic, _StickyPartition(self._first_partition, self._options.sticky_bytes)
            )
            row_bytes = max(1, batch.nbytes // rows)
            chosen = chosen.copy()
            chosen[keyless] = sticky.take(len(keyless), row_bytes, partitions)
        return np.ascontiguousarray(chosen)


class _StickyPartition:
    """The partition of a topic for the next rows without a key."""

    def __init__(self, first: int, sticky_bytes: int) -> None:
        self._current = first
        self._sticky_bytes = sticky_bytes
        self._given_bytes = 0

    def take(self, rows: int, row_bytes: int, partitions: int) -> Rows:
        rows_each = max(-(-self._sticky_bytes // row_bytes), -(-rows // partitions))
        parts = np.arange(rows, dtype=np.int64) // rows_each
        chosen = (self._current + parts) % partitions
        self._current += int(parts[-1])
        self._given_bytes += rows * row_bytes
        if self._given_bytes >= self._sticky_bytes:
            self._current, self._given_bytes = self._current + 1, 0
        return chosen.astype(np.int32)


def _binary(array: pa.Array) -> BinaryColumn:
    if array.type not in (pa.string(), pa.binary()):
        array = array.cast(pa.binary())
    validity, offsets, data = array.buffers()
    return BinaryColumn(
        _offsets(offsets),
        _bytes(data),
        validity if array.null_count else None,
        array.null_count,
        array.offset,
    )


def _headers(array: pa.Array) -> HeadersColumn:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    validity, offsets = array.buffers()[:2]
    keys, values = array.values.flatten()
    return HeadersColumn(
        _offsets(offsets),
        _binary(keys),
        _binary(values),
        validity if array.null_count else None,
        array.null_count,
        array.offset,
    )


def _offsets(buffer: Any) -> Any:
    """An Arrow array without rows may have an empty offsets buffer; Spark sends such arrays for headers."""
    return _NO_OFFSETS if buffer is None or buffer.size == 0 else buffer


def _bytes(buffer: Any) -> Any:
    return b"" if buffer is None else buffer
