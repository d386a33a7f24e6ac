"""Text form of the offsets that a page has not read yet, for links and for streams that continue. Pure.

100,7;0:5-20,1:0-9     100 offsets in total, 7 records found so far; partition 0 from 5 to 20, partition 1 from 0 to 9
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ottla.admin.records.browse import OffsetRange
from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition

TEXT_MAX = 100_000
_HEAD = re.compile(r"(\d{1,19}),(\d{1,19})")
_RANGE = re.compile(r"(\d{1,10}):(\d{1,19})-(\d{1,19})")


class Cursor(NamedTuple):
    """What is left to read of one topic."""

    total: int
    found: int
    ranges: dict[TopicPartition, OffsetRange]

    @property
    def left(self) -> int:
        return sum(each.length for each in self.ranges.values())

    def text(self) -> str:
        parts = [f"{tp.partition}:{each.start}-{each.end}" for tp, each in self.ranges.items()]
        return f"{self.total},{self.found};{','.join(parts)}"


def cursor_of(topic: str, text: str) -> Cursor:
    """Parse the text form. Raises LocalError: the text is part of an address that anyone can write."""
    head, _, rest = text[:TEXT_MAX].partition(";")
    numbers = _HEAD.fullmatch(head)
    if numbers is None or len(text) > TEXT_MAX:
        raise LocalError("the position of the page cannot be read")
    ranges = {}
    for part in filter(None, rest.split(",")):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise LocalError("the position of the page cannot be read")
        partition, start, end = map(int, found.groups())
        ranges[TopicPartition(topic, partition)] = OffsetRange(start, end)
    return Cursor(int(numbers[1]), int(numbers[2]), ranges)


def unread(total: int, found: int, ranges: Mapping[TopicPartition, OffsetRange]) -> Cursor:
    """A cursor without the partitions that were read to their end."""
    return Cursor(total, found, {tp: each for tp, each in ranges.items() if each.length})
