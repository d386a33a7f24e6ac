"""The one syntax of positions in a partition, and their resolution to offsets.

    start, end      the first offset of the log; the offset after its last record
    42              that offset
    +5, -10         5 offsets after the start; 10 offsets before the end
    @TIME           the first record at or after a time; the end if no record is that recent
    A:B             from A up to, but not including, B; a missing A is the start, a missing B is the end

TIME is a date or a date with a time in ISO 8601 (`@2026-11-17`, `@2026-11-17T10:00`, UTC unless it has a zone such as
`Z` or `+02:00`), milliseconds since 1970 (`@1763373600000`), `@now`, or a duration before now (`@-1h`, `@-1h30m`). The
longest possible time is read: `@2026-11-17T10:00:30` is half a minute past ten, not a range up to offset 30.

Positions relative to the start or the end never leave the log. An absolute offset outside the log is an error, unless
the caller asks for the nearest one. Parsing and `offset_of` are pure; `resolve` sends ListOffsets requests.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import NamedTuple, Protocol

from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.client.raw.offsets import EARLIEST, LATEST, NO_OFFSET

OFFSET_MAX = 0x7FFF_FFFF_FFFF_FFFF
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhdw]))+"
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhdw])")
_ISO_DURATION = re.compile(
    r"P(?:([0-9]+)D)?(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?", re.ASCII
)
_DATE_TIME = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_POSITION = re.compile(
    rf"(?P<name>start|end)|(?P<sign>[+-]?)(?P<number>[0-9]{{1,20}})|@(?:(?P<now>now)|-(?P<ago>{_DURATION})"
    rf"|(?P<time>{_DATE_TIME})|(?P<epoch>[0-9]{{1,20}}))"
)
_FORMS = "start, end, 42, +5, -10, @2026-11-17T10:00, @-1h, or A:B"


class InvalidPosition(LocalError):
    """A text that is not a position, a range or a duration."""


class OffsetOutsideLog(LocalError):
    """An absolute offset that the partition does not have."""


class Kind(Enum):
    """What the number of a position means."""

    START = "start"
    """Offsets after the start of the log."""
    END = "end"
    """Offsets before the end of the log."""
    OFFSET = "offset"
    """An absolute offset."""
    TIME = "time"
    """Milliseconds since 1970."""
    AGO = "ago"
    """Milliseconds before now."""


class Position(NamedTuple):
    """A position that was not resolved yet; it may resolve to another offset in every partition."""

    kind: Kind
    number: int = 0

    def __str__(self) -> str:
        match self.kind:
            case Kind.START:
                return f"+{self.number}" if self.number else "start"
            case Kind.END:
                return f"-{self.number}" if self.number else "end"
            case Kind.OFFSET:
                return str(self.number)
            case Kind.TIME:
                return f"@{self.number}"
            case Kind.AGO:
                return f"@-{self.number}ms"

    def timestamp(self, now_ms: int) -> int | None:
        """The time that must be looked up to resolve the position; None if it needs none."""
        if self.kind is Kind.TIME:
            return self.number
        return max(0, now_ms - self.number) if self.kind is Kind.AGO else None


START = Position(Kind.START)
END = Position(Kind.END)


class PositionRange(NamedTuple):
    """From `start` up to, but not including, `end`."""

    start: Position
    end: Position

    def __str__(self) -> str:
        return f"{self.start}:{self.end}"


@dataclass(frozen=True)
class LogBounds:
    """The first offset of a log and the offset after its last record."""

    start: int
    end: int


class OffsetSource(Protocol):
    """What `resolve` needs from a cluster (`client.raw.Cluster`)."""

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], committed: bool = False
    ) -> dict[TopicPartition, tuple[int, int]]: ...


# --- syntax


def parse_position(text: str) -> Position:
    """Parse one position. Raise InvalidPosition."""
    given = text.strip()
    position, length = _position_at(given, 0)
    if position is None or length != len(given):
        raise InvalidPosition(f"{text!r} is not a position ({_FORMS.removesuffix(', or A:B')})")
    return position


def parse_range(text: str) -> PositionRange:
    """Parse `A:B`, `A:`, `:B` or `A`, which means `A:end`. Raise InvalidPosition."""
    given = text.strip()
    start, index = _position_at(given, 0)
    end: Position | None = END
    if given[index : index + 1] == ":":
        index += 1
        if index < len(given):
            end, index = _position_at(given, index)
    elif start is None:
        end = None
    if end is None or index != len(given):
        raise InvalidPosition(f"{text!r} is not a position or a range of positions ({_FORMS})")
    return PositionRange(start or START, end)


def parse_duration_ms(text: str) -> int:
    """Parse a duration such as `500ms`, `1.5s`, `1h30m`, `2d`, or Kafka's `PT1H30M`. Raise InvalidPosition."""
    given = text.strip()
    if re.fullmatch(_DURATION, given):
        return _limited(sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(given)))
    iso = _ISO_DURATION.fullmatch(given)
    if iso is not None and any(iso.groups()):
        return _limited(
            sum(
                float(number) * _UNITS_MS[unit]
                for number, unit in zip(iso.groups(), "dhms", strict=True)
                if number
            )
        )
    raise InvalidPosition(f"{text!r} is not a duration (500ms, 10s, 15m, 1h30m, 2d, 1w)")


