"""Offsets of a query in Spark's JSON format, and the starting and ending offsets that users specify.

An offset of a query is a map from topic-partition to the next offset to read. In checkpoints and in options it is the
JSON of Spark's Kafka connector, sorted, so that equal offsets have equal texts:

    {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}         -1 latest and -2 earliest, in options only

The JSON in options is parsed strictly: numbers in quotes and names with blanks are rejected, as the JVM connector does.

An `OffsetSpec` is a start or an end as the user has specified it, before it is resolved by the cluster. No I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2

Offsets = dict[TopicPartition, int]
OffsetJson = dict[str, dict[str, int]]
"""`Offsets` as nested dicts, as in Spark's API."""

_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_ASSIGN_EXAMPLE = '{"topicA":[0,1],"topicB":[0,1]}'
_PARTITION_MAX: Final = (1 << 31) - 1
_NUMBER_MAX: Final = (1 << 63) - 1
_UNITS_MS: Final = {
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_DIGITS = re.compile(r"[0-9]{1,10}")
_RELATIVE = re.compile(r"-\s*(\d+)\s*([a-z]*)")


@dataclass(frozen=True)
class Earliest:
    """The first available offset."""


@dataclass(frozen=True)
class Latest:
    """The offset of the next record that will be appended."""


@dataclass(frozen=True)
class Committed:
    """The committed offset of the consumer group; earliest for partitions without one."""


@dataclass(frozen=True)
class Specific:
    """For each partition an offset, LATEST or EARLIEST."""

    offsets: Offsets


@dataclass(frozen=True)
class AtTime:
    """The first record at or after a time, the same for all partitions."""

    timestamp_ms: int


@dataclass(frozen=True)
class AtTimes:
    """The first record at or after a time, for each partition."""

    timestamps_ms: Offsets


@dataclass(frozen=True)
class TimeBack:
    """The first record at or after the current time minus a duration."""

    span_ms: int


@dataclass(frozen=True)
class RecordsBack:
    """A number of offsets before the latest one."""

    count: int


OffsetSpec = Earliest | Latest | Committed | Specific | AtTime | AtTimes | TimeBack | RecordsBack


def is_moving(spec: OffsetSpec) -> bool:
    """Whether it may resolve to a later offset at a later time although nothing was deleted."""
    if isinstance(spec, Specific):
        return LATEST in spec.offsets.values()
    return not isinstance(spec, Earliest)


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetJson:
    """Nested dicts sorted by topic and partition, as the JVM connector writes them."""
    result: OffsetJson = {}
    for topic, partition in sorted(offsets):
        result.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return result


def from_json(tree: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The inverse of `to_json`."""
    return {
        TopicPartition(topic, int(number)): int(offset)
        for topic, numbers in tree.items()
        for number, offset in numbers.items()
    }


def parse_offsets(option: str, text: str, example: str = _EXAMPLE) -> Offsets:
    """Parse JSON with offsets or times per topic and partition; negative are only LATEST and EARLIEST."""
    try:
        offsets = {
            TopicPartition(topic, _partition_named(name)): _whole(number, _NUMBER_MAX)
            for topic, numbers in _json_object(json.loads(text)).items()
            for name, number in _json_object(numbers).items()
        }
    except (ValueError, TypeError) as error:
        raise LocalError(f"option {option}: expected JSON such as {example}, got {text}") from error
    for partition, number in offsets.items():
        if number < EARLIEST:
            raise LocalError(
                f"option {option}: invalid offset {number} of {partition}; negative values can only be {LATEST} "
                f"(latest) and {EARLIEST} (earliest)"
            )
    return offsets


def parse_assignment(text: str) -> list[TopicPartition]:
    """Parse the option `assign`: {"topic":[0,1]}; duplicates are removed."""
    try:
        named = [
            TopicPartition(topic, _whole(number, _PARTITION_MAX, least=0))
            for topic, numbers in _json_object(json.loads(text)).items()
            for number in _json_list(numbers)
        ]
    except (ValueError, TypeError) as error:
        raise LocalError(f"option assign: expected JSON such as {_ASSIGN_EXAMPLE}, got {text}") from error
    if not named:
        raise LocalError(f"option assign has no partition: {text}")
    return list(dict.fromkeys(named))


def _json_object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError(value)
    return value


def _json_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(value)
    return value


def _partition_named(name: str) -> int:
    if not _DIGITS.fullmatch(name):
        raise ValueError(name)
    return _whole(int(name), _PARTITION_MAX)


def _whole(value: object, most: int, least: int = -_NUMBER_MAX) -> int:
    """A JSON number without a fraction: 2.0 is valid, true is not."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(value)
    return value


def parse_offset_spec(option: str, text: str) -> OffsetSpec:
    """Parse `startingOffsets` or `endingOffsets`; `options` checks which values are allowed."""
    plain = text.strip().lower()
    if plain == "latest":
        return Latest()
    if plain == "earliest":
        return Earliest()
    if plain == "committed":
        return Committed()
    relative = _RELATIVE.fullmatch(plain)
    if relative is None:
        return Specific(parse_offsets(option, text))
    count, unit = int(relative[1]), relative[2].removesuffix("s")
    if unit in _UNITS_MS:
        return TimeBack(count * _UNITS_MS[unit])
    if unit:
        raise LocalError(f"option {option}: unknown unit {relative[2]!r}; use one of {', '.join(_UNITS_MS)}")
    if count <= 2:
        # In JSON these values mean latest and earliest, so the intention is unclear.
        raise LocalError(
            f"option {option}: {text} is ambiguous; use latest, earliest, or go back at least 3 records"
        )
    return RecordsBack(count)
