"""A stream's progress, batch by batch: where it begins, how far a batch goes, what its tasks read.

Lives in the one Python process that Spark keeps on the driver's side for a query, and is asked there in this order:
`initial` (twice, for a new query), `latest`, `ranges`, `latest`, `ranges`, ... A replayed batch begins with `ranges`.

The start of a new query is made durable by an empty batch. Spark writes the end of a batch into its checkpoint
before it runs, but never the start of the first one; after a crash it would ask for the start again, and "latest"
has moved on by then. So where the start can move, the first batch ends where it starts: its end is the start, kept.

What a batch's start tells is done with: Spark asks for the next end only after the batch before is finished. That is
when the group's offsets are committed, since Spark never tells a source that its last batch is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from ottla.base.clock import Clock, SystemClock
from ottla.base.ids import TopicPartition
from ottla.spark.source.offset_lookup import OffsetLookup
from ottla.spark.source.offsets import Offsets, is_moving
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.range_reader import DataLoss, loss_hint
from ottla.spark.source.ranges import OffsetRange, count_new, limit_offsets, split_ranges

_log = structlog.get_logger()

CommitProgress = Callable[[Mapping[TopicPartition, int]], None]


class StreamProgress:
    """One query's view of its partitions. Used by one thread."""

    def __init__(
        self,
        positions: OffsetLookup,
        options: SourceOptions,
        commit: CommitProgress,
        clock: Clock | None = None,
    ) -> None:
        self._positions = positions
        self._options = options
        self._commit = commit
        self._clock = clock or SystemClock()
        self._initial: Offsets | None = None
        self._start_is_kept = not is_moving(options.start)
        self._until: Offsets | None = None
        self._latest: Offsets | None = None
        self._may_be_replayed = True
        """Whether the next batch may be one of an earlier process: all are new once an end was asked for here."""
        self._batch_at_s: float | None = None

    def initial(self) -> Offsets:
        """Where a new query begins; the same however often it is asked."""
        if self._initial is None:
            found = self._positions.required()
            self._initial = self._positions.resolve(self._options.start, found, starting=True)
        return self._initial

    def initial_if_known(self) -> Offsets:
        """The start of a new query; nothing when a query goes on from its checkpoint."""
        return self._initial or {}

    def stop_at_latest(self) -> None:
        """Trigger.AvailableNow: what comes after now is left for the next run."""
        self._until = self._positions.latest(self._positions.partitions())

    def latest(self, start: Offsets, *, everything: bool) -> Offsets:
        """Where the next batch ends; `everything` sets the limits aside (Trigger.Once)."""
        self._may_be_replayed = False
        self._commit(start)
        if not self._start_is_kept and not everything and start == self._initial:
            self._start_is_kept = True
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
        """The ends that were last seen, limits aside."""
        return self._latest if self._until is None else self._until

    def ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """What the tasks of a batch read."""
        self._start_is_kept = True
        if self._may_be_replayed and start == self._initial and is_moving(self._options.start):
            # The first batch again, after a crash: what it was to read is said by its end, the start has moved on.
            end = {partition: offset for partition, offset in end.items() if partition in start}
            start = {partition: min(start[partition], end[partition]) for partition in end}
        gone = sorted(set(start) - set(end))
        if gone:
            self._lose(f"{', '.join(map(str, gone))} are gone")
        begin = self._begin(start, end)
        for partition in sorted(set(begin) - set(start)):
            if begin[partition] > 0 and start:
                self._lose(f"the new partition {partition} begins at offset {begin[partition]} instead of 0")
        for partition in sorted(set(end) & set(start)):
            if end[partition] < start[partition]:
                self._lose(f"the end of {partition} went back from {start[partition]} to {end[partition]}")
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
            found = self._latest = self._positions.latest(self._positions.partitions(start), known=start)
        if start and not found:
            # To go on from nothing would be to read everything again, should it only have been out of sight.
            self._lose(f"{', '.join(map(str, sorted(start)))} are gone")
            return start
        return found

    def _past_target(self, start: Offsets, until: Offsets) -> Offsets:
        """Where partitions end that started behind the target of Trigger.AvailableNow, or are not in it.

        A query may have begun, and a partition may have been made, between the trigger's start and the query's: then
        nothing of it is read in this run. A partition that ends before its start was cut or made anew: that is told.
        """
        past = {partition for partition, offset in start.items() if offset > until.get(partition, -1)}
        if not past:
            return {}
        found = self._positions.latest(sorted(past & set(self._positions.partitions(past))), known=start)
        return {partition: min(offset, start[partition]) for partition, offset in found.items()}

    def _begin(self, start: Offsets, end: Offsets) -> Offsets:
        """The start, with partitions that are new since then from their earliest record on, if they are still there."""
        new = sorted(set(end) - set(start))
        if not new:
            return start
        first = self._positions.earliest(new)
        gone = [str(partition) for partition in new if partition not in first]
        if gone:
            self._lose(f"{', '.join(gone)} came and are gone")
        return {**start, **{partition: min(offset, end[partition]) for partition, offset in first.items()}}

    def _is_too_little(self, begin: Offsets, end: Offsets) -> bool:
        least = self._options.offsets_min
        if least is None or self._until is not None or self._batch_at_s is None:
            return False
        waited_ms = (self._clock.monotonic() - self._batch_at_s) * 1000
        return count_new(begin, end) < least and waited_ms < self._options.delay_max_ms

    def _lose(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(loss_hint(what))
        _log.warning("data loss", what=what)
