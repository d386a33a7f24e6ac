"""A query's progress: its start is kept, limits hold, losses are told, the group follows."""

from __future__ import annotations

import pytest

from ottla.base.ids import TopicPartition
from ottla.spark.offsets import Offsets
from ottla.spark.options import SourceOptions
from ottla.spark.plan import OffsetRange
from ottla.spark.positions import Positions
from ottla.spark.reader import DataLoss
from ottla.spark.streaming import StreamProgress
from tests.support.fake_cluster import FakeCluster, FakeLog

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class _Clock:
    seconds = 100.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


class Query:
    """A stream over topic a of a fake cluster."""

    def __init__(self, cluster: FakeCluster | None = None, **more: str) -> None:
        self.cluster = cluster or FakeCluster(a=1)
        self.clock = _Clock()
        self.committed: list[Offsets] = []
        choice = {} if "subscribePattern" in more else {"subscribe": "a"}
        given = {"kafka.bootstrap.servers": "x", "fetchOffset.retryIntervalMs": "0", **choice, **more}
        options = SourceOptions.parse(given, streaming=True)
        positions = Positions(self.cluster, options, self.clock)  # type: ignore[arg-type]
        self.progress = StreamProgress(
            positions, options, lambda done: self.committed.append(dict(done)), self.clock
        )

    def latest(self, start: Offsets, *, everything: bool = False) -> Offsets:
        return self.progress.latest(start, everything=everything)


def test_the_start_is_the_same_however_often_it_is_asked() -> None:
    query = Query()
    query.cluster.logs[A0].append(5)
    assert query.progress.initial() == {A0: 5}
    query.cluster.logs[A0].append(5)
    assert query.progress.initial() == {A0: 5}


def test_a_start_that_moves_is_kept_by_an_empty_first_batch() -> None:
    query = Query()
    query.cluster.logs[A0].append(5)
    start = query.progress.initial()
    query.cluster.logs[A0].append(5)
    assert query.latest(start) == start
    assert query.progress.ranges(start, start) == []
    assert query.latest(start) == {A0: 10}
    assert query.progress.ranges(start, {A0: 10}) == [OffsetRange(A0, 5, 10)]


def test_a_replayed_first_batch_is_as_empty_as_it_was() -> None:
    query = Query(FakeCluster(a=2))
    query.cluster.logs[A0].append(9)
    again = query.progress.initial()
    assert again == {A0: 9, A1: 0}
    assert query.progress.ranges(again, {A0: 5}) == []
    assert query.latest({A0: 5}) == {A0: 9, A1: 0}


def test_a_start_that_stands_needs_no_empty_batch() -> None:
    query = Query(startingOffsets="earliest")
    query.cluster.logs[A0].append(5)
    assert query.latest(query.progress.initial()) == {A0: 5}


def test_once_reads_everything_in_its_only_batch() -> None:
    query = Query(startingOffsets="-3", maxOffsetsPerTrigger="2")
    query.cluster.logs[A0].append(10)
    start = query.progress.initial()
    assert query.latest(start, everything=True) == {A0: 10}


def test_a_query_that_goes_on_reads_at_once() -> None:
    query = Query()
    query.cluster.logs[A0].append(7)
    assert query.latest({A0: 2}) == {A0: 7}


def test_offsets_per_trigger_are_limited() -> None:
    query = Query(FakeCluster(a=2), startingOffsets="earliest", maxOffsetsPerTrigger="4")
    query.cluster.logs[A0].append(30)
    query.cluster.logs[A1].append(10)
    assert query.latest({A0: 0, A1: 0}) == {A0: 3, A1: 1}
    assert query.progress.known_latest() == {A0: 30, A1: 10}


def test_little_waits_for_more_but_not_for_ever() -> None:
    query = Query(startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="1m")
    query.cluster.logs[A0].append(3)
    assert query.latest({A0: 0}) == {A0: 3}
    query.cluster.logs[A0].append(3)
    assert query.latest({A0: 3}) == {A0: 3}
    query.clock.seconds += 61
    assert query.latest({A0: 3}) == {A0: 6}
    query.cluster.logs[A0].append(10)
    assert query.latest({A0: 6}) == {A0: 16}


def test_available_now_ends_where_the_topic_ended() -> None:
    query = Query(startingOffsets="earliest", minOffsetsPerTrigger="100", maxOffsetsPerTrigger="100")
    query.cluster.logs[A0].append(3)
    query.progress.stop_at_latest()
    query.cluster.logs[A0].append(3)
    assert query.latest({A0: 0}) == {A0: 3}
    assert query.latest({A0: 3}) == {A0: 3}


def test_available_now_ends_although_the_query_starts_after_its_target() -> None:
    query = Query(FakeCluster(a=1), startingOffsets="latest")
    query.progress.stop_at_latest()
    query.cluster.logs[A0].append(3)
    query.cluster.logs[A1] = FakeLog()
    start = query.progress.initial()
    assert query.latest(start) == start == {A0: 3, A1: 0}
    query.progress.ranges(start, start)
    assert query.latest(start) == start


def test_available_now_sees_a_topic_that_was_made_anew() -> None:
    query = Query(FakeCluster(a=2), startingOffsets="earliest")
    query.cluster.logs[A0].append(3)
    query.progress.stop_at_latest()
    start = {A0: 9, A1: 0, TopicPartition("a", 2): 4}
    end = query.latest(start)
    assert end == {A0: 3, A1: 0}
    with pytest.raises(DataLoss, match="a-2 are gone"):
        query.progress.ranges(start, end)
    with pytest.raises(DataLoss, match="went back from 9 to 3"):
        query.progress.ranges({A0: 9, A1: 0}, end)


def test_new_partitions_are_read_from_their_beginning() -> None:
    query = Query(startingOffsets="latest")
    query.cluster.logs[A0].append(3)
    query.cluster.logs[A1] = FakeLog()
    query.cluster.logs[A1].append(4)
    end = query.latest({A0: 3})
    assert end == {A0: 3, A1: 4}
    assert query.progress.ranges({A0: 3}, end) == [OffsetRange(A1, 0, 4)]


def test_losses_are_told() -> None:
    def losses(start: Offsets, end: Offsets, log_start: int = 0) -> str:
        query = Query(FakeCluster(a=2))
        query.cluster.logs[A1].start = log_start
        with pytest.raises(DataLoss) as told:
            query.progress.ranges(start, end)
        return str(told.value)

    assert "a-1 are gone" in losses({A0: 1, A1: 1}, {A0: 1})
    assert "went back from 5 to 2" in losses({A0: 5}, {A0: 2})
    assert "a-1 begins at offset 3 instead of 0" in losses({A0: 1}, {A0: 1, A1: 9}, 3)


def test_losses_that_are_allowed_never_go_back() -> None:
    query = Query(FakeCluster(a=2), failOnDataLoss="false")
    query.cluster.logs[A1].start = 3
    assert query.progress.ranges({A0: 5}, {A0: 2, A1: 9}) == [OffsetRange(A1, 3, 9)]


def test_the_group_is_told_what_is_done() -> None:
    query = Query(startingOffsets="earliest")
    query.cluster.logs[A0].append(3)
    query.latest({A0: 0})
    query.latest({A0: 3})
    assert query.committed == [{A0: 0}, {A0: 3}]
