"""Decoder for the metrics that clients push (KIP-714): OpenTelemetry's MetricsData in protobuf. Pure.

Only what is exposed is decoded: gauges and sums with their attributes. Histograms, other fields and unknown fields are
skipped. The data is hostile input: every length is checked against its surroundings, and the number of points, of
attributes and of characters is limited; what is too long or too many raises `MalformedMetrics`. The nesting is that of
the format, so it needs no limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

POINTS_MAX: Final = 2_000
ATTRIBUTES_MAX: Final = 16
TEXT_BYTES_MAX: Final = 256
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE: Final = Struct("<d")
_INT: Final = Struct("<q")
_GAUGE, _SUM = 5, 7


class MalformedMetrics(ValueError):
    """The data is not what the format allows, or too much of it."""


class Point(NamedTuple):
    """One value of a metric."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float
    monotonic: bool


Field = tuple[int, int | memoryview]
"""Number, and a varint or the bytes of a field."""


def decode_metrics(data: bytes) -> list[Point]:
    """The points of gauges and sums. Raises MalformedMetrics."""
    points: list[Point] = []
    for resource in _messages(memoryview(data), 1):
        for scope in _messages(resource, 2):
            for metric in _messages(scope, 2):
                points += _metric(metric)
                if len(points) > POINTS_MAX:
                    raise MalformedMetrics(f"more than {POINTS_MAX} points")
    return points


def _metric(data: memoryview) -> Iterator[Point]:
    name, monotonic = "", False
    found: list[memoryview] = []
    for number, value in _fields(data):
        if number == 1:
            name = _text(value)
        elif number in (_GAUGE, _SUM) and isinstance(value, memoryview):
            for inner, content in _fields(value):
                if inner == 1 and isinstance(content, memoryview):
                    found.append(content)
                elif number == _SUM and inner == 3:
                    monotonic = bool(content)
            if len(found) > POINTS_MAX:
                raise MalformedMetrics(f"more than {POINTS_MAX} points")
    for point in found:
        yield _point(name, point, monotonic)


def _point(name: str, data: memoryview, monotonic: bool) -> Point:
    attributes: list[tuple[str, str]] = []
    result = 0.0
    for number, value in _fields(data):
        if number == 7 and isinstance(value, memoryview):
            if len(attributes) >= ATTRIBUTES_MAX:
                raise MalformedMetrics(f"more than {ATTRIBUTES_MAX} attributes")
            attributes.append(_attribute(value))
        elif number in (4, 6) and isinstance(value, memoryview) and len(value) == 8:
            result = (_DOUBLE if number == 4 else _INT).unpack(value)[0]
    return Point(name, tuple(attributes), result, monotonic)


def _attribute(data: memoryview) -> tuple[str, str]:
    key, text = "", ""
    for number, value in _fields(data):
        if number == 1:
            key = _text(value)
        elif number == 2 and isinstance(value, memoryview):
            for kind, content in _fields(value):
                if kind == 1:
                    text = _text(content)
                elif kind in (2, 3) and isinstance(content, int):
                    text = str(content)
                elif kind == 4 and isinstance(content, memoryview) and len(content) == 8:
                    text = repr(_DOUBLE.unpack(content)[0])
    return key, text


def _messages(data: memoryview, wanted: int) -> Iterator[memoryview]:
    for number, value in _fields(data):
        if number == wanted:
            if not isinstance(value, memoryview):
                raise MalformedMetrics("a message is expected")
            yield value


def _fields(data: memoryview) -> Iterator[Field]:
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == _VARINT:
            number, position = _varint(data, position)
            yield tag >> 3, number
            continue
        if kind == _BYTES:
            size, position = _varint(data, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise MalformedMetrics(f"wire type {kind}")
        if size > end - position:
            raise MalformedMetrics("a field ends after its message")
        yield tag >> 3, data[position : position + size]
        position += size


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise MalformedMetrics("a number has no end")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return result, position
        shift += 7


def _text(value: int | memoryview) -> str:
    if not isinstance(value, memoryview) or len(value) > TEXT_BYTES_MAX:
        raise MalformedMetrics(f"a text of at most {TEXT_BYTES_MAX} bytes is expected")
    return str(value, "utf-8", "replace")
