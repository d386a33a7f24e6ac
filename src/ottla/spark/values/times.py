"""Dates and timestamps in text, parsed as Spark's casts and `from_json` do. Pure, except for the date of today.

A timestamp has up to nine parts, `[+-]y…-m-d[T ]h:m:s.f` with an optional time zone; all after the year are optional.
Without a zone it is in the time zone of the session. A time without a date is today. A local time in the gap of a
change to summer time is shifted forward; of two equal local times at the end of summer time the first one is used.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

MICROS: Final = 1_000_000
_DAY_S: Final = 86_400
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097
_SPACE: Final = "".join(map(chr, range(33))) + "\x7f"
_LONG_MAX: Final = (1 << 63) - 1
_OFFSET_S_MAX: Final = 18 * 3600

_DATE: Final = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_DAYS: Final = re.compile(r"[+-]?\d{1,10}", re.ASCII)
_TIMESTAMP: Final = re.compile(
    r"(?:([+-]?)(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(.*))?)?)?)?)?"
    r"|T?(\d{1,2}):(\d{1,2})(?::(\d{1,2})(.*))?|T(\d{1,2}))",
    re.ASCII | re.DOTALL,
)
_REST: Final = re.compile(r"(?:\.(\d*))?(.*)", re.ASCII | re.DOTALL)
_OFFSET: Final = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(\d{1,2})|(\d{1,2}):(\d{1,2})(?::(\d\d))?|(\d\d)(\d\d)(\d\d)?)", re.ASCII
)
_SHORT_IDS: Final = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""Java's abbreviations."""
_SYSTEM_ZONE: Final = Path("/etc/localtime")
_ZONES: Final = "zoneinfo/"


class Zone(NamedTuple):
    """A time zone: a fixed offset from UTC in seconds, or a region."""

    offset_s: int
    region: ZoneInfo | None = None


UTC: Final = Zone(0)


def parse_zone(text: str) -> Zone | None:
    """The zone of an id as Java accepts it; None if there is no such zone."""
    text = _SHORT_IDS.get(text, text)
    if text in {"Z", "UTC", "GMT", "UT"}:
        return UTC
    found = _OFFSET.fullmatch(text)
    if found is not None:
        sign, *parts = found.groups()
        hours, minutes, seconds = parts[0] or parts[1] or parts[4], parts[2] or parts[5], parts[3] or parts[6]
        offset = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
        wrong = offset > _OFFSET_S_MAX or int(minutes or 0) > 59 or int(seconds or 0) > 59
        return None if wrong else Zone(-offset if sign == "-" else offset)
    try:
        return Zone(0, ZoneInfo(text))
    except (KeyError, ValueError, OSError):  # not found, or not a name
        return None


def machine_zone() -> str:
    """The name of the time zone of this machine, as Java determines it; UTC if it is unknown."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if not name:
        name = str(_SYSTEM_ZONE.resolve()).partition(_ZONES)[2]
    return name if name and parse_zone(name) is not None else "UTC"


def parse_date(text: str) -> int | None:
    """The days since 1970 of a date, or of a number of days; None if the text is neither."""
    found = _DATE.fullmatch(text.strip(_SPACE))
    if found is not None:
        days = _days(found[1], found[2], found[3], found[4])
        if days is not None:
            return days
    if _DAYS.fullmatch(text) and -(1 << 31) <= int(text) < 1 << 31:
        return int(text)
    return None


def parse_timestamp(text: str, zone: Callable[[], Zone]) -> int | None:
    """The microseconds since 1970; `zone` is called for a text without a zone. None if it is not a timestamp."""
    parsed = _parse(text)
    if parsed is None:
        parsed = _parse(text.replace("GMT", ""))
    if parsed is None:
        return None
    days, micros, name = parsed
    chosen = parse_zone(name) if name else zone()
    if chosen is None:
        return None
    if days is None:
        days = _today(chosen)
    return _bounded(instant(days * _DAY_S * MICROS + micros, chosen))


def parse_local_timestamp(text: str) -> int | None:
    """The microseconds since 1970 of a date and time without a zone; None if the text is something else."""
    parsed = _parse(text)
    if parsed is None or parsed[0] is None or parsed[2]:
        return None
    return _bounded(parsed[0] * _DAY_S * MICROS + parsed[1])


def instant(local_micros: int, zone: Zone) -> int:
    """The instant of a local time, both in microseconds since 1970."""
    if zone.region is None:
        return local_micros - zone.offset_s * MICROS
    day, second = divmod(local_micros // MICROS, _DAY_S)
    ordinal = day + _EPOCH
    if ordinal < 1:
        ordinal = 1
    elif ordinal > _LAST_DAY:  # the rules for the future repeat with the calendar
        ordinal = (ordinal - _LAST_DAY) % _CYCLE_DAYS + _LAST_DAY - _CYCLE_DAYS
    local = datetime.datetime.combine(
        datetime.date.fromordinal(ordinal), datetime.time(second // 3600, second // 60 % 60, second % 60)
    )
    offset = zone.region.utcoffset(local)
    return local_micros - (0 if offset is None else offset // datetime.timedelta(microseconds=1))


_LAST_DAY: Final = datetime.date(9999, 1, 1).toordinal()


def _parse(text: str) -> tuple[int | None, int, str] | None:
    """Days since 1970 (None for a time alone), microseconds of the day, and the name of the zone or ""."""
    found = _TIMESTAMP.fullmatch(text.strip(_SPACE))
    if found is None:
        return None
    sign, year, month, day, *dated = found.groups()[:8]
    timed = found.groups()[8:12]
    alone = found[13]
    hour, minute, second, rest = (
        dated if year is not None else timed if alone is None else (alone, None, None, None)
    )
    days = None if year is None else _days(sign, year, month, day)
    micros = _micros(hour, minute, second)
    if (year is not None and days is None) or micros is None:
        return None
    after = _REST.fullmatch(rest or "")
    fraction, name = after.groups() if after is not None else (None, "")
    micros += int((fraction or "").ljust(6, "0")[:6])
    return days, micros, name.strip(_SPACE) or ("" if not name else "?")


def _days(sign: str | None, year: str, month: str | None, day: str | None) -> int | None:
    """Days since 1970 in the proleptic Gregorian calendar; None if there is no such day."""
    number = -int(year) if sign == "-" else int(year)
    cycles = number // _CYCLE_YEARS - 5
    try:
        found = datetime.date(number - cycles * _CYCLE_YEARS, int(month or 1), int(day or 1))
    except ValueError:
        return None
    return found.toordinal() - _EPOCH + cycles * _CYCLE_DAYS


def _micros(hour: str | None, minute: str | None, second: str | None) -> int | None:
    """Microseconds of the day; None if there is no such time."""
    hours, minutes, seconds = (int(part or 0) for part in (hour, minute, second))
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    return ((hours * 60 + minutes) * 60 + seconds) * MICROS


def _today(zone: Zone) -> int:
    fixed = datetime.timezone(datetime.timedelta(seconds=zone.offset_s))
    return datetime.datetime.now(zone.region or fixed).date().toordinal() - _EPOCH


def _bounded(micros: int) -> int | None:
    return micros if -_LONG_MAX - 1 <= micros <= _LONG_MAX else None
