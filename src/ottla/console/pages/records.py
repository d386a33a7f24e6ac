"""Page Topic: its records, newest first, from a position, filtered, or live; search of the whole topic; download.

Without a filter the page has the first records. With a filter the stream of the page reads the whole range and sends
what it finds, with its progress; it pauses after `FOUND_MAX` records and the page offers to continue, so there is no
silent limit. The live view sends new records until the page is closed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode

from ottla.admin.positions import END, PositionRange, parse_range
from ottla.admin.records.browse import WHOLE_LOG, Browser, OffsetRange
from ottla.admin.records.decode import Form
from ottla.admin.records.scan import ConsumedRecord
from ottla.admin.records.timeline import timeline
from ottla.admin.records.where import Filter, compile_filter, key_filter
from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.console.page import Console, Context, Event, NotFound, Page, View
from ottla.console.pages.topic import TABS
from ottla.console.presentation.cursor import Cursor, cursor_of, unread
from ottla.console.presentation.formats import moment
from ottla.console.presentation.record_view import FORMS, form_of, show_record
from ottla.console.presentation.rendering import render

PAGE_RECORDS = 50
FOUND_MAX = 500
TAIL_MAX = 100
"""Records of one event of the live view; more at once are counted and not shown."""
BUCKETS = 60


class Query(NamedTuple):
    """What the form of the page names."""

    topic: str
    range: str
    partition: str
    key: str
    where: str
    order: str
    form: Form
    tail: bool
    cursor: str

    @property
    def filtered(self) -> bool:
        return bool(self.key or self.where)

    @property
    def streams(self) -> bool:
        """Whether the records are sent by the stream of the page."""
        return self.filtered or self.tail

    @property
    def newest_first(self) -> bool:
        return self.order != "oldest"

    def link(self, **changes: str) -> str:
        """The query part of an address with some fields replaced."""
        fields = {"range": self.range, "partition": self.partition, "key": self.key, "where": self.where}
        fields |= {"order": "" if self.newest_first else "oldest", "tail": "1" if self.tail else ""}
        fields["as"] = "" if self.form is Form.AUTO else str(self.form)
        return urlencode({name: value for name, value in {**fields, **changes}.items() if value})

    def command(self) -> str:
        """The command that prints the same records."""
        words = ["ottla", "consume", self.topic]
        words += ["-p", self.partition] if self.partition else []
        words += ["--key", self.key] if self.key else []
        words += ["--where", self.where] if self.where else []
        words += ["--decode", str(self.form)] if self.form is not Form.AUTO else []
        if self.tail:
            words += ["-O", "end", "--follow"]
        elif self.range:
            words += ["-O", self.range]
        elif not self.filtered:
            words += ["--tail", str(PAGE_RECORDS)]
        return shlex.join(words)


def query_of(view: View) -> Query:
    return Query(
        view.params["topic"],
        view.get("range"),
        view.get("partition"),
        view.get("key"),
        view.get("where"),
        view.get("order"),
        form_of(view.get("as")),
        view.get("tail") == "1",
        view.get("cursor"),
    )


def filter_of(console: Console, query: Query) -> Filter | None:
    """The conditions of the form together. Raises LocalError."""
    found = [key_filter(query.key)] if query.key else []
    if query.where:
        found.append(compile_filter(query.where, console.session.clock.now_ms()))
    if not found:
        return None
    return found[0] if len(found) == 1 else found[0] & found[1]


def browser_of(console: Console, query: Query, cursor: Cursor | None) -> Browser:
    """Raises LocalError for positions, partitions and expressions that are not valid."""
    if query.partition and not query.partition.isdigit():
        raise LocalError(f"partition: {query.partition[:40]!r} is not a number")
    positions = WHOLE_LOG
    if query.tail:
        positions = PositionRange(END, END)
    elif query.range:
        positions = parse_range(query.range)
    return Browser(
        console.session,
        [query.topic],
        positions,
        partitions=[int(query.partition)] if query.partition else None,
        where=filter_of(console, query),
        newest_first=query.newest_first,
        ranges=None if cursor is None else cursor.ranges,
    )


def context(console: Console, view: View) -> Context:
    query = query_of(view)
    topic = view.snapshot.topic(query.topic)
    if topic is None:
        raise NotFound(f"There is no topic {query.topic}.")
    problem, following = "", ""
    found: list[ConsumedRecord] = []
    try:
        cursor = cursor_of(query.topic, query.cursor) if query.cursor else None
        browser = browser_of(console, query, cursor)
        if not query.streams:
            page = next(browser.pages(PAGE_RECORDS))
            left = unread(page.progress.total, 0, browser.remaining())
            found, following = page.records, left.text() if left.ranges else ""
    except LocalError as error:
        problem = str(error)
    return {
        "snapshot": view.snapshot,
        "topic": topic,
        "groups": view.snapshot.consumers(query.topic),
        "tab": "records",
        "tabs": TABS,
        "query": query,
        "forms": FORMS,
        "records": [show_record(each, query.form) for each in found],
        "following": following,
        "problem": problem,
        "streams": not problem and query.streams,
        "command": query.command(),
        "read_only": console.settings.read_only,
        "token": console.token,
    }


def stream(console: Console, view: View) -> Iterator[Event] | None:
    """The events of a search or of the live view; None for a page that is complete."""
    query = query_of(view)
    if not query.streams:
        return None
    resumed = view.get("resume") or query.cursor
    try:
        cursor = cursor_of(query.topic, resumed) if resumed else None
        browser = browser_of(console, query, cursor)
    except LocalError:
        return iter(())  # the page shows the reason
    return _follow(console, query, browser) if query.tail else _search(console, query, browser, cursor)


def _search(console: Console, query: Query, browser: Browser, cursor: Cursor | None) -> Iterator[Event]:
    """What is found, page by page, with the progress. Pauses after `FOUND_MAX` records."""
    total = cursor.total if cursor else browser.progress.total
    before = cursor.found if cursor else 0
    shown = 0
    try:
        for page in browser.pages(PAGE_RECORDS):
            shown += len(page.records)
            left = unread(total, before + shown, browser.remaining())
            paused = shown >= FOUND_MAX and bool(left.ranges)
            if page.records:
                yield Event("append", "records", _rows(console, query, page.records), left.text())
            state = {
                "done": total - left.left,
                "total": total,
                "found": before + shown,
                "complete": not left.ranges,
                "continue_link": query.link(cursor=left.text()) if paused else "",
                "lost": sum(browser.lost.values()),
            }
            progress = render(console.environment, "fragments/search_progress.html", state)
            yield Event("replace", "search_progress", progress, left.text())
            if paused:
                return
    finally:
        browser.cancel()


def _follow(console: Console, query: Query, browser: Browser) -> Iterator[Event]:
    """New records, newest first. More than `TAIL_MAX` at once are counted and not shown."""
    seen = 0
    positions = {tp.partition: each.end for tp, each in browser.ranges.items()}
    try:
        for records in browser.follow():
            seen += len(records)
            for each in records:
                positions[each.partition] = each.offset + 1
            ranges = {
                TopicPartition(query.topic, index): OffsetRange(at, at) for index, at in positions.items()
            }
            token = Cursor(0, seen, ranges).text()
            if records:
                newest = records[-TAIL_MAX:][::-1]
                yield Event("prepend", "records", _rows(console, query, newest), token)
            skipped = max(0, len(records) - TAIL_MAX)
            state = {"seen": seen, "skipped": skipped, "limit": TAIL_MAX}
            yield Event(
                "replace", "search_progress", render(console.environment, "fragments/tail.html", state), token
            )
    finally:
        browser.cancel()


def _rows(console: Console, query: Query, records: list[ConsumedRecord]) -> str:
    shown = [show_record(each, query.form) for each in records]
    return render(console.environment, "fragments/record_rows.html", {"records": shown, "query": query})


def timeline_context(console: Console, view: View) -> Context:
    """The volume over time, as bars that link to the records of their time."""
    topic = view.params["topic"]
    if view.snapshot.topic(topic) is None:
        raise NotFound(f"There is no topic {topic}.")
    line = timeline(console.session, topic, BUCKETS)
    edges = line.edges_ms
    bars = [
        {"count": count, "range": f"@{edges[index]}:@{edges[index + 1]}", "from": moment(edges[index])}
        for index, count in enumerate(line.counts)
    ]
    return {
        "topic": topic,
        "bars": bars,
        "top": max(line.counts, default=0),
        "start": moment(line.start_ms) if bars else "",
        "end": moment(line.end_ms) if bars else "",
        "bucket_s": line.bucket_ms / 1000,
    }


PAGE = Page("/topics/{topic}", "records.html", context, "topics", stream=stream)
TIMELINE = Page("/topics/{topic}/fragments/timeline", "fragments/timeline.html", timeline_context, "topics")
