"""Pushed metrics: gauges and sums are decoded, anything else is skipped or refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.metrics.otlp import ATTRIBUTES_MAX, POINTS_MAX, MalformedMetrics, Point, decode_metrics


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def attribute(key: str, value: str) -> bytes:
    return message(7, message(1, key.encode()) + message(2, message(1, value.encode())))


def double(value: float) -> bytes:
    return varint(4 << 3 | 1) + struct.pack("<d", value)


def integer(value: int) -> bytes:
    return varint(6 << 3 | 1) + struct.pack("<q", value)


def metric(name: str, kind: int, *points: bytes, monotonic: bool = False) -> bytes:
    data = b"".join(message(1, point) for point in points)
    if monotonic:
        data += varint(3 << 3) + b"\1"
    return message(2, message(1, name.encode()) + message(2, b"help") + message(kind, data))


def pushed(*metrics: bytes) -> bytes:
    return message(1, message(1, b"") + message(2, b"".join(metrics)))


def test_gauges_and_sums() -> None:
    data = pushed(
        metric("a", 5, double(1.5) + attribute("topic", "t")),
        metric("b", 7, integer(-3), monotonic=True),
        metric("histogram", 9, b""),
    )
    assert decode_metrics(data) == [
        Point("a", (("topic", "t"),), 1.5, False),
        Point("b", (), -3, True),
    ]


def test_other_types_of_attributes() -> None:
    flag = message(7, message(1, b"k") + message(2, varint(2 << 3) + b"\1"))
    number = message(7, message(1, b"n") + message(2, varint(3 << 3) + varint(300)))
    share = message(7, message(1, b"d") + message(2, varint(4 << 3 | 1) + struct.pack("<d", 0.5)))
    (point,) = decode_metrics(pushed(metric("a", 5, flag + number + share)))
    assert point.attributes == (("k", "1"), ("n", "300"), ("d", "0.5"))


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\xff",
        b"\x0a\x7f",
        b"\x0a" + b"\xff" * 11,
        b"\x0b",
        varint(1 << 3) + b"\1",
        pushed(metric("x" * 300, 5, b"")),
        pushed(metric("a", 5, *[b""] * (POINTS_MAX + 1))),
        pushed(metric("a", 5, attribute("k", "v") * (ATTRIBUTES_MAX + 1))),
    ],
)
def test_hostile_data_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMetrics):
        decode_metrics(data)


def test_many_metrics_are_refused() -> None:
    with pytest.raises(MalformedMetrics, match="points"):
        decode_metrics(pushed(*[metric("a", 5, b"")] * (POINTS_MAX + 1)))


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    for each in (data, pushed(metric("a", 5, data))):
        try:
            decode_metrics(each)
        except MalformedMetrics:
            continue
