"""The progress of a query: its start is kept, limits hold, data loss is reported, the group follows."""

from __future__ import annotations

import pytest

from ottla.base.ids import TopicPartition
from ottla.spark.source.offset_lookup import OffsetLookup
from ottla.spark.source.offsets import Offsets
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.range_reader import DataLoss
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.stream_progress import StreamProgress
from tests.support.fake_cluster import FakeClock, FakeCluster, FakeLog

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Query:
    """A stream over topic a of a fake cluster."""

    def __init__(self, cluster: FakeCluster | None = None, **more: str) -> None:
        self.cluster = cluster or FakeCluster(a=1)
        self.clock = FakeClock()
        self.committed: list[Offsets] = []
        choice = {} if {"subscribe", "subscribePattern"} & set(more) else {"subscribe": "a"}
        given = {"kafka.bootstrap.servers": "x", "fetchOffset.retryIntervalMs": "0", **choice, **more}
        options = SourceOptions.parse(given, streaming=True)
        self.waits: list[float] = []
        positions = OffsetLookup(self.cluster, options, self.clock, self.waits.append)  # type: ignore[arg-type]
        self.progress = StreamProgress(
            positions, options, lambda done: self.committed.append(dict(done)), self.clock
        )

    def latest(self, start: Offsets, *, everything: bool = False) -> Offsets:
        return self.progress.latest(start, everything=everything)


def test_the_start_does_not_change() -> None:
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


def test_a_restarted_query_reads_at_once() -> None:
    query = Query()
    query.cluster.logs[A0].append(7)
    assert query.latest({A0: 2}) == {A0: 7}


def test_an_end_that_went_back_is_requested_again() -> None:
    """A new leader that has not caught up: no loss, and nothing is read twice."""
    query = Query()
    query.cluster.logs[A0].append(9)
    query.cluster.latest_answers = [2]
    assert query.latest({A0: 7}) == {A0: 9}


def test_offsets_per_trigger_are_limited() -> None:
    query = Query(FakeCluster(a=2), startingOffsets="earliest", maxOffsetsPerTrigger="4")
    query.cluster.logs[A0].append(30)
    query.cluster.logs[A1].append(10)
    assert query.latest({A0: 0, A1: 0}) == {A0: 3, A1: 1}
    assert query.progress.known_latest() == {A0: 30, A1: 10}


def test_few_offsets_wait_for_more_until_the_maximum_delay() -> None:
    query = Query(startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="1m")
    query.cluster.logs[A0].append(3)
    assert query.latest({A0: 0}) == {A0: 3}
    query.cluster.logs[A0].append(3)
    assert query.latest({A0: 3}) == {A0: 3}
    query.clock.seconds += 61
    assert query.latest({A0: 3}) == {A0: 6}
    query.cluster.logs[A0].append(3)
    assert query.latest({A0: 6}) == {A0: 6}, "the delay counts from the batch before"
    query.cluster.logs[A0].append(7)
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
    query.cluster.logs[A0].append(3)
    assert query.latest(start) == start == {A0: 3, A1: 0}
    query.progress.ranges(start, start)
    assert query.latest(start) == start


def test_available_now_reads_a_topic_that_was_created_again() -> None:
    query = Query(FakeCluster(a=2), startingOffsets="earliest")
    query.cluster.logs[A0].append(3)
    query.progress.stop_at_latest()
    start = {A0: 9, A1: 0, TopicPartition("a", 2): 4}
    end = query.latest(start)
    assert end == {A0: 3, A1: 0}
    with pytest.raises(DataLoss, match="do not exist any more: a-2"):
        query.progress.ranges(start, end)
    with pytest.raises(DataLoss, match="has moved back from 9 to 3"):
        query.progress.ranges({A0: 9, A1: 0}, end)


def begun(query: Query) -> Offsets:
    """The start of a new query, after the empty batch that keeps it."""
    start = query.progress.initial()
    assert query.latest(start) == start
    assert query.progress.ranges(start, start) == []
    return start


@pytest.mark.parametrize("place", ["earliest", "latest"])
def test_new_partitions_are_read_from_their_beginning(place: str) -> None:
    """Also when nothing was read before, so that the query still stands at its start."""
    query = Query(startingOffsets=place)
    start = begun(query)
    query.cluster.logs[A1] = FakeLog()
    query.cluster.logs[A1].append(4)
    end = query.latest(start)
    assert end == {A0: 0, A1: 4}
    assert query.progress.ranges(start, end) == [OffsetRange(A1, 0, 4)]


def test_topics_that_come_after_the_start_of_a_pattern_are_read() -> None:
    query = Query(FakeCluster(), subscribePattern="a", startingOffsets="latest")
    assert begun(query) == {}
    query.cluster.logs[A0] = FakeLog()
    query.cluster.logs[A0].append(4)
    assert query.progress.ranges({}, query.latest({})) == [OffsetRange(A0, 0, 4)]


