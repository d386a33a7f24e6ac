"""Copy of a topic: the same partitions, settings, keys, values, headers and timestamps, in the same order.

Only committed records are copied, up to the end offsets known at the start. Offsets are assigned anew, so they differ
where the source has gaps. The batches are decoded to columns and encoded again; the target may be in another cluster.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla.admin.configs import configs
from ottla.admin.session import Session
from ottla.admin.topics import create_topic, partitions_of, topic_names
from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.client.raw import RawProducer
from ottla.records.column_buffers import DecodedColumns
from ottla.records.columns import ALL_COLUMNS, decode, encode

_BATCH_BYTES_DEFAULT = 1 << 20
_BATCH_OVERHEAD = 1 << 10
"""Left below the limit of a batch for its header."""


@dataclass(frozen=True)
class Copied:
    """What was copied."""

    records: int
    bytes: int


def prepare_target(
    source: Session,
    target: Session,
    name: str,
    new_name: str,
    *,
    replication_factor: int = -1,
    overrides: Mapping[str, str] | None = None,
    append: bool = False,
) -> None:
    """Create the target like the source, or with `append` check that it has all partitions. Raise LocalError."""
    if (source.bootstrap, name) == (target.bootstrap, new_name):
        raise LocalError("a topic cannot be cloned to itself")
    count = len(partitions_of(source, name))
    if new_name in topic_names(target, internal=True):
        if not append:
            raise LocalError(f"topic {new_name} exists; --append adds the records to it")
        if (existing := len(partitions_of(target, new_name))) < count:
            raise LocalError(f"topic {new_name} has {existing} partitions, and {name} has {count}")
        return
    own = {each.name: each.value or "" for each in configs(source, name) if each.source == "topic"}
    create_topic(
        target,
        new_name,
        partitions=count,
        replication_factor=replication_factor,
        configs={**own, **(overrides or {})},
    )


def copy_records(
    source: Session,
    target: Session,
    new_name: str,
    ranges: Mapping[TopicPartition, tuple[int, int]],
    on_progress: Callable[[int], None] = lambda _: None,
) -> Copied:
    """Copy the records of these offset ranges; `on_progress` is called with the number of offsets that are done."""
    limit = (target.cluster.batch_limit(new_name) or _BATCH_BYTES_DEFAULT) - _BATCH_OVERHEAD
    producer = RawProducer(target.cluster)
    producer.init()
    try:
        for tp, (start, end) in ranges.items():
            to = TopicPartition(new_name, tp.partition)
            for offset, fetched in source.cluster.stream(tp, start, end, committed=True):
                data, at, aborted = fetched.data, offset, fetched.aborted
                while at < end:
                    rows = decode(data, start_offset=at, end_offset=end, wanted=ALL_COLUMNS, aborted=aborted)
                    if rows.rows:
                        producer.send(to, _batches(rows, max(1, limit)))
                    on_progress(rows.next_offset - at)
                    if rows.next_offset == at:
                        break
                    data, at, aborted = data[rows.consumed :], rows.next_offset, rows.aborted
        done = producer.flush()
    finally:
        producer.close()
    return Copied(done.records, done.bytes)


def _batches(rows: DecodedColumns, limit: int) -> list[bytearray]:
    if rows.value is None or rows.timestamp is None:
        raise LocalError("the columns of values and timestamps are missing")
    micros = memoryview(rows.timestamp).cast("B").cast("q")
    return encode(
        rows.value,
        rows.rows,
        keys=rows.key,
        headers=rows.headers,
        timestamps=array("q", (micros[row] // 1000 for row in range(rows.rows))).tobytes(),
        timestamp_ms=0,
        max_batch_bytes=limit,
    )
