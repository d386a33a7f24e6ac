"""Conversion of parsed JSON values to the types of a schema, with the results of Spark's `from_json`.

A value that does not have its type is null. A struct keeps the other fields, and an array or a map the other elements
if they are structs; otherwise the whole array or map is null. The record is then corrupt. Of a name that occurs twice
the last value is used. Values are converted to what `pyarrow.array` accepts for the type. Pure.
"""

from __future__ import annotations

import base64
import binascii
import ctypes
import decimal
import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from ottla.base.errors import LocalError
from ottla.spark.values import times
from ottla.spark.values.json_text import Decimal, Pairs, Value, Whole, compact, number

Convert = Callable[[Value], Any]
GetZone = Callable[[], times.Zone]
_UNQUOTED: Final = {
    "NaN": "nan",
    "+INF": "inf",
    "+Infinity": "inf",
    "Infinity": "inf",
    "-INF": "-inf",
    "-Infinity": "-inf",
}
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?", re.ASCII)
_CONTEXT: Final = decimal.Context(prec=1_100, rounding=decimal.ROUND_HALF_UP, Emax=10**9, Emin=-(10**9))
_UNSIGNED_BYTES: Final = 255
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class WrongType(Exception):
    """The value does not have the type."""


class Partial(Exception):
    """A part of the value does not have its type; `value` has null in its place."""

    def __init__(self, value: Any) -> None:
        self.value = value


def record_converter(fields: list[pa.Field], zone: GetZone) -> Convert:
    """The converter of a whole value to a list with a value for each field; raises WrongType or Partial."""
    numbers = {field.name: number for number, field in enumerate(fields)}
    converters = [converter(field.name, field.type, zone) for field in fields]

    def convert(value: Value) -> list[Any]:
        if not isinstance(value, Pairs):
            raise WrongType
        made: list[Any] = [None] * len(fields)
        wrong = False
        for name, each in value:
            place = numbers.get(name)
            if place is not None:
                made[place], is_wrong = _field(converters[place], each)
                wrong |= is_wrong
        if wrong:
            raise Partial(made)
        return made

    return convert


def converter(name: str, kind: pa.DataType, zone: GetZone) -> Convert:
    """The converter for a type; LocalError if JSON values cannot have it."""
    made = _nested(name, kind, zone) or _scalar(kind, zone)
    if made is None:
        raise LocalError(
            f"valueSchema: the type {kind} of {name} cannot be read from JSON; declare it as a string and cast it"
        )
    return lambda value: None if value is None else made(value)


def _nested(name: str, kind: pa.DataType, zone: GetZone) -> Convert | None:
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        whole = record_converter(fields, zone)
        names = [field.name for field in fields]

        def struct(value: Value) -> dict[str, Any]:
            try:
                return dict(zip(names, whole(value), strict=True))
            except Partial as partial:
                raise Partial(dict(zip(names, partial.value, strict=True))) from None

        return struct
    if pa.types.is_list(kind):
        element = converter(name, kind.value_type, zone)
        return lambda value: _elements(value, element)
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        item = converter(name, kind.item_type, zone)
        return lambda value: _entries(value, item)
    return None


def _elements(value: Value, element: Convert) -> list[Any]:
    if not isinstance(value, list) or isinstance(value, Pairs):
        raise WrongType
    return _parts(value, element)


def _entries(value: Value, item: Convert) -> list[tuple[str, Any]]:
    if not isinstance(value, Pairs):
        raise WrongType
    names = [name for name, _ in value]
    try:
        return list(zip(names, _parts([each for _, each in value], item), strict=True))
    except Partial as partial:
        raise Partial(list(zip(names, partial.value, strict=True))) from None


def _parts(values: list[Any], convert: Convert) -> list[Any]:
    made: list[Any] = []
    wrong = False
    for each in values:
        try:
            made.append(convert(each))
        except Partial as partial:
            made.append(partial.value)
            wrong = True
    if wrong:
        raise Partial(made)
    return made


def _field(convert: Convert, value: Value) -> tuple[Any, bool]:
    """The converted value of a field, and whether a part of it was wrong."""
    try:
        return convert(value), False
    except Partial as partial:
        return partial.value, True
    except WrongType:
        return None, True


def _scalar(kind: pa.DataType, zone: GetZone) -> Convert | None:
    types = pa.types
    if types.is_string(kind):
        return _text
    if types.is_boolean(kind):
        return _boolean
    if types.is_signed_integer(kind):
        bits = kind.bit_width
        return lambda value: _whole(value, bits)
    if types.is_float32(kind):
        return lambda value: ctypes.c_float(_float(value)).value
    if types.is_float64(kind):
        return _float
    if types.is_decimal(kind):
        return lambda value: _decimal(value, kind.precision, kind.scale)
    if types.is_binary(kind):
        return _bytes
    if types.is_date32(kind):
        return lambda value: _parsed(value, times.parse_date)
    if types.is_timestamp(kind) and kind.tz is None:
        return lambda value: _parsed(value, times.parse_local_timestamp)
    if types.is_timestamp(kind):
        return lambda value: _timestamp(value, zone)
    return None


def _text(value: Value) -> str:
    if isinstance(value, str) and not isinstance(value, Whole | Decimal):
        return _LONE_SURROGATE.sub("?", value)
    return compact(value)


def _boolean(value: Value) -> bool:
    if not isinstance(value, bool):
        raise WrongType
    return value


def _whole(value: Value, bits: int) -> int:
    """A whole number; for 8 bits also up to 255, as Jackson reads a byte."""
    if not isinstance(value, Whole):
        raise WrongType
    number, limit = int(value), 1 << (bits - 1)
    if bits == 8 and limit <= number <= _UNSIGNED_BYTES:
        return number - (_UNSIGNED_BYTES + 1)
    if not -limit <= number < limit:
        raise WrongType
    return number


def _float(value: Value) -> float:
    if isinstance(value, Whole | Decimal):
        return number(value)
    if isinstance(value, str) and value in _UNQUOTED:
        return float(_UNQUOTED[value])
    raise WrongType


def _decimal(value: Value, precision: int, scale: int) -> decimal.Decimal:
    if not isinstance(value, str):
        raise WrongType
    text = value if isinstance(value, Whole | Decimal) else value.replace(",", "")
    if not _DECIMAL.fullmatch(text):
        raise WrongType
    made = decimal.Decimal(text)
    if made.adjusted() >= precision - scale + 1 and made:
        raise WrongType
    rounded = _CONTEXT.quantize(made, decimal.Decimal(1).scaleb(-scale))
    if rounded and rounded.adjusted() >= precision - scale:
        raise WrongType
    return rounded


def _bytes(value: Value) -> bytes:
    if not isinstance(value, str) or isinstance(value, Whole | Decimal):
        raise WrongType
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise WrongType from None


def _parsed(value: Value, parse: Callable[[str], int | None]) -> int:
    if not isinstance(value, str) or isinstance(value, Whole | Decimal):
        raise WrongType
    made = parse(value)
    if made is None:
        raise WrongType
    return made


def _timestamp(value: Value, zone: GetZone) -> int:
    """A text, or a whole number of seconds, which overflows as in Java."""
    if isinstance(value, Whole):
        micros = _whole(value, 64) * times.MICROS
        return (micros + (1 << 63)) % (1 << 64) - (1 << 63)
    return _parsed(value, lambda text: times.parse_timestamp(text, zone))
