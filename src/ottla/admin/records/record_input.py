"""Input of `produce`: lines, JSON lines or CSV to records, one by one.

Lines are values; with a separator, the text before its first occurrence is the key. The first row of CSV has the names
of the columns: key, value, key_base64, value_base64, partition, timestamp, and `header.NAME` for headers; other columns
are refused. An empty cell is null. An error has the number of its line. Pure: reads from an iterable of lines of bytes.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any, Final

from ottla.admin.records.record_json import InvalidRecord, OutgoingRecord, from_dict, from_line

_COLUMNS: Final = ("key", "value", "key_base64", "value_base64", "partition", "timestamp")
_IGNORED: Final = ("topic", "offset", "timestamp_type")
_HEADER: Final = "header."


class Input(StrEnum):
    """The format of the input."""

    LINES = "lines"
    JSONL = "jsonl"
    CSV = "csv"


def read_records(
    lines: Iterable[bytes], form: Input, *, separator: str | None = None
) -> Iterator[tuple[int, OutgoingRecord]]:
    """Each record with the number of its line. Raise InvalidRecord with that number."""
    if form is Input.CSV:
        yield from _csv_records(lines)
        return
    parse: Callable[[bytes], OutgoingRecord]
    parse = from_line if form is Input.JSONL else _line_parser(separator)
    for number, line in enumerate(lines, 1):
        content = line.removesuffix(b"\n").removesuffix(b"\r")
        if form is Input.JSONL and not content.strip():
            continue
        try:
            record = parse(content)
        except InvalidRecord as error:
            raise InvalidRecord(str(error), number) from None
        yield number, record


def _line_parser(separator: str | None) -> Callable[[bytes], OutgoingRecord]:
    if separator is None:
        return lambda line: OutgoingRecord(None, line)
    mark = separator.encode()

    def parse(line: bytes) -> OutgoingRecord:
        key, found, value = line.partition(mark)
        if not found:
            raise InvalidRecord(f"the separator {separator!r} between key and value is missing")
        return OutgoingRecord(key, value)

    return parse


def _csv_records(lines: Iterable[bytes]) -> Iterator[tuple[int, OutgoingRecord]]:
    reader = csv.reader(_decoded(lines), strict=True)
    try:
        names = next(reader, None)
        if names is None:
            return
        _check_columns(names)
        for cells in reader:
            if cells:
                yield reader.line_num, _csv_record(names, cells, reader.line_num)
    except csv.Error as error:
        raise InvalidRecord(str(error), reader.line_num) from None


def _decoded(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise InvalidRecord("not UTF-8; give binary data as key_base64 or value_base64", number) from None


def _check_columns(names: list[str]) -> None:
    for name in names:
        if name not in (*_COLUMNS, *_IGNORED) and not name.startswith(_HEADER):
            raise InvalidRecord(
                f"unknown column {name!r}; the first row names the columns: {', '.join(_COLUMNS)}, {_HEADER}NAME",
                1,
            )


def _csv_record(names: list[str], cells: list[str], number: int) -> OutgoingRecord:
    if len(cells) != len(names):
        raise InvalidRecord(f"{len(cells)} cells, but {len(names)} columns", number)
    given: dict[str, Any] = {}
    headers = []
    for name, cell in zip(names, cells, strict=True):
        if name.startswith(_HEADER):
            if cell:
                headers.append({"name": name.removeprefix(_HEADER), "value": cell})
        elif cell and name not in _IGNORED:
            given[name] = int(cell) if name in ("partition", "timestamp") and cell.isdecimal() else cell
    try:
        return from_dict({**given, "headers": headers})
    except InvalidRecord as error:
        raise InvalidRecord(str(error), number) from None
