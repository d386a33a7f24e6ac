"""Arrow record batches to record batches of partitions: which row goes where, and its bytes.

A row's partition is that of the column `partition` if it has one, else that of its key as Java's client chooses it,
else the one whose turn it is: rows without a key go to the same partition until it has got `sticky_bytes`, then to the
next, and those of a large Arrow batch are spread over all partitions in as many runs. Rows keep their order within a
partition. No row is looked at in Python. Runs in Spark's Python workers.

A batch is no larger than its topic takes (`max.message.bytes`) when it is packed; what does not compress grows by that.
A single record that is larger is sent all the same, for the broker to refuse.
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
KNOWN_S: Final = 1.0
"""A task takes what others of its process have heard of a topic for true if it is not older than this."""

Rows = npt.NDArray[np.int32]


def uncompressed_limit(limit: int, codec: Codec) -> int:
    """How many bytes may be in a batch so that it is `limit` at most when it is packed, whatever the bytes are."""
    match codec:
        case Codec.NONE:
            return limit
        case Codec.SNAPPY:
            # A sixth is what its format can grow by.
            return max(1, (limit - 256) * 5 // 6)
        case _:
            return max(1, limit - limit // 64 - 256)


def check_schema(schema: StructType, topic: str | None) -> None:
    """What Spark's Kafka connector refuses is refused, in words that its users know."""
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
    """A type without what does not matter: collations and lengths of strings."""
    return "string" if kind.startswith(("string ", "varchar(", "char(")) else kind


class RowEncoder:
    """Cuts the Arrow batches of one task into batches of partitions."""

    def __init__(self, options: SinkOptions, cluster: Cluster, turn: int) -> None:
        self._options = options
        self._cluster = cluster
        self._turns: dict[str, _Turn] = {}
        self._first_turn = turn
        self._looked_up: set[str] = set()

    def write(self, batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, list[bytearray]]]:
        if not batch.num_rows:
            return
        if self._options.topic is not None:
            yield from self._write_to(self._options.topic, batch)
            return
        topics = batch.column(TOPIC)
        if topics.null_count:
            raise LocalError(_NULL_TOPIC)
        for name in topics.unique().to_pylist():
            yield from self._write_to(name, batch.filter(pc.equal(topics, name)))

    def _write_to(
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
        """How many the topic has; looked up anew when a row wants one beyond, which may have been added meanwhile.

        Since the last task of this process it may have been deleted and made again, with other partitions or limits.
        """
        if topic not in self._looked_up:
            self._looked_up.add(topic)
            self._cluster.forget_topic(topic, older_than_s=KNOWN_S)
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
                raise LocalError(f"a row wants partition {wrong[0]}, but topic {topic} has {partitions}")
            chosen = np.where(is_given, wanted, chosen).astype(np.int32)
        (keyless,) = np.nonzero(chosen == _NOT_CHOSEN)
        if len(keyless):
            turn = self._turns.setdefault(topic, _Turn(self._first_turn, self._options.sticky_bytes))
            row_bytes = max(1, batch.nbytes // rows)
            chosen = chosen.copy()
            chosen[keyless] = turn.take(len(keyless), row_bytes, partitions)
        return np.ascontiguousarray(chosen)


class _Turn:
    """Which partition of a topic gets the next rows without a key."""

    def __init__(self, turn: int, sticky_bytes: int) -> None:
        self._turn = turn
        self._sticky_bytes = sticky_bytes
        self._given_bytes = 0

    def take(self, rows: int, row_bytes: int, partitions: int) -> Rows:
        run = max(-(-self._sticky_bytes // row_bytes), -(-rows // partitions))
        runs = np.arange(rows, dtype=np.int64) // run
        chosen = (self._turn + runs) % partitions
        self._turn += int(runs[-1])
        self._given_bytes += rows * row_bytes
        if self._given_bytes >= self._sticky_bytes:
            self._turn, self._given_bytes = self._turn + 1, 0
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
    """Arrow lets an array without rows do without its first offset; Spark makes use of that for headers."""
    return _NO_OFFSETS if buffer is None or buffer.size == 0 else buffer


def _bytes(buffer: Any) -> Any:
    return b"" if buffer is None else buffer
