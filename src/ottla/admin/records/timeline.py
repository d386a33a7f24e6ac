"""Volume of a topic over time, from ListOffsets by timestamp: no record is read.

The offset at each of N points in time gives the offsets between two points. Offsets are not records: transaction
markers and offsets that compaction removed count as well, so a picture of them is labelled offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ottla.admin.positions import Kind, LogBounds, Position, log_bounds, offset_of
from ottla.base.ids import TopicPartition
from ottla.client.raw import MAX_TIMESTAMP

if TYPE_CHECKING:
    from ottla.admin.records.browse import ReadSession
    from ottla.client.raw import Cluster

BUCKETS: Final = 60
BUCKETS_MAX: Final = 1000


@dataclass(frozen=True)
class Timeline:
    """Offsets of a topic by time, in buckets of equal duration."""

    topic: str
    start_ms: int
    end_ms: int
    """The first and the last timestamp; the last bucket includes it."""
    counts: tuple[int, ...]

    @property
    def bucket_ms(self) -> float:
        return (self.end_ms + 1 - self.start_ms) / len(self.counts) if self.counts else 0.0

    @property
    def edges_ms(self) -> list[int]:
        """The start of each bucket, and the end of the last one."""
        return edges(self.start_ms, self.end_ms, len(self.counts)) if self.counts else []


def edges(start_ms: int, end_ms: int, buckets: int) -> list[int]:
    """The points in time that divide the time from the start up to and including the end."""
    length = end_ms + 1 - start_ms
    return [start_ms + length * index // buckets for index in range(buckets + 1)]


def timeline(
    session: ReadSession,
    topic: str,
    buckets: int = BUCKETS,
    *,
    start_ms: int | None = None,
    end_ms: int | None = None,
) -> Timeline:
    """The volume between two times; by default between the first and the last timestamp of the topic.

    It has no buckets if the topic has no records. One request per bucket and leader is sent.
    """
    cluster = session.cluster
    partitions = [TopicPartition(topic, index) for index in sorted(cluster.topic(topic).partitions)]
    bounds = {tp: each for tp, each in log_bounds(cluster, partitions).items() if each.start < each.end}
    span = _span(cluster, bounds, start_ms, end_ms)
    if span is None:
        return Timeline(topic, start_ms or 0, end_ms or 0, ())
    start, end = span
    points = edges(start, end, max(1, min(buckets, BUCKETS_MAX, end + 1 - start)))
    totals = [_total_before(cluster, bounds, point) for point in points]
    counts = tuple(max(0, after - before) for before, after in pairwise(totals))
    return Timeline(topic, start, end, counts)


def _span(
    cluster: Cluster, bounds: Mapping[TopicPartition, LogBounds], start_ms: int | None, end_ms: int | None
) -> tuple[int, int] | None:
    """The first and the last timestamp, where they are not given; None without records."""
    if start_ms is None:
        # The first record with a timestamp. Records of one partition are nearly in the order of their timestamps.
        starts = [
            time for offset, time in cluster.list_offsets(dict.fromkeys(bounds, 0)).values() if offset >= 0
        ]
        start_ms = min(starts, default=None)
    if end_ms is None:
        ends = [
            time
            for offset, time in cluster.list_offsets(dict.fromkeys(bounds, MAX_TIMESTAMP)).values()
            if offset >= 0
        ]
        end_ms = max(ends, default=None)
    if start_ms is None or end_ms is None or end_ms < start_ms or not bounds:
        return None
    return start_ms, end_ms


def _total_before(cluster: Cluster, bounds: Mapping[TopicPartition, LogBounds], time_ms: int) -> int:
    """The offsets of all partitions before a point in time."""
    found = cluster.list_offsets(dict.fromkeys(bounds, time_ms))
    at_time = Position(Kind.TIME, time_ms)
    return sum(offset_of(at_time, tp, bounds[tp], offset) for tp, (offset, _) in found.items())
