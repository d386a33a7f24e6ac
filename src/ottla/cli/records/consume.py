"""Reading of records for `ottla consume`: what is read, in which order, and how it ends.

The first Ctrl-C or SIGTERM ends the command quietly while it follows.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

from ottla.admin.positions import END, START, PositionRange, parse_range
from ottla.admin.records.browse import Browser, Progress
from ottla.admin.records.globs import Glob
from ottla.admin.records.scan import ConsumedRecord
from ottla.admin.records.where import Filter, compile_filter, key_filter
from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.cli.terminal import signal_handlers

if TYPE_CHECKING:
    from ottla.admin.records.group_reader import GroupReader
    from ottla.admin.session import Session
    from ottla.cli.records.record_output import RecordWriter

Batches = Iterator[Sequence[ConsumedRecord]]


class UsageError(LocalError):
    """Options that contradict each other."""


@dataclass(frozen=True)
class ConsumeOptions:
    """What to read."""

    topics: tuple[str, ...]
    offsets: str | None = None
    count: int | None = None
    tail: int | None = None
    follow: bool = False
    group: str | None = None
    where: str | None = None
    key: str | None = None
    partitions: tuple[int, ...] | None = None
    read_committed: bool = False

    def positions(self) -> PositionRange:
        """The range to read: all, or with `--follow` alone new records only."""
        if self.offsets is None:
            only_new = self.follow and self.tail is None and self.group is None
            return PositionRange(END if only_new else START, END)
        found = parse_range(self.offsets)
        if self.follow and found.end != END:
            raise UsageError(f"--follow has no end, but -O {self.offsets} has one")
        if self.group is not None and not (found.start in (START, END) and found.end == END):
            raise UsageError(
                "with -g, -O can be start or end: it applies to partitions without a committed offset"
                " (`ottla groups reset` changes committed offsets)"
            )
        return found

    def filter(self, now_ms: int) -> Filter | None:
        """The filters of `--where` and `--key` together."""
        where = None if self.where is None else compile_filter(self.where, now_ms)
        if self.key is None:
            return where
        return key_filter(self.key) if where is None else key_filter(self.key) & where

    def check(self) -> None:
        """Raise UsageError, InvalidPosition, InvalidExpression or InvalidGlob before anything is read."""
        self.positions()
        self.filter(0)
        if self.group is not None and (self.tail is not None or self.partitions is not None):
            raise UsageError("--tail and -p cannot be used with -g: the group assigns the partitions")


class Consumption:
    """One run of the command: reads batches of records, writes them, and counts."""

    def __init__(
        self,
        session: Session,
        options: ConsumeOptions,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """`on_progress` is called while all records are read, also if none matches."""
        self._on_progress = on_progress
        self._session = session
        self._options = options
        self._where = options.filter(session.clock.now_ms())
        self._stopped = False
        self._reader: GroupReader | None = None
        self.browser: Browser | None = None
        self.written = 0

    def run(self, writer: RecordWriter, out: BinaryIO) -> None:
        """Write all records. Must be called by the main thread, which receives signals."""
        with self._signals():
            self._write(writer, out)
        writer.finish()
        out.flush()

    def _write(self, writer: RecordWriter, out: BinaryIO) -> None:
        for batch in self._batches():
            for record in batch:
                writer.write(record)
            self.written += len(batch)
            if batch:
                out.flush()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """The first signal ends following, which is its normal end. Otherwise a signal is an interrupt."""

        def on_signal(*_: object) -> None:
            if self._stopped or not self._options.follow:
                raise KeyboardInterrupt
            self.cancel()

        with signal_handlers(on_signal, signal.SIGINT):
            yield

    def cancel(self) -> None:
        """End after the current fetch. May be called from a signal handler."""
        self._stopped = True
        if self.browser is not None:
            self.browser.cancel()
        if self._reader is not None:
            self._reader.cancel()

    @property
    def lost(self) -> dict[TopicPartition, int]:
        """Offsets that were deleted before they were read."""
        return {} if self.browser is None else self.browser.lost

    def _limited(self, batches: Batches) -> Batches:
        left = self._options.count
        if left == 0:
            return
        for batch in batches:
            if left is None:
                yield batch
                continue
            yield batch[:left]
            left -= len(batch[:left])
            if not left:
                return

    def _batches(self) -> Batches:
        topics = matching_topics(self._session, self._options.topics)
        if self._options.group is not None:
            return self._group_batches(topics, self._options.group)
        return self._limited(self._browser_batches(topics))

    def _browser_batches(self, topics: Sequence[str]) -> Batches:
        self.browser = self._browser(topics, newest_first=self._options.tail is not None)
        if self._stopped:
            return
        if self._options.tail is None:
            yield from self._all_batches(self.browser)
        else:
            yield list(islice(self.browser.records(), self._options.tail))[::-1]
        if self._options.follow:
            yield from self.browser.follow()

    def _all_batches(self, browser: Browser) -> Batches:
        if self._on_progress is None:
            yield from browser.batches()
            return
        for page in browser.pages():
            self._on_progress(page.progress)
            yield page.records

    def _browser(self, topics: Sequence[str], *, newest_first: bool) -> Browser:
        return Browser(
            self._session,
            topics,
            self._options.positions(),
            partitions=self._options.partitions,
            where=self._where,
            committed=self._options.read_committed,
            newest_first=newest_first,
        )

    def _group_batches(self, topics: Sequence[str], group: str) -> Batches:
        from ottla.admin.records.group_reader import GroupReader

        with GroupReader(
            self._session,
            topics,
            group,
            where=self._where,
            committed=self._options.read_committed,
            follow=self._options.follow,
            from_end=self._options.positions().start == END,
        ) as reader:
            self._reader = reader
            if not self._stopped:
                yield from reader.records(self._options.count)


def matching_topics(session: Session, names: Sequence[str]) -> list[str]:
    """The topics that were named; a name with `*`, `?` or `[` is a glob of topics that are not internal."""
    found: list[str] = []
    known: list[str] | None = None
    for name in names:
        if not set(name) & set("*?["):
            found.append(name)
            continue
        known = sorted(session.cluster.topics()) if known is None else known
        matching = [topic for topic in known if not topic.startswith("__") and Glob(name).matches(topic)]
        if not matching:
            raise LocalError(f"no topic matches {name}")
        found += matching
    return list(dict.fromkeys(found))
