r"""Formats of `consume -f`: fields of a record in a text.

    %t topic      %k key      %K size of the key, -1 if it is null
    %p partition  %v value    %V size of the value, -1 if it is null (%s and %S as in kcat)
    %o offset     %h headers as name=value,name=value
    %T timestamp in milliseconds      %d timestamp in ISO 8601      %% a percent sign

Escapes: \n \r \t \0 \\ \xHH. A line end is added unless the format ends with \n or \0. A null key, value or header is
empty. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from ottla.admin.records.scan import ConsumedRecord
from ottla.base.errors import LocalError

Show = Callable[[bytes | None], bytes]
"""Makes the bytes that are written for a key, value or header."""
Part = Callable[[ConsumedRecord, Show], bytes]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(
    r"%(?P<field>.?)|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.?)|(?P<text>[^%\\]+)", re.DOTALL
)


class InvalidFormat(LocalError):
    """A format with an unknown field or escape."""


def iso_time(timestamp: int) -> str:
    """A timestamp in milliseconds as ISO 8601 in UTC; as a number after the year 9999; empty if there is none."""
    if timestamp < 0:
        return ""
    try:
        return (
            (_EPOCH + timedelta(milliseconds=timestamp))
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        )
    except OverflowError:
        return str(timestamp)


class RecordFormat:
    """A compiled format."""

    def __init__(self, text: str) -> None:
        self._parts: list[Part] = []
        literal = b""
        for found in _TOKEN.finditer(text):
            if found["field"] is not None and found["field"] != "%":
                self._parts += [_constant(literal), _field(found["field"], found.start())]
                literal = b""
            else:
                literal += _literal(found)
        ends = literal.endswith((b"\n", b"\0"))
        self._parts.append(_constant(literal if ends else literal + b"\n"))

    def render(self, record: ConsumedRecord, show: Show) -> bytes:
        return b"".join([part(record, show) for part in self._parts])


def _constant(content: bytes) -> Part:
    return lambda record, show: content


def _literal(found: re.Match[str]) -> bytes:
    if found["field"] is not None:
        return b"%"
    if found["hex"] is not None:
        return bytes.fromhex(found["hex"])
    if found["escape"] is not None:
        if found["escape"] not in _ESCAPES:
            raise InvalidFormat(
                f"unknown escape \\{found['escape']} (character {found.start() + 1} of the format)"
            )
        return _ESCAPES[found["escape"]]
    return found["text"].encode()


def _size(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))


def _headers(record: ConsumedRecord, show: Show) -> bytes:
    return b",".join(show(name.encode()) + b"=" + show(value) for name, value in record.headers)


_FIELDS: Final[dict[str, Part]] = {
    "t": lambda record, show: record.topic.encode(),
    "p": lambda record, show: b"%d" % record.partition,
    "o": lambda record, show: b"%d" % record.offset,
    "k": lambda record, show: show(record.key),
    "v": lambda record, show: show(record.value),
    "s": lambda record, show: show(record.value),
    "K": lambda record, show: _size(record.key),
    "V": lambda record, show: _size(record.value),
    "S": lambda record, show: _size(record.value),
    "h": _headers,
    "T": lambda record, show: b"%d" % record.timestamp,
    "d": lambda record, show: iso_time(record.timestamp).encode(),
}


def _field(name: str, index: int) -> Part:
    if name not in _FIELDS:
        known = " ".join(f"%{each}" for each in _FIELDS)
        raise InvalidFormat(f"unknown field %{name} (character {index + 1} of the format); known: {known} %%")
    return _FIELDS[name]
