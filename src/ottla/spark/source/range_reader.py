"""The work of a read task: fetch a range of offsets from the partition leader and yield Arrow record batches.

Stateless between calls. The connections belong to `client.raw`, which also follows leader changes. The start of the log
distinguishes data loss from normal gaps:

    offset below the log start               retention has deleted records that were planned: data loss
    offset above the end of the log          the log was truncated or recreated: data loss, even if it has grown again
    no record at an offset inside the log    compaction, a transaction marker, an aborted record: no loss

A fetch response without a batch means nothing while the log continues after the offset: brokers send it to clients that
exceed their quota, and for segments in remote storage. So the fetch is repeated until `kafkaConsumer.pollTimeoutMs` has
passed; then it is an error. If the rest of a range was compacted, or consists of markers or aborted records, the
response has the next batch after the gap, and a batch that begins at or after the end of the range ends the range.

With failOnDataLoss=false a range continues at the log start, or ends; it never goes back or beyond its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import LocalError
from ottla.base.lazy_log import LazyLogger
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
"""The limits of one Arrow batch, which bound the memory of a worker; one batch of the log is never divided."""

_log = LazyLogger()


class DataLoss(LocalError):
    """Records of the planned range do not exist any more."""


def loss_message(what: str) -> str:
    """The message for a data loss, with what to do."""
    return (
        f"{what}. Some data may have been lost because it was deleted before it was read, or because the topic was "
        "deleted or recreated. To continue with the remaining data, set the option failOnDataLoss to false"
    )


def read_range(options: SourceOptions, schema: StructType, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The records of the range; runs in a Python worker of Spark."""
    freeze_imports()
    builder = ArrowBatchBuilder(options, schema, wanted.partition)
    return RangeReader(cluster_for(options.settings), options, builder, wanted).batches()


def read_in_one_fetch(
    options: SourceOptions, schema: StructType, wanted: OffsetRange, bytes_max: int
) -> list[pa.RecordBatch] | None:
    """The records of the range if one fetch response has them all within `bytes_max`, also as Arrow; otherwise None.

    Runs on the driver's side.
    """
    builder = ArrowBatchBuilder(options, schema, wanted.partition)
    found = RangeReader(cluster_for(options.settings), options, builder, wanted).in_one_fetch(bytes_max)
    return found if found is not None and sum(batch.nbytes for batch in found) <= bytes_max else None


class RangeReader:
    """Reads one range of offsets."""

    def __init__(
        self,
        cluster: Cluster,
        options: SourceOptions,
        builder: ArrowBatchBuilder,
        wanted: OffsetRange,
        clock: Clock | None = None,
        wait: Sleep = sleep,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._builder = builder
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
                self._report_loss(f"{self._partition} does not exist any more", error)
                return
            if self._next > before:
                deadline = self._deadline()
            elif self._clock.monotonic() >= deadline:
                self._give_up()
                return
            else:
                self._wait(self._options.settings.retry_backoff_ms / 1000)

    def in_one_fetch(self, bytes_max: int) -> list[pa.RecordBatch] | None:
        """All records of the range if one fetch response of at most `bytes_max` has them; otherwise None."""
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
        """Fetch until a response has no record."""
        committed = self._options.settings.read_committed
        try:
            for _, fetched in self._cluster.stream(
                self._partition, self._next, self._end, committed=committed
            ):
                self._visible_end = fetched.last_stable_offset if committed else fetched.high_watermark
                yield from self._decode(fetched)
        except OffsetOutOfRange:
            self._skip_lost()

    def _decode(self, fetched: Fetched) -> Iterator[pa.RecordBatch]:
        data, aborted = memoryview(fetched.data), fetched.aborted
        while data and self._next < self._end:
            decoded = columns.decode(
                data,
                start_offset=self._next,
                end_offset=self._end,
                wanted=self._builder.wanted,
                aborted=aborted,
                limit_rows=ROWS_MAX,
                limit_bytes=BYTES_MAX,
                check_crc=self._options.settings.check_crcs,
            )
            self._next = decoded.next_offset
            if decoded.rows:
                yield self._builder.build(decoded)
            if not decoded.consumed:
                return
            data, aborted = data[decoded.consumed :], decoded.aborted

    def _skip_lost(self) -> None:
        first = self._cluster.list_offsets({self._partition: EARLIEST})[self._partition][0]
        last = self._cluster.list_offsets({self._partition: LATEST})[self._partition][0]
        if self._next < first:
            self._report_loss(
                f"{self._partition} begins at offset {first}, but offset {self._next} was planned"
            )
            self._next = min(first, self._end)
        elif self._next > last:
            self._report_loss(f"{self._partition} ends at offset {last}, but offset {self._next} was planned")
            self._next = self._end
        else:
            # The offset was out of range and is in range now: the log was truncated or recreated and has grown again.
            self._report_loss(
                f"offset {self._next} of {self._partition} was out of range and has another record now"
            )
            self._visible_end = last

    def _give_up(self) -> None:
        if self._visible_end <= self._next:
            self._report_loss(
                f"{self._partition} ends at offset {self._visible_end}, but offset {self._end - 1} was planned"
            )
            return
        raise LocalError(
            f"no record of {self._partition} from offset {self._next} on was received within "
            f"{self._options.poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs)"
        )

    def _report_loss(self, what: str, cause: Exception | None = None) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(loss_message(what)) from cause
        _log.warning("data loss", what=what, partition=str(self._partition))
