"""Reading of records between positions: forwards or newest first, filtered, with progress; and live records.

A `Browser` reads the offsets that existed when it was created, and then ends. It follows the offset after each fetched
batch, never a count of records, so transaction markers, aborted records and offsets that compaction removed do not make
it wait. Records of several partitions are merged by timestamp: a record is returned when no other partition can have an
earlier one (newest first: a later one), as far as timestamps of a partition are in order. The records of one partition
are always in the order of their offsets.

It uses `client.raw`, not a consumer of librdkafka, because that has fetch positions, log bounds and the kernel that
decodes only the columns that a search needs; it starts no threads and stops at once.

Memory is bounded: about `FETCH_BYTES_TOTAL` of fetched data, the records of one chunk per partition, and one page. One
thread iterates; any thread may call `cancel` and read `progress`. Cancelled iterators end normally.
"""

from __future__ import annotations

import heapq
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ottla.admin.positions import (
    END,
    START,
    LogBounds,
    OffsetOutsideLog,
    PositionRange,
    log_bounds,
    resolve,
)
from ottla.admin.records.scan import Chunk, ConsumedRecord, scan
from ottla.admin.records.where import Filter
from ottla.base.ids import TopicPartition
from ottla.client.raw import LATEST, OffsetOutOfRange

if TYPE_CHECKING:
    from ottla.base.clock import Clock
    from ottla.client.raw import Cluster

WHOLE_LOG: Final = PositionRange(START, END)
PAGE_RECORDS: Final = 100
FETCH_BYTES: Final = 2 << 20
FETCH_BYTES_MIN: Final = 64 << 10
FETCH_BYTES_TOTAL: Final = 32 << 20
WINDOW_OFFSETS: Final = 64
"""The first offsets that are read backwards; later windows depend on the size of the records."""
WINDOW_BYTES: Final = 2 << 20
KEPT_BYTES_MAX: Final = 8 << 20
PAGE_SCANNED: Final = 100_000
"""A page is returned, possibly empty, after this many offsets: its progress can be shown."""
FOLLOW_POLL_S: Final = 0.1
_EMPTY_ATTEMPTS: Final = 2
_EMPTY_WAIT_MS: Final = 50
_NEW_PARTITIONS_POLLS: Final = 50
_WINDOW_GROWTH: Final = 8
_FIRST, _LAST = float("-inf"), float("inf")


class ReadSession(Protocol):
    """What reading needs of a session with a cluster."""

    @property
    def cluster(self) -> Cluster: ...
    @property
    def clock(self) -> Clock: ...


