"""Page Record, with a permanent link; producing of a record, and of the same record again; download of records."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Iterator

from ottla.admin.positions import parse_range
from ottla.admin.records.browse import Browser
from ottla.admin.records.record_json import OutgoingRecord, as_dict, to_line
from ottla.admin.records.scan import ConsumedRecord, Headers
from ottla.admin.records.send import Sender, SendFailed
from ottla.base.errors import LocalError
from ottla.console.page import Action, Console, Context, Download, NotFound, Page, View
from ottla.console.pages.records import browser_of, query_of
from ottla.console.presentation.record_view import FORMS, RECORD_BYTES_MAX, form_of, show_record

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "key_base64", "value", "value_base64")


def context(console: Console, view: View) -> Context:
    record = read(console, view)
    form = form_of(view.get("as"))
    partition = next(
        (
            each
            for topic in view.snapshot.topics
            if topic.name == record.topic
            for each in topic.partitions
            if each.partition == record.partition
        ),
        None,
    )
    return {
        "snapshot": view.snapshot,
        "shown": show_record(record, form, bytes_max=RECORD_BYTES_MAX, chars=RECORD_BYTES_MAX),
        "record": record,
        "form": form,
        "forms": FORMS,
        "first": partition.start_offset if partition else None,
        "end": partition.end_offset if partition else None,
        "command": command(record),
        "resend_command": f"{command(record)} -o jsonl | ottla produce {shlex.quote(record.topic)} --input jsonl",
        "read_only": console.settings.read_only,
        "token": console.token,
    }


def command(record: ConsumedRecord) -> str:
    words = ["ottla", "consume", record.topic, "-p", str(record.partition)]
    return shlex.join([*words, "-O", f"{record.offset}:{record.offset + 1}"])


def read(console: Console, view: View) -> ConsumedRecord:
    """The record that the path names. Raises NotFound if there is none at this offset."""
    topic, partition, offset = view.params["topic"], int(view.params["partition"]), int(view.params["offset"])
    missing = f"There is no record at offset {offset} of {topic}-{partition}."
    if view.snapshot.topic(topic) is None:
        raise NotFound(missing)
    try:
        browser = Browser(
            console.session, [topic], parse_range(f"{offset}:{offset + 1}"), partitions=[partition]
        )
    except LocalError as error:
        raise NotFound(f"{missing} {error}") from error
    found = next(browser.records(), None)
    if found is None:
        raise NotFound(f"{missing} It was deleted or compacted, or the offset belongs to a transaction.")
    return found


def run_resend(console: Console, view: View) -> str:
    """Produce the same key, value and headers again, byte for byte."""
    record = read(console, view)
    to = view.get("to") or record.topic
    where = produce(console, to, OutgoingRecord(record.key, record.value, record.headers))
    return f"Produced again to {where}"


def run_produce(console: Console, view: View) -> str:
    """Produce a record whose key, value and headers are texts of a form."""
    key = view.query.get("key", "") or None
    value = None if view.get("null") else view.query.get("value", "")
    headers = headers_of(view.query.get("headers", ""))
    partition = view.get("partition")
    if partition and not partition.isdigit():
        raise LocalError(f"partition: {partition[:40]!r} is not a number")
    record = OutgoingRecord(
        None if key is None else key.encode(),
        None if value is None else value.encode(),
        headers,
        int(partition) if partition else None,
    )
    return f"Produced to {produce(console, view.params['topic'], record)}"


def headers_of(text: str) -> Headers:
    """Headers from lines NAME=VALUE."""
    found: list[tuple[str, bytes | None]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name:
            raise LocalError(f"a header has the form NAME=VALUE, not {line[:40]!r}")
        found.append((name, value.encode()))
    return tuple(found)


def produce(console: Console, topic: str, record: OutgoingRecord) -> str:
    """Produce one record and wait for its acknowledgement; return its partition and offset."""
    with Sender(console.session, topic) as sender:
        sender.send(1, record)
    if sender.result.last is None:
        reasons = [reason for _, reason in sender.result.errors]
        raise SendFailed(f"topic {topic}: {reasons[0] if reasons else 'not acknowledged'}")
    partition, offset = sender.result.last
    return f"{topic}-{partition}, offset {offset}"


def download(console: Console, view: View) -> tuple[str, str, Iterator[bytes]]:
    """All records of a page's query as JSON lines, which can be produced again, or as CSV."""
    query = query_of(view)
    browser = browser_of(console, query._replace(tail=False, order="oldest"), None)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", query.topic)
    if view.get("format") == "csv":
        return f"{name}.csv", "text/csv; charset=utf-8", csv_lines(browser.records())
    return f"{name}.jsonl", "application/x-ndjson", json_lines(browser.records())


def json_lines(records: Iterator[ConsumedRecord]) -> Iterator[bytes]:
    for record in records:
        yield to_line(record) + b"\n"


def csv_lines(records: Iterator[ConsumedRecord]) -> Iterator[bytes]:
    """For spreadsheets: a text that would be executed as a formula gets an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for record in records:
        fields = as_dict(record)
        cells = [fields.get(name) for name in COLUMNS]
        writer.writerow([harmless(each) if isinstance(each, str) else each for each in cells])
        yield out.getvalue().encode()
        out.seek(0)
        out.truncate()
    yield out.getvalue().encode()


def harmless(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


PAGE = Page("/topics/{topic}/records/{partition:int}/{offset:int}", "record.html", context, "topics")
RESEND = Action("/topics/{topic}/records/{partition:int}/{offset:int}/resend", run_resend)
PRODUCE = Action("/topics/{topic}/produce", run_produce)
DOWNLOAD = Download("/topics/{topic}/files/download", download)
