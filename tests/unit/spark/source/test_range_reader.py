"""What a task reads: its range, past gaps, and what is left of it after a loss."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.records import columns
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.range_reader import DataLoss, RangeReader
from ottla.spark.source.ranges import OffsetRange
from tests.support.fake_cluster import FakeClock, FakeCluster

A0 = TopicPartition("a", 0)


class _Builder:
    """Keeps offsets instead of making batches."""

    wanted = frozenset({"offset"})

    def build(self, decoded: columns.DecodedColumns) -> list[int]:
        return list(memoryview(decoded.offset or b"").cast("B").cast("q"))


def reader(
    cluster: FakeCluster, start: int, end: int, clock: FakeClock | None = None, **more: str
) -> RangeReader:
    """Each wait of it takes 0.6 s of the clock."""
    given = {"kafka.bootstrap.servers": "x", "subscribe": "a", "kafkaConsumer.pollTimeoutMs": "0", **more}
    options = SourceOptions.parse(given, streaming=True)
    maker: Any = _Builder()

    def wait(_: float) -> None:
        if clock is not None:
            clock.seconds += 0.6

    return RangeReader(cluster, options, maker, OffsetRange(A0, start, end), clock, wait)  # type: ignore[arg-type]


def read(cluster: FakeCluster, start: int, end: int, **more: str) -> list[int]:
    return [offset for batch in reader(cluster, start, end, **more).batches() for offset in batch]


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster(a=1)
    for _ in range(3):
        made.logs[A0].append(10)
    return made


def test_exactly_the_range_is_read(cluster: FakeCluster) -> None:
    assert read(cluster, 0, 30) == list(range(30))
    assert read(cluster, 7, 23) == list(range(7, 23))
    assert read(cluster, 5, 5) == []


def test_gaps_inside_the_log_are_no_loss(cluster: FakeCluster) -> None:
    del cluster.logs[A0].batches[10]
    assert read(cluster, 5, 25) == [*range(5, 10), *range(20, 25)]


def test_a_gap_up_to_the_end_is_no_loss(cluster: FakeCluster) -> None:
    cluster.logs[A0].compact(20)
    assert read(cluster, 5, 30) == list(range(5, 20))


def test_a_gap_across_the_end_is_no_loss(cluster: FakeCluster) -> None:
    del cluster.logs[A0].batches[10]
    assert read(cluster, 5, 15) == list(range(5, 10))
    assert read(cluster, 12, 20) == []


@pytest.mark.parametrize("start", [0, 10, 25])
def test_a_fetch_without_a_batch_is_repeated_until_the_poll_timeout(cluster: FakeCluster, start: int) -> None:
    cluster.empty_answers = 4
    assert read(cluster, start, 30, **{"kafkaConsumer.pollTimeoutMs": "60000"}) == list(range(start, 30))
    cluster.empty_answers = 4
    with pytest.raises(LocalError, match=f"no record of a-0 from offset {start} on"):
        read(cluster, start, 30)


def test_the_poll_timeout_restarts_with_each_record(cluster: FakeCluster) -> None:
    """Silence of 1.2 s before each batch, under a limit of 1.5 s."""
    patient = {"kafkaConsumer.pollTimeoutMs": "1500"}
    offsets: list[int] = []
    for batch in reader(cluster, 0, 30, FakeClock(), **patient).batches():
        offsets += batch
        cluster.empty_answers = 3
    assert offsets == list(range(30))


def test_what_retention_took_is_a_loss(cluster: FakeCluster) -> None:
    cluster.logs[A0].start = 12
    with pytest.raises(DataLoss, match="begins at offset 12, but offset 5 was planned"):
        read(cluster, 5, 25)
    assert read(cluster, 5, 25, failOnDataLoss="false") == list(range(12, 25))
    assert read(cluster, 5, 9, failOnDataLoss="false") == []


def test_a_log_that_was_cut_is_a_loss(cluster: FakeCluster) -> None:
    with pytest.raises(DataLoss, match="ends at offset 30, but offset 40 was planned"):
        read(cluster, 40, 50)
    assert read(cluster, 40, 50, failOnDataLoss="false") == []


def test_a_log_that_ends_too_early_is_a_loss(cluster: FakeCluster) -> None:
    with pytest.raises(DataLoss, match="ends at offset 30, but offset 34 was planned"):
        read(cluster, 20, 35)
    assert read(cluster, 20, 35, failOnDataLoss="false") == list(range(20, 30))


def test_a_log_that_was_cut_and_filled_again_is_a_loss(cluster: FakeCluster) -> None:
    """The offset is out of range when it is fetched, and in range when offsets are listed."""
    cluster.out_of_range_answers = 1
    with pytest.raises(DataLoss, match="offset 5 of a-0 was out of range"):
        read(cluster, 5, 25)
    cluster.out_of_range_answers = 1
    patient = {"failOnDataLoss": "false", "kafkaConsumer.pollTimeoutMs": "60000"}
    assert read(cluster, 5, 25, **patient) == list(range(5, 25))


def test_a_topic_that_is_deleted_during_the_lookup_of_its_ends_is_a_loss(cluster: FakeCluster) -> None:
    cluster.logs[A0].start = 12
    cluster.deleted_when_listed = {"a"}
    with pytest.raises(DataLoss, match="a-0 does not exist any more"):
        read(cluster, 5, 25)
    assert read(cluster, 5, 25, failOnDataLoss="false") == []


def test_a_deleted_topic_is_a_loss(cluster: FakeCluster) -> None:
    cluster.logs.clear()
    with pytest.raises(DataLoss, match="a-0 does not exist any more"):
        read(cluster, 0, 5)
    assert read(cluster, 0, 5, failOnDataLoss="false") == []


def test_silence_ends_with_an_error(cluster: FakeCluster) -> None:
    log = cluster.logs[A0]
    log.batches.clear()
    with pytest.raises(LocalError, match="pollTimeoutMs"):
        read(cluster, 20, 31)


def test_one_response_may_contain_a_whole_range(cluster: FakeCluster) -> None:
    assert reader(cluster, 2, 9).in_one_fetch(10_000) == [list(range(2, 9))]
    assert reader(cluster, 10, 20).in_one_fetch(10_000) == [list(range(10, 20))]


def test_a_range_of_several_responses_is_not_prefetched(cluster: FakeCluster) -> None:
    assert reader(cluster, 5, 15).in_one_fetch(10_000) is None


def test_a_response_that_is_too_large_is_not_prefetched(cluster: FakeCluster) -> None:
    size = len(cluster.logs[A0].batches[0])
    assert reader(cluster, 0, 10).in_one_fetch(size) == [list(range(10))]
    assert reader(cluster, 0, 10).in_one_fetch(size - 1) is None


def test_a_response_without_a_batch_is_not_prefetched(cluster: FakeCluster) -> None:
    cluster.empty_answers = 1
    assert reader(cluster, 0, 10).in_one_fetch(10_000) is None


def test_a_range_without_records_is_prefetched(cluster: FakeCluster) -> None:
    cluster.logs[A0].compact(20)
    assert reader(cluster, 20, 30).in_one_fetch(10_000) == []
