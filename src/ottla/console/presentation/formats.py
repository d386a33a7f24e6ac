"""Numbers, times and hostile text as the pages show them. Pure."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime

NOTHING = "\u2013"
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Categories of characters that a reader cannot see or that change the order of others: shown as escapes."""
_SHOWN = frozenset("\n\t")


def number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """A rate with about three digits."""
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    if value < 10:
        return f"{value:.1f}"
    return f"{value:,.0f}"


def size(value: float | None) -> str:
    if value is None:
        return NOTHING
    amount = float(value)
    for unit in _UNITS:
        if amount < 1000 or unit == _UNITS[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    return NOTHING


def duration(seconds: float | None) -> str:
    """A duration in its two largest units."""
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return "0 s" if seconds <= 0 else f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    if hours < 24:
        return f"{hours} h {minutes % 60} min"
    return f"{days} d {hours % 24} h"


def clock(time_ms: int | None) -> str:
    """The time of day in UTC."""
    return NOTHING if time_ms is None or time_ms < 0 else f"{_utc(time_ms):%H:%M:%S}"


def moment(time_ms: int | None) -> str:
    """Date and time in UTC with milliseconds."""
    if time_ms is None or time_ms < 0:
        return NOTHING
    return f"{_utc(time_ms):%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d}"


def ago(time_ms: int | None, now_ms: int) -> str:
    if time_ms is None or time_ms < 0:
        return NOTHING
    return f"{duration(max(0, now_ms - time_ms) // 1000)} ago"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def visible(text: str) -> str:
    """Text in which characters that are invisible or change the direction are written as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each
        if each in _SHOWN or unicodedata.category(each) not in _HIDDEN
        else f"\\u{ord(each):04x}"
        if ord(each) <= 0xFFFF
        else f"\\U{ord(each):08x}"
        for each in text
    )


def _utc(time_ms: int) -> datetime:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC)