class OffsetRange(NamedTuple):
    """From `start` up to, but not including, `end`."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return max(0, self.end - self.start)


class Progress(NamedTuple):
    """How much of the planned offsets was read. Offsets, not records: some offsets have no record."""

    done: int
    total: int
    matched: int

    @property
    def fraction(self) -> float:
        return self.done / self.total if self.total else 1.0


@dataclass(frozen=True)
class Page:
    """Some records in order, and the progress when they were returned."""

    records: list[ConsumedRecord]
    progress: Progress


class Browser:
    """Records of topics between two positions. Raise UnknownTopic or OffsetOutsideLog when it is created."""

    def __init__(
        self,
        session: ReadSession,
        topics: Sequence[str],
        positions: PositionRange = WHOLE_LOG,
        *,
        partitions: Collection[int] | None = None,
        where: Filter | None = None,
        committed: bool = False,
        newest_first: bool = False,
        ranges: Mapping[TopicPartition, OffsetRange] | None = None,
    ) -> None:
        """With `ranges`, as `remaining` returned them, reading continues where another browser ended."""
        self._cluster = session.cluster
        self._where = where
        self._committed = committed
        self._newest_first = newest_first
        self._all_partitions = partitions is None
        self._cancelled = threading.Event()
        self._matched = 0
        self.topics = list(dict.fromkeys(topics))
        self.ranges = (
            dict(ranges)
            if ranges is not None
            else plan(session.cluster, self.topics, positions, session.clock.now_ms(), partitions, committed)
        )
        fetch_bytes = max(FETCH_BYTES_MIN, min(FETCH_BYTES, FETCH_BYTES_TOTAL // max(1, len(self.ranges))))
        cursor = _BackwardCursor if newest_first else _ForwardCursor
        self._cursors = [
            cursor(self._cluster, tp, each, where, committed, fetch_bytes) for tp, each in self.ranges.items()
        ]

    # --- what a caller shows

    @property
    def progress(self) -> Progress:
        total = sum(each.length for each in self.ranges.values())
        left = sum(cursor.left for cursor in self._cursors)
        return Progress(total - left, total, self._matched)

    @property
    def lost(self) -> dict[TopicPartition, int]:
        """Offsets that were deleted, or cut off, before they were read."""
        return {cursor.tp: cursor.lost for cursor in self._cursors if cursor.lost}

    def cancel(self) -> None:
        """End the iteration after the current fetch. May be called from any thread."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def remaining(self) -> dict[TopicPartition, OffsetRange]:
        """The offsets whose records were not returned yet; valid between records and pages."""
        return {cursor.tp: cursor.remaining for cursor in self._cursors}

    # --- reading

    def records(self) -> Iterator[ConsumedRecord]:
        """The matching records in order."""
        for found in self._steps():
            yield from found

    def pages(self, size: int = PAGE_RECORDS) -> Iterator[Page]:
        """The matching records in pages of at most `size`; also empty ones, so that a search shows its progress."""
        page: list[ConsumedRecord] = []
        shown_done = 0
        for found in self._steps():
            for record in found:
                page.append(record)
                if len(page) == size:
                    yield Page(page, self.progress)
                    page, shown_done = [], self.progress.done
            if self.progress.done - shown_done >= PAGE_SCANNED:
                yield Page(page, self.progress)
                page, shown_done = [], self.progress.done
        yield Page(page, self.progress)

    def batches(self) -> Iterator[list[ConsumedRecord]]:
        """The matching records in order, some at a time: as soon as they are found."""
        for found in self._steps():
            batch = list(found)
            if batch:
                yield batch

    def _steps(self) -> Iterator[Iterator[ConsumedRecord]]:
        """After each chunk that was scanned, the records that are complete up to their timestamp."""
        while not self._cancelled.is_set():
            waiting = [cursor for cursor in self._cursors if not cursor.is_done]
            if not waiting:
                break
            # The partition that is behind all others decides what can be returned, so it is read next.
            min(waiting, key=lambda cursor: cursor.frontier).advance()
            yield self._ready()
        if not self._cancelled.is_set():
            yield self._ready()

    def _ready(self) -> Iterator[ConsumedRecord]:
        """Return the buffered records that no partition can precede."""
        limit = min((cursor.frontier for cursor in self._cursors if not cursor.is_done), default=_LAST)
        heads = [(cursor.head, index) for index, cursor in enumerate(self._cursors) if cursor.head <= limit]
        heapq.heapify(heads)
        while heads and heads[0][0] < _LAST and not self._cancelled.is_set():
            _, index = heads[0]
            cursor = self._cursors[index]
            record = cursor.pop()
            if cursor.head <= limit:
                heapq.heapreplace(heads, (cursor.head, index))
            else:
                heapq.heappop(heads)
            self._matched += 1
            yield record

    def follow(self, poll_s: float = FOLLOW_POLL_S) -> Iterator[list[ConsumedRecord]]:
        """New records as they are appended, from the end of the planned ranges, until `cancel` is called.

        Between polls it yields an empty list, so that a caller can end it or show that it is alive.
        """
        positions = {tp: each.end for tp, each in self.ranges.items()}
        polls = 0
        while not self._cancelled.is_set():
            polls += 1
            if self._all_partitions and polls % _NEW_PARTITIONS_POLLS == 0:
                positions = (
                    dict.fromkeys(_partitions_of(self._cluster, self.topics, fresh=True), 0) | positions
                )
            ends = self._cluster.list_offsets(dict.fromkeys(positions, LATEST), self._committed)
            grown = {
                tp: OffsetRange(start, ends[tp][0]) for tp, start in positions.items() if start < ends[tp][0]
            }
            positions = {tp: ends[tp][0] for tp in positions}
            if not grown:
                yield []
                self._cancelled.wait(poll_s)
                continue
            cursors = [
                _ForwardCursor(self._cluster, tp, each, self._where, self._committed, FETCH_BYTES_MIN)
                for tp, each in grown.items()
            ]
            yield from self._follow_ranges(cursors)

    def _follow_ranges(self, cursors: list[_ForwardCursor]) -> Iterator[list[ConsumedRecord]]:
        for cursor in cursors:
            while not cursor.is_done and not self._cancelled.is_set():
                cursor.advance()
                found = list(cursor.drain())
                self._matched += len(found)
                yield found


def plan(
    cluster: Cluster,
    topics: Sequence[str],
    positions: PositionRange,
    now_ms: int,
    partitions: Collection[int] | None = None,
    committed: bool = False,
) -> dict[TopicPartition, OffsetRange]:
    """The offsets between two positions now. An absolute end beyond the log is the end of the log."""
    known = [tp for tp in _partitions_of(cluster, topics) if partitions is None or tp.partition in partitions]
    missing = set(partitions or ()) - {tp.partition for tp in known}
    if missing:
        raise OffsetOutsideLog(f"{', '.join(topics)} has no partition {min(missing)}")
    bounds: dict[TopicPartition, LogBounds] = log_bounds(cluster, known, committed=committed)
    starts = resolve(cluster, positions.start, bounds, now_ms)
    ends = resolve(cluster, positions.end, bounds, now_ms, nearest=True)
    return {tp: OffsetRange(starts[tp], max(starts[tp], ends[tp])) for tp in known}


def _partitions_of(cluster: Cluster, topics: Sequence[str], *, fresh: bool = False) -> list[TopicPartition]:
    if fresh:
        cluster.topics(topics)
    return [
        TopicPartition(topic, index) for topic in topics for index in sorted(cluster.topic(topic).partitions)
    ]


