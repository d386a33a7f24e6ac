"""What a task does: fetch a range of offsets from the partition's leader and yield it as record batches.

Stateless between calls; the connections are `client.raw`'s, kept for the life of the worker process. Leaders that
move are the client's business. Data loss is told from gaps that are meant to be there by the start of the log:

    offset below the log's start             retention took records that were planned: data loss
    offset past the end of the log           the log was cut or made anew: data loss, also if it has grown again
    no record at an offset inside the log    compaction, a transaction marker, an aborted record: no loss

An answer without a batch proves nothing while the log goes on behind it: brokers give it to clients above their quota
and for segments that lie in remote storage. So it is asked again, until `kafkaConsumer.pollTimeoutMs` has passed, and
then that is an error. Where the rest of a range was compacted away, or is markers or aborted records, a batch comes:
what follows a hole comes in its place, and a batch that begins at the range's end or behind it ends the range.

With failOnDataLoss=false a range goes on at the log's start, or ends; it never goes back and never past its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import structlog

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import LocalError
from ottla.client.raw import Cluster, Fetched, cluster_for
from ottla.client.raw.errors import OffsetOutOfRange, UnknownTopic
from ottla.client.raw.retry import Sleep, sleep
from ottla.records import columns
from ottla.spark.source.arrow_batches import ArrowBatchBuilder
from ottla.spark.source.offsets import EARLIEST, LATEST
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.workers import freeze_imports

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ottla.spark.source.options import SourceOptions

ROWS_MAX: Final = 32_768
BYTES_MAX: Final = 16 << 20
"""Of one record batch, so that many tasks fit into a worker's memory; at least one batch of the log is taken whole."""

_log = structlog.get_logger()


class DataLoss(LocalError):
    """Records that were to be read are not there any more."""


def loss_hint(what: str) -> str:
    """The words for a loss, with the way out."""
    return (
        f"{what}. Some data may have been lost because it was deleted before it was read, or because the topic was "
        "deleted or made anew. To go on with what is there, set the option failOnDataLoss to false"
    )


def read_range(options: SourceOptions, schema: StructType, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The records of the range; called in a Python worker of Spark."""
    freeze_imports()
    maker = ArrowBatchBuilder(options, schema, wanted.partition)
    return RangeReader(cluster_for(options.settings), options, maker, wanted).batches()


def read_in_one_fetch(
    options: SourceOptions, schema: StructType, wanted: OffsetRange, bytes_max: int
) -> list[pa.RecordBatch] | None:
    """The same if one answer has all of it, and neither that nor what is in it is larger; else None.

    Called on the driver's side.
    """
    maker = ArrowBatchBuilder(options, schema, wanted.partition)
    found = RangeReader(cluster_for(options.settings), options, maker, wanted).in_one_fetch(bytes_max)
    return found if found is not None and sum(batch.nbytes for batch in found) <= bytes_max else None


class RangeReader:
    """Reads one range once."""

    def __init__(
        self,
        cluster: Cluster,
        options: SourceOptions,
        maker: ArrowBatchBuilder,
        wanted: OffsetRange,
        clock: Clock | None = None,
        wait: Sleep = sleep,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._maker = maker
        self._partition = wanted.partition
        self._end = wanted.end
        self._next = wanted.start
        self._visible_end = 0
        self._clock = clock or SystemClock()
        self._wait = wait

    def batches(self) -> Iterator[pa.RecordBatch]:
        deadline = self._deadline()
        while self._next < self._end:
            before = self._next
            try:
                yield from self._stream()
            except UnknownTopic as error:
                self._lose(f"{self._partition} is gone", error)
                return
            if self._next > before:
                deadline = self._deadline()
            elif self._clock.monotonic() >= deadline:
                self._give_up()
                return
            else:
                self._wait(self._options.settings.retry_backoff_ms / 1000)

    def in_one_fetch(self, bytes_max: int) -> list[pa.RecordBatch] | None:
        """All of the range if one answer of so many bytes has it; else None."""
        committed = self._options.settings.read_committed
        fetched = self._cluster.fetch(
            self._partition, self._next, max_bytes=bytes_max, max_wait_ms=0, committed=committed
        )
        if len(fetched.data) > bytes_max:
            return None
        found = list(self._decode(fetched))
        return found if self._next >= self._end else None

    def _deadline(self) -> float:
        return self._clock.monotonic() + self._options.poll_timeout_ms / 1000

    def _stream(self) -> Iterator[pa.RecordBatch]:
        """Answers one after another, until there is none with a record."""
        committed = self._options.settings.read_committed
        try:
            for _, fetched in self._cluster.stream(
                self._partition, self._next, self._end, committed=committed
            ):
                self._visible_end = fetched.last_stable_offset if committed else fetched.high_watermark
                yield from self._decode(fetched)
        except OffsetOutOfRange:
            self._go_on_after_loss()

    def _decode(self, fetched: Fetched) -> Iterator[pa.RecordBatch]:
        data, aborted = memoryview(fetched.data), fetched.aborted
        while data and self._next < self._end:
            decoded = columns.decode(
                data,
                start_offset=self._next,
                end_offset=self._end,
                wanted=self._maker.wanted,
                aborted=aborted,
                limit_rows=ROWS_MAX,
                limit_bytes=BYTES_MAX,
                check_crc=self._options.settings.check_crcs,
            )
            self._next = decoded.next_offset
            if decoded.rows:
                yield self._maker.make(decoded)
            if not decoded.consumed:
                return
            data, aborted = data[decoded.consumed :], decoded.aborted

    def _go_on_after_loss(self) -> None:
        first = self._cluster.list_offsets({self._partition: EARLIEST})[self._partition][0]
        last = self._cluster.list_offsets({self._partition: LATEST})[self._partition][0]
        if self._next < first:
            self._lose(f"{self._partition} begins at offset {first}, {self._next} was to be read")
            self._next = min(first, self._end)
        elif self._next > last:
            self._lose(f"{self._partition} ends at offset {last}, {self._next} was to be read")
            self._next = self._end
        else:
            # It was not, and now it is: the log was cut, or the topic made anew, and filled again.
            self._lose(f"{self._partition} was without offset {self._next} and now has another record there")
            self._visible_end = last

    def _give_up(self) -> None:
        if self._visible_end <= self._next:
            self._lose(
                f"{self._partition} ends at offset {self._visible_end}, {self._end - 1} was to be read"
            )
            return
        raise LocalError(
            f"no record of {self._partition} at offset {self._next} came within "
            f"{self._options.poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs)"
        )

    def _lose(self, what: str, cause: Exception | None = None) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(loss_hint(what)) from cause
        _log.warning("data loss", what=what, partition=str(self._partition))
