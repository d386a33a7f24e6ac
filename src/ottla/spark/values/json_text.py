"""JSON text as values that keep what `from_json` of Spark distinguishes: whole and decimal numbers, repeated names.

The syntax is that of Spark's defaults: JSON, names and texts in single quotes as well, and the numbers NaN, Infinity,
+Infinity, -Infinity, +INF and -INF. Pure.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

_OTHER_SYNTAX: Final = re.compile(
    r""""(?:[^"\\]|\\.)*"|(?P<single>'(?:[^'\\]|\\.)*')|(?P<plus>\+(?:INF|Infinity))|(?P<minus>-INF)""",
    re.DOTALL,
)
_NUMBER_CHARS_MAX: Final = 1_000
"""Jackson's limit."""


class Whole(str):
    """The text of a whole number."""

    __slots__ = ()


class Decimal(str):
    """The text of a number with a fraction or an exponent, or of one that is not finite."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """The names and values of an object, in their order."""

    __slots__ = ()


Value = str | Whole | Decimal | bool | list[Any] | Pairs | None

_decoder: Final = json.JSONDecoder(
    parse_int=Whole, parse_float=Decimal, parse_constant=Decimal, object_pairs_hook=Pairs, strict=True
)


def parse(text: str) -> Value:
    """Parse one JSON value; raises ValueError or RecursionError if the text is something else."""
    try:
        return _checked(_decoder.decode(text))
    except ValueError:
        other = _OTHER_SYNTAX.sub(_standard, text)
        if other == text:
            raise
    return _checked(_decoder.decode(other))


def number(text: Whole | Decimal) -> float:
    """The number as a double; infinite if it is too large."""
    return float(int(text)) if isinstance(text, Whole) and len(text) < 300 else float(text)


def compact(value: Value) -> str:
    """The value as JSON without blanks, with numbers as Java writes them."""
    if isinstance(value, Whole):
        return str(int(value))
    if isinstance(value, Decimal):
        return java_double(float(value))
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{_quoted(name)}:{compact(each)}" for name, each in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(compact, value)) + "]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def java_double(value: float) -> str:
    """A double as Java's `Double.toString`; in quotes if it is not finite, as Spark writes it."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = format(value, "f") if "e" in repr(value) else repr(value)
        return text if "." in text else f"{text}.0"
    mantissa, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        digits, _, fraction = mantissa.lstrip("-").partition(".")
        if digits != "0":
            exponent = str(len(digits) - 1)
            shown = (digits + fraction).rstrip("0")
        else:
            shown = fraction.lstrip("0")
            exponent = str(len(shown) - len(fraction) - 1)
        mantissa = ("-" if value < 0 else "") + shown[0] + "." + (shown[1:] or "0")
    elif "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"


def _checked(value: Value) -> Value:
    if isinstance(value, Whole | Decimal) and len(value) > _NUMBER_CHARS_MAX:
        raise ValueError("a number is too long")
    inner: list[Any] = list(value) if isinstance(value, list) else []
    for each in inner:
        _checked(each[1] if isinstance(value, Pairs) else each)
    return value


def _standard(found: re.Match[str]) -> str:
    """The same token in standard JSON."""
    if found["single"]:
        return '"' + found["single"][1:-1].replace('"', '\\"') + '"'
    if found["plus"]:
        return "Infinity"
    return "-Infinity" if found["minus"] else found[0]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