def parse_time_ms(text: str) -> int:
    """Parse a date, a date with a time, or milliseconds since 1970, all without the `@`. Raise InvalidPosition."""
    given = text.strip()
    if re.fullmatch(r"[0-9]{1,20}", given):
        return _limited(int(given))
    if not re.fullmatch(_DATE_TIME, given):
        raise InvalidPosition(
            f"{text!r} is not a time (2026-11-17, 2026-11-17T10:00, 2026-11-17T10:00:30+02:00)"
        )
    try:
        time = datetime.fromisoformat(given)
    except ValueError as error:
        raise InvalidPosition(f"{text!r} is not a time: {error}") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    # Negative timestamps have other meanings in ListOffsets.
    return max(0, (time - _EPOCH) // timedelta(milliseconds=1))


def _position_at(text: str, index: int) -> tuple[Position | None, int]:
    """The longest position that starts at an index, and the index after it."""
    found = _POSITION.match(text, index)
    if found is None:
        return None, index
    return _position_of(found), found.end()


def _position_of(found: re.Match[str]) -> Position:
    if found["name"]:
        return START if found["name"] == "start" else END
    if found["number"]:
        kind = {"+": Kind.START, "-": Kind.END, "": Kind.OFFSET}[found["sign"]]
        return Position(kind, _limited(int(found["number"])))
    if found["now"]:
        return Position(Kind.AGO, 0)
    if found["ago"]:
        return Position(Kind.AGO, parse_duration_ms(found["ago"]))
    return Position(Kind.TIME, parse_time_ms(found["time"] or found["epoch"]))


def _limited(number: float) -> int:
    if number > OFFSET_MAX:
        raise InvalidPosition(f"{number:g} is too large: 64 bits are available")
    return int(number)


# --- resolution


def offset_of(
    position: Position,
    tp: TopicPartition,
    bounds: LogBounds,
    at_time: int | None = None,
    *,
    nearest: bool = False,
) -> int:
    """The offset of a position within the bounds of a log.

    `at_time` is the offset that ListOffsets returned for the time of the position; None or -1 if no record is that
    recent. With `nearest`, an absolute offset outside the log becomes its start or end; otherwise it raises
    OffsetOutsideLog.
    """
    match position.kind:
        case Kind.START:
            return min(bounds.start + position.number, bounds.end)
        case Kind.END:
            return max(bounds.end - position.number, bounds.start)
        case Kind.OFFSET:
            if not nearest and not bounds.start <= position.number <= bounds.end:
                raise OffsetOutsideLog(
                    f"{tp} has no offset {position.number}: its log starts at {bounds.start} and ends at {bounds.end}"
                )
            offset = position.number
        case Kind.TIME | Kind.AGO:
            offset = bounds.end if at_time is None or at_time == NO_OFFSET else at_time
    return min(max(offset, bounds.start), bounds.end)


def log_bounds(
    cluster: OffsetSource, partitions: Collection[TopicPartition], *, committed: bool = False
) -> dict[TopicPartition, LogBounds]:
    """The bounds of logs now. With `committed`, a log ends at its last stable offset."""
    # The start is requested first: if it moves meanwhile, the end is still not below it.
    starts = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST))
    ends = cluster.list_offsets(dict.fromkeys(partitions, LATEST), committed)
    return {tp: LogBounds(starts[tp][0], max(starts[tp][0], ends[tp][0])) for tp in partitions}


def resolve(
    cluster: OffsetSource,
    position: Position,
    bounds: Mapping[TopicPartition, LogBounds],
    now_ms: int,
    *,
    nearest: bool = False,
) -> dict[TopicPartition, int]:
    """The offsets of a position in all partitions of `bounds`. Raise OffsetOutsideLog as `offset_of`."""
    timestamp = position.timestamp(now_ms)
    found = {} if timestamp is None else cluster.list_offsets(dict.fromkeys(bounds, timestamp))
    return {
        tp: offset_of(position, tp, of_log, found[tp][0] if tp in found else None, nearest=nearest)
        for tp, of_log in bounds.items()
    }
