"""Offsets as Spark keeps them, and the places where reading may begin or end as users write them.

An offset of a query is a map from topic-partition to the next offset to read. In a checkpoint and in options it
is the JSON of Spark's Kafka connector, sorted, so that equal offsets are equal texts:

    {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}         -1 latest and -2 earliest, in options only

A user's JSON is read strictly: numbers in quotes and names with blanks are refused, as the JVM connector does.

A `OffsetSpec` says where to begin (or end) before the cluster was asked. Values only; nothing here does I/O.
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
"""`Offsets` as nested plain dicts, which is what Spark's API takes and gives."""

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
    """The first offset that is there."""


@dataclass(frozen=True)
class Latest:
    """The offset that the next record will get."""


@dataclass(frozen=True)
class Committed:
    """Where the consumer group stands; earliest where it has no offset."""


@dataclass(frozen=True)
class Specific:
    """An offset per partition, or LATEST or EARLIEST."""

    offsets: Offsets


@dataclass(frozen=True)
class AtTime:
    """The first record at or after a time, in all partitions."""

    timestamp_ms: int


@dataclass(frozen=True)
class AtTimes:
    """The first record at or after a time of the partition's own."""

    timestamps_ms: Offsets


@dataclass(frozen=True)
class TimeBack:
    """The first record at or after now minus a span."""

    span_ms: int


@dataclass(frozen=True)
class RecordsBack:
    """So many offsets before the latest."""

    count: int


OffsetSpec = Earliest | Latest | Committed | Specific | AtTime | AtTimes | TimeBack | RecordsBack


def is_moving(place: OffsetSpec) -> bool:
    """Whether asking again later may give a later offset although nothing was deleted."""
    if isinstance(place, Specific):
        return LATEST in place.offsets.values()
    return not isinstance(place, Earliest)


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetJson:
    """Sorted by topic and by number of the partition, as the JVM connector writes it."""
    result: OffsetJson = {}
    for topic, partition in sorted(offsets):
        result.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return result


def from_json(tree: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The inverse of `to_json`, for what Spark hands back."""
    return {
        TopicPartition(topic, int(number)): int(offset)
        for topic, numbers in tree.items()
        for number, offset in numbers.items()
    }


def parse_offsets(option: str, text: str, example: str = _EXAMPLE) -> Offsets:
    """A user's JSON of offsets, or of times, per topic and partition; below 0 are LATEST and EARLIEST only."""
    try:
        offsets = {
            TopicPartition(topic, _partition_named(name)): _whole(number, _NUMBER_MAX)
            for topic, numbers in _json_object(json.loads(text)).items()
            for name, number in _json_object(numbers).items()
        }
    except (ValueError, TypeError) as error:
        raise LocalError(f"option {option}: expected JSON like {example}, got {text}") from error
    for partition, number in offsets.items():
        if number < EARLIEST:
            raise LocalError(
                f"option {option}: {number} of {partition} is no place; below 0 only {LATEST} (latest) and "
                f"{EARLIEST} (earliest) have a meaning"
            )
    return offsets


def parse_assignment(text: str) -> list[TopicPartition]:
    """The option `assign`: {"topic":[0,1]}; who names a partition twice means it once."""
    try:
        named = [
            TopicPartition(topic, _whole(number, _PARTITION_MAX, least=0))
            for topic, numbers in _json_object(json.loads(text)).items()
            for number in _json_list(numbers)
        ]
    except (ValueError, TypeError) as error:
        raise LocalError(f"option assign: expected JSON like {_ASSIGN_EXAMPLE}, got {text}") from error
    if not named:
        raise LocalError(f"option assign: no partition is named in {text}")
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
    """A number of JSON without a fraction; 2.0 is one, true is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(value)
    return value


def parse_offset_spec(option: str, text: str) -> OffsetSpec:
    """A user's `startingOffsets` or `endingOffsets`; who may use which place is `options`' business."""
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
        raise LocalError(f"option {option}: {relative[2]!r} is no unit; use one of {', '.join(_UNITS_MS)}")
    if count <= 2:
        # Inside the JSON these mean latest and earliest: who writes them here means one of both, we cannot know which.
        raise LocalError(
            f"option {option}: {text} can be misunderstood; write latest, earliest or a larger step back"
        )
    return RecordsBack(count)