def test_a_query_at_its_start_reports_data_loss() -> None:
    query = Query(FakeCluster(a=2), startingOffsets="latest")
    query.cluster.logs[A0].append(5)
    start = begun(query)
    query.cluster.logs[A0] = FakeLog()
    with pytest.raises(DataLoss, match="has moved back from 5 to 0"):
        query.progress.ranges(start, query.latest(start))
    query.cluster.logs[A0].append(5)
    del query.cluster.logs[A1]
    with pytest.raises(DataLoss, match="do not exist any more: a-1"):
        query.progress.ranges(start, query.latest(start))


def test_data_loss_is_reported() -> None:
    def losses(start: Offsets, end: Offsets, log_start: int = 0) -> str:
        query = Query(FakeCluster(a=2))
        query.cluster.logs[A1].start = log_start
        with pytest.raises(DataLoss) as raised:
            query.progress.ranges(start, end)
        return str(raised.value)

    assert "do not exist any more: a-1" in losses({A0: 1, A1: 1}, {A0: 1})
    assert "has moved back from 5 to 2" in losses({A0: 5}, {A0: 2})
    assert "a-1 begins at offset 3 instead of 0" in losses({A0: 1}, {A0: 1, A1: 9}, 3)


def test_a_new_partition_loses_nothing_behind_its_end() -> None:
    """It was empty when its end was kept; what came later and is gone belongs to a later batch."""
    query = Query(FakeCluster(a=2))
    query.cluster.logs[A1].start = 3
    assert query.progress.ranges({A0: 1}, {A0: 1, A1: 0}) == []


def test_losses_that_are_allowed_never_go_back() -> None:
    query = Query(FakeCluster(a=2), failOnDataLoss="false")
    query.cluster.logs[A1].start = 3
    assert query.progress.ranges({A0: 5}, {A0: 2, A1: 9}) == [OffsetRange(A1, 3, 9)]


@pytest.mark.parametrize("choice", [{"subscribe": "a,b"}, {"subscribePattern": "."}])
def test_a_new_topic_that_was_deleted(choice: dict[str, str]) -> None:
    """The end is in the checkpoint, the topic is deleted: it is reported, or skipped from then on."""
    cluster = FakeCluster(a=1, b=1)
    cluster.delete("b")
    cluster.logs[A0].append(3)
    end = {A0: 3, B0: 7}
    with pytest.raises(DataLoss, match="new partitions that do not exist any more: b-0"):
        Query(cluster, **choice).progress.ranges({A0: 1}, end)
    query = Query(cluster, failOnDataLoss="false", **choice)
    assert query.progress.ranges({A0: 1}, end) == [OffsetRange(A0, 1, 3)]
    assert query.latest(end) == {A0: 3}


@pytest.mark.parametrize("limit", [{}, {"maxOffsetsPerTrigger": "5"}])
def test_a_topic_that_is_deleted_during_the_lookup_of_its_offsets(limit: dict[str, str]) -> None:
    def query(**more: str) -> Query:
        made = Query(FakeCluster(a=1, b=1), subscribePattern=".", startingOffsets="earliest", **limit, **more)
        made.cluster.deleted_when_listed = {"b"}
        return made

    start = {A0: 0, B0: 4}
    failing = query()
    with pytest.raises(DataLoss, match="do not exist any more: b-0"):
        failing.progress.ranges(start, failing.latest(start))
    lax = query(failOnDataLoss="false")
    lax.cluster.logs[A0].append(3)
    assert lax.progress.ranges(start, lax.latest(start)) == [OffsetRange(A0, 0, 3)]


def test_available_now_on_deleted_topics() -> None:
    query = Query(failOnDataLoss="false")
    query.cluster.delete("a")
    query.progress.stop_at_latest()
    assert query.latest({A0: 4}) == {A0: 4}


@pytest.mark.parametrize("choice", [{"subscribe": "a,b"}, {"subscribePattern": "."}])
def test_one_response_that_lacks_a_topic_changes_nothing(choice: dict[str, str]) -> None:
    query = Query(FakeCluster(a=1, b=1), failOnDataLoss="false", **choice)
    query.cluster.logs[B0].append(9)
    query.cluster.hidden = {"b": 5}
    assert query.latest({A0: 0, B0: 4}) == {A0: 0, B0: 9}
    assert len(query.waits) == 5


def test_a_query_without_topics_does_not_advance() -> None:
    """It would begin anew if it went on from nothing."""
    query = Query(failOnDataLoss="false")
    query.cluster.logs[A0].append(9)
    query.cluster.hidden = {"a": 50}
    assert query.latest({A0: 4}) == {A0: 4}
    query.cluster.hidden = {}
    assert query.latest({A0: 4}) == {A0: 9}
    failing = Query()
    failing.cluster.delete("a")
    with pytest.raises(DataLoss, match="do not exist any more: a-0"):
        failing.latest({A0: 4})


def test_completed_offsets_are_committed_to_the_group() -> None:
    query = Query(startingOffsets="earliest")
    query.cluster.logs[A0].append(3)
    query.latest({A0: 0})
    query.latest({A0: 3})
    assert query.committed == [{A0: 0}, {A0: 3}]
