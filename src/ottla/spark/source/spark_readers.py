"""The readers of the source for Spark, for batches and for streams.

Spark pickles readers and sends them to its workers. The logic is in `stream_progress`, `offset_lookup` and
`range_reader`. State of the driver's side is created on first use and is not pickled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.base.lazy_log import LazyLogger
from ottla.client.raw import ClientSettings, cluster_for
from ottla.client.raw.errors import ClientError
from ottla.spark.source.arrow_batches import arrow_schema
from ottla.spark.source.offset_lookup import OffsetLookup
from ottla.spark.source.offsets import OffsetJson, Offsets, from_json, to_json
from ottla.spark.source.options import check_order
from ottla.spark.source.prefetch import Prefetcher, PrefetchingReader, schemas_match
from ottla.spark.source.range_reader import read_in_one_fetch, read_range
from ottla.spark.source.ranges import OffsetRange, split_ranges
from ottla.spark.source.stream_progress import StreamProgress

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ottla.spark.source.options import SourceOptions

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # pyspark 4.1: OttlaStreamReader is not used
    ReadAllAvailable = ReadLimit = ReadMaxRows = SupportsTriggerAvailableNow = object  # type: ignore[misc,assignment]

_NO_LIMIT = (1 << 63) - 1
_COMMIT_MS_MAX: Final = 5_000
_COMMIT_RETRY_S: Final = 60.0
"""The timeout of a commit to the consumer group, and the time without commits after a failure."""
_DRIVER_STATE: Final = frozenset({"_made", "_prefetcher", "_prefetched"})
"""Attributes of the driver's side, which are not pickled."""
_log = LazyLogger()


@dataclass
class RangePartition(InputPartition):
    """A range of offsets as one of Spark's input partitions."""

    range: OffsetRange


class _RangeReading:
    """The common part of all readers: options, schema, and reading a range."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):
            # Spark creates an empty partition if there is none to read.
            return iter(())
        return read_range(self._options, self._schema, partition.range)


class OttlaReader(_RangeReading, DataSourceReader):
    """A batch read. Spark calls `partitions` once per data frame."""

    def partitions(self) -> list[InputPartition]:
        options = self._options
        lookup = OffsetLookup(cluster_for(options.settings), options)
        found = lookup.required()
        start = lookup.resolve(options.start, found, starting=True)
        end = lookup.resolve(options.end, found, starting=False)
        check_order(start, end, "offset")
        ranges = split_ranges(
            [OffsetRange(partition, start[partition], end[partition]) for partition in found],
            partitions_min=options.partitions_min,
            records_max=options.records_per_partition_max,
        )
        return [RangePartition(part) for part in ranges]


class _StreamReading(_RangeReading):
    """The common part of streaming readers for all versions of Spark."""

    _made: StreamProgress | None = None

    def initialOffset(self) -> OffsetJson:
        return to_json(self._progress().initial())

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        return [RangePartition(part) for part in self._progress().ranges(from_json(start), from_json(end))]

    def _progress(self) -> StreamProgress:
        if self._made is None:
            cluster = cluster_for(self._options.settings)
            lookup = OffsetLookup(cluster, self._options)
            commit = GroupProgress(self._options.settings)
            self._made = StreamProgress(lookup, self._options, commit)
        return self._made

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _DRIVER_STATE}


class OttlaStreamReader(
    _StreamReading, PrefetchingReader, DataSourceStreamReader, SupportsTriggerAvailableNow
):
    """A stream in pyspark 4.2 and later."""

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        ranges = self._progress().ranges(from_json(start), from_json(end))
        self._prefetched = self._prefetcher.take(ranges)
        return [RangePartition(part) for part in ranges]

    @cached_property
    def _prefetcher(self) -> Prefetcher:
        return Prefetcher(
            partial(read_in_one_fetch, self._options, self._schema),
            fits=schemas_match(self._schema, arrow_schema(self._schema)),
        )

    def getDefaultReadLimit(self) -> ReadLimit:
        """Never ReadAllAvailable, which Spark passes for Trigger.Once only."""
        return ReadMaxRows(self._options.offsets_max or _NO_LIMIT)

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        everything = isinstance(limit, ReadAllAvailable)
        return to_json(self._progress().latest(from_json(start), everything=everything))

    def reportLatestOffset(self) -> OffsetJson | None:
        known = self._progress().known_latest()
        return None if known is None else to_json(known)

    def prepareForTriggerAvailableNow(self) -> None:
        self._progress().stop_at_latest()


class OttlaPlainStreamReader(_StreamReading, DataSourceStreamReader):
    """A stream in pyspark 4.1, which does not get the start or the limit of a batch."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        if options.offsets_max is not None or options.offsets_min is not None:
            raise LocalError("maxOffsetsPerTrigger and minOffsetsPerTrigger need pyspark 4.2 or newer")
        self._done: Offsets | None = None

    def latestOffset(self) -> OffsetJson:  # type: ignore[override]
        progress = self._progress()
        start = self._done if self._done is not None else progress.initial_if_known()
        return to_json(progress.latest(start, everything=False))

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        # Spark calls `latestOffset` when this batch is done; it calls `commit` only during the next batch.
        self._done = from_json(end)
        return super().partitions(start, end)


class FailedStreamReader(DataSourceStreamReader):
    """A reader for invalid options, which raises the error in its first call.

    An error that is raised earlier is lost: Spark then fails to stop the missing reader and reports that error.
    """

    def __init__(self, reason: LocalError) -> None:
        self._reason = reason

    def initialOffset(self) -> OffsetJson:
        raise self._reason

    def latestOffset(self) -> OffsetJson:  # type: ignore[override]
        raise self._reason

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        raise self._reason

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._reason


class GroupProgress:
    """Commits the progress of a query to a consumer group, so that `kafka-consumer-groups` shows its lag.

    The checkpoint of Spark determines what is read, so a failed commit is only logged. Commits must not delay the
    stream: they use their own connections with short timeouts, and stop for a while after a failure.
    """

    def __init__(self, settings: ClientSettings, clock: Clock | None = None) -> None:
        self._settings = replace(
            settings,
            request_timeout_ms=min(settings.request_timeout_ms, _COMMIT_MS_MAX),
            api_timeout_ms=min(settings.api_timeout_ms, _COMMIT_MS_MAX),
            connect_timeout_ms=min(settings.connect_timeout_ms, _COMMIT_MS_MAX),
        )
        self._clock = clock or SystemClock()
        self._paused_until_s = 0.0
        self._committed: Mapping[TopicPartition, int] | None = None

    def __call__(self, done: Mapping[TopicPartition, int]) -> None:
        group = self._settings.group_id
        if (
            group is None
            or not done
            or done == self._committed
            or self._clock.monotonic() < self._paused_until_s
        ):
            return
        try:
            cluster_for(self._settings).commit_offsets(group, dict(done))
            self._committed = dict(done)
        except ClientError as error:
            self._paused_until_s = self._clock.monotonic() + _COMMIT_RETRY_S
            _log.warning("cannot commit the progress of the query", group=group, reason=str(error))