# --- one partition


class _Cursor(ABC):
    """Reads the range of one partition. Orders are keys that grow in reading direction."""

    def __init__(
        self,
        cluster: Cluster,
        tp: TopicPartition,
        planned: OffsetRange,
        where: Filter | None,
        committed: bool,
        fetch_bytes: int,
    ) -> None:
        self.tp = tp
        self.lost = 0
        self.is_done = planned.length == 0
        self.frontier: float = _FIRST
        """No record that follows has a lower order."""
        self._cluster = cluster
        self._where = where
        self._committed = committed
        self._fetch_bytes = fetch_bytes
        self._start, self._end = planned
        """The offsets that were not scanned yet."""
        self._buffer: deque[tuple[float, ConsumedRecord]] = deque()

    @property
    def left(self) -> int:
        return max(0, self._end - self._start)

    @property
    def head(self) -> float:
        """The order of the next buffered record."""
        return self._buffer[0][0] if self._buffer else _LAST

    def pop(self) -> ConsumedRecord:
        return self._buffer.popleft()[1]

    def drain(self) -> Iterator[ConsumedRecord]:
        while self._buffer:
            yield self.pop()

    @abstractmethod
    def advance(self) -> None:
        """Scan one chunk."""

    @property
    @abstractmethod
    def remaining(self) -> OffsetRange:
        """The offsets after the last record that was returned."""

    def _add(self, record: ConsumedRecord, order: float) -> None:
        # Timestamps of a partition may go back; its order may not.
        self.frontier = max(self.frontier, order)
        self._buffer.append((self.frontier, record))

    def _chunks(self, start: int, end: int) -> Iterator[Chunk]:
        """The chunks between two offsets. The last one ends at `end`, whether it has records or not."""
        empty, visible_end = 0, end
        while start < end and empty < _EMPTY_ATTEMPTS:
            before = start
            try:
                for offset, fetched in self._cluster.stream(
                    self.tp,
                    start,
                    end,
                    max_bytes=self._fetch_bytes,
                    max_wait_ms=_EMPTY_WAIT_MS if empty else 0,
                    committed=self._committed,
                ):
                    visible_end = fetched.last_stable_offset if self._committed else fetched.high_watermark
                    for chunk in scan(self.tp, fetched.data, offset, end, fetched.aborted, self._where):
                        yield chunk
                        start = chunk.next_offset
            except OffsetOutOfRange:
                following = self._after_loss(start, end)
                self.lost += following - start
                start = following
            empty = 0 if start > before else empty + 1
        # Nothing is returned for offsets at the end of a log that compaction removed, or that were truncated.
        self.lost += max(0, end - max(start, visible_end))
        yield Chunk([], end)

    def _after_loss(self, start: int, end: int) -> int:
        """Where to continue after records were deleted, or the log was truncated, below or after an offset."""
        bounds = log_bounds(self._cluster, [self.tp])[self.tp]
        return min(bounds.start, end) if start < bounds.start else end if start > bounds.end else start


class _ForwardCursor(_Cursor):
    _reading: Iterator[Chunk] | None = None

    def advance(self) -> None:
        if self._reading is None:
            self._reading = self._chunks(self._start, self._end)
        chunk = next(self._reading)
        for record in chunk.records:
            self._add(record, record.timestamp)
        if chunk.last_timestamp is not None:
            self.frontier = max(self.frontier, chunk.last_timestamp)
        self._start = chunk.next_offset
        self.is_done = self._start >= self._end

    @property
    def remaining(self) -> OffsetRange:
        return OffsetRange(self._buffer[0][1].offset if self._buffer else self._start, self._end)


class _BackwardCursor(_Cursor):
    """Reads windows of offsets from the end, each of them forwards."""

    _window = WINDOW_OFFSETS

    def advance(self) -> None:
        start = max(self._start, self._end - self._window)
        kept: deque[ConsumedRecord] = deque()
        kept_bytes, scanned_bytes, oldest, dropped = 0, 0, None, False
        for chunk in self._chunks(start, self._end):
            scanned_bytes += chunk.size
            oldest = chunk.first_timestamp if oldest is None else oldest
            for record in chunk.records:
                kept.append(record)
                kept_bytes += record.size
                while kept_bytes > KEPT_BYTES_MAX and len(kept) > 1:
                    # Too much for one window: the oldest records are read again with the next one.
                    kept_bytes -= kept.popleft().size
                    dropped = True
        for record in reversed(kept):
            self._add(record, -record.timestamp)
        if oldest is not None and not dropped:
            self.frontier = max(self.frontier, -oldest)
        self._end = kept[0].offset if dropped else start
        wanted = self._window * WINDOW_BYTES // max(1, scanned_bytes)
        self._window = max(WINDOW_OFFSETS, min(wanted, self._window * _WINDOW_GROWTH))
        self.is_done = self._end <= self._start

    @property
    def remaining(self) -> OffsetRange:
        # Records in the buffer are older than those that were returned, newest first.
        return OffsetRange(self._start, self._buffer[0][1].offset + 1 if self._buffer else self._end)
