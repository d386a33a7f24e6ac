"""The progress of a stream: the offsets of each batch, and the ranges that its tasks read.

Runs in the Python process that Spark keeps on the driver's side for a query. Spark calls `initial` (twice, for a new
query), `latest`, `ranges`, `latest`, `ranges`, ... A replayed batch begins with `ranges`.

An empty batch makes the start of a new query durable. Spark writes the end of a batch to its checkpoint before the
batch runs, but never the start of the first batch. After a crash it would request the start again, and "latest" may be
a later offset by then. So if the start can move, the first batch is empty and its end is the start.

Everything before the start of a batch has been processed, because Spark requests the next end only after the batch
before has finished. The offsets of the group are committed then, because Spark does not report the end of the last
batch to a source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.base.clock import Clock, SystemClock
from ottla.base.ids import TopicPartition
from ottla.base.lazy_log import LazyLogger
from ottla.spark.source.offset_lookup import OffsetLookup
from ottla.spark.source.offsets import Offsets, is_moving
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.range_reader import DataLoss, loss_message
from ottla.spark.source.ranges import OffsetRange, count_new, limit_offsets, split_ranges

_log = LazyLogger()

CommitProgress = Callable[[Mapping[TopicPartition, int]], None]


class StreamProgress:
    """The progress of one query. Used by one thread."""

    def __init__(
        self,
        lookup: OffsetLookup,
        options: SourceOptions,
        commit: CommitProgress,
        clock: Clock | None = None,
    ) -> None:
        self._lookup = lookup
        self._options = options
        self._commit = commit
        self._clock = clock or SystemClock()
        self._initial: Offsets | None = None
        self._start_is_durable = not is_moving(options.start)
        self._until: Offsets | None = None
        self._latest: Offsets | None = None
        self._may_be_replayed = True
        """Whether the next batch may be a replay; after the first call of `latest` all batches are new."""
        self._batch_at_s: float | None = None

    def initial(self) -> Offsets:
        """The start of a new query; the same for each call."""
        if self._initial is None:
            found = self._lookup.required()
            self._initial = self._lookup.resolve(self._options.start, found, starting=True)
        return self._initial

    def initial_if_known(self) -> Offsets:
        """The start of a new query; empty if the query continues from a checkpoint."""
        return self._initial or {}

    def stop_at_latest(self) -> None:
        """Trigger.AvailableNow: records that are appended later are read by the next run."""
        self._until = self._lookup.latest(self._lookup.partitions())

    def latest(self, start: Offsets, *, everything: bool) -> Offsets:
        """The end of the next batch; `everything` ignores the limits (Trigger.Once)."""
        self._may_be_replayed = False
        self._commit(start)
        if not self._start_is_durable and not everything and start == self._initial:
            self._start_is_durable = True
            return start
        end = self._ends(start)
        options = self._options
        if everything or (options.offsets_max is None and options.offsets_min is None):
            return end
        begin = self._begin(start, end)
        if self._is_too_little(begin, end):
            return start
        self._batch_at_s = self._clock.monotonic()
        if options.offsets_max is None:
            return end
        return limit_offsets(begin, end, options.offsets_max)

    def known_latest(self) -> Offsets | None:
        """The last known ends of the partitions, without limits."""
        return self._latest if self._until is None else self._until

    def ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """The ranges that the tasks of a batch read."""
        self._start_is_durable = True
        if self._may_be_replayed and start == self._initial and is_moving(self._options.start):
            # A replay of the first batch after a crash: the start may have moved, and the end is the original start.
            end = {partition: offset for partition, offset in end.items() if partition in start}
            start = {partition: min(start[partition], end[partition]) for partition in end}
        missing = sorted(set(start) - set(end))
        if missing:
            self._report_loss(f"partitions that do not exist any more: {', '.join(map(str, missing))}")
        begin = self._begin(start, end)
        for partition in sorted(set(begin) - set(start)):
            if begin[partition] > 0 and start:
                self._report_loss(
                    f"the new partition {partition} begins at offset {begin[partition]} instead of 0"
                )
        for partition in sorted(set(end) & set(start)):
            if end[partition] < start[partition]:
                self._report_loss(
                    f"the end of {partition} has moved back from {start[partition]} to {end[partition]}"
                )
        return split_ranges(
            [
                OffsetRange(partition, begin[partition], offset)
                for partition, offset in sorted(end.items())
                if partition in begin
            ],
            partitions_min=self._options.partitions_min,
            records_max=self._options.records_per_partition_max,
        )

    def _ends(self, start: Offsets) -> Offsets:
        if self._until is not None:
            found = {**self._until, **self._past_target(start, self._until)}
        else:
            found = self._latest = self._lookup.latest(self._lookup.partitions(start), known=start)
        if start and not found:
            # Continuing without offsets would read everything again if the topics were only temporarily unavailable.
            self._report_loss(f"partitions that do not exist any more: {', '.join(map(str, sorted(start)))}")
            return start
        return found

    def _past_target(self, start: Offsets, until: Offsets) -> Offsets:
        """The ends of partitions whose start is above the target of Trigger.AvailableNow, or that are not in it.

        If the query began, or a partition was created, after the trigger, nothing of it is read in this run. A
        partition that ends before its start was truncated or recreated, which is reported as data loss.
        """
        past = {partition for partition, offset in start.items() if offset > until.get(partition, -1)}
        if not past:
            return {}
        found = self._lookup.latest(sorted(past & set(self._lookup.partitions(past))), known=start)
        return {partition: min(offset, start[partition]) for partition, offset in found.items()}

    def _begin(self, start: Offsets, end: Offsets) -> Offsets:
        """The start, plus new partitions with their earliest offset, if they still exist."""
        new = sorted(set(end) - set(start))
        if not new:
            return start
        first = self._lookup.earliest(new)
        missing = [str(partition) for partition in new if partition not in first]
        if missing:
            self._report_loss(f"new partitions that do not exist any more: {', '.join(missing)}")
        return {**start, **{partition: min(offset, end[partition]) for partition, offset in first.items()}}

    def _is_too_little(self, begin: Offsets, end: Offsets) -> bool:
        least = self._options.offsets_min
        if least is None or self._until is not None or self._batch_at_s is None:
            return False
        waited_ms = (self._clock.monotonic() - self._batch_at_s) * 1000
        return count_new(begin, end) < least and waited_ms < self._options.delay_max_ms

    def _report_loss(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(loss_message(what))
        _log.warning("data loss", what=what)
