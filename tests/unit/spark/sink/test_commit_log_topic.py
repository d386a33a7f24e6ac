"""A commit log whose topic misbehaves."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.client.raw import LATEST, ClientSettings, Cluster, OffsetOutOfRange, TimedOut
from ottla.client.raw.retry import Retry
from ottla.spark.sink import commit_log_topic
from ottla.spark.sink.commit_log import CommitEntry, CommitLogDamaged, State
from ottla.spark.sink.commit_log_topic import PARTITIONS, TopicCommitLog
from tests.support.fake_cluster import FakeClock

SETTINGS = ClientSettings.from_options({"bootstrap.servers": "h:1"})


class CommitLogCluster:
    """A topic with a given end offset, whose records cannot be fetched."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.settings = SETTINGS
        self.end = 0
        self.looks = 0
        self.fetches = 0

    def retry(self, what: str) -> Retry:
        return Retry(what, SETTINGS, self.clock, self._pass_time)

    def _pass_time(self, seconds: float) -> None:
        self.clock.seconds += seconds

    def topics(self, names: list[str]) -> dict[str, object]:
        return dict.fromkeys(names)

    def topic(self, _: str, *, wait: bool) -> Any:
        class Topic:
            partitions = range(PARTITIONS)

        return Topic

    def list_offsets(self, asked: dict[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        self.looks += 1
        return {tp: (self.end if place == LATEST else 0, 0) for tp, place in asked.items()}

    def fetch(self, tp: TopicPartition, position: int, *, committed: bool) -> None:
        self.fetches += 1
        raise OffsetOutOfRange(f"reading {tp} at {position}", ErrorCode.OFFSET_OUT_OF_RANGE)


@pytest.fixture
def cluster() -> CommitLogCluster:
    return CommitLogCluster()


@pytest.fixture
def commit_log(cluster: CommitLogCluster) -> TopicCommitLog:
    return TopicCommitLog(cast(Cluster, cluster), "commit_log", "query", "run")


def test_a_commit_log_that_cannot_be_read_is_reported_after_the_timeout(
    cluster: CommitLogCluster, commit_log: TopicCommitLog
) -> None:
    cluster.end = 5
    with pytest.raises(TimedOut, match="reading the commit log"):
        commit_log.entry()
    assert 2 < cluster.fetches < 1000


def test_a_commit_log_that_was_truncated_is_damaged(
    cluster: CommitLogCluster, commit_log: TopicCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    producers = Producers(monkeypatch)
    assert commit_log.entry() is None
    commit_log.record(CommitEntry(0, State.DONE))
    assert producers.made == 1
    cluster.end = 0
    with pytest.raises(CommitLogDamaged, match="ends at offset 0, but was read up to 1 before"):
        commit_log.entry()


class Producers:
    """Fake producers that store one record after the other, and fail while `is_failing`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        self.stored = 0
        self.closed = 0
        self.is_failing = False
        monkeypatch.setattr(commit_log_topic, "RawProducer", self._make)

    def _make(self, _: Cluster) -> Any:
        self.made += 1
        return self

    def init(self) -> None: ...

    def send(self, _: TopicPartition, batches: list[bytearray]) -> None:
        self.stored += len(batches)

    def flush(self) -> None:
        if self.is_failing:
            raise TimedOut("no broker responds")

    def close(self) -> None:
        self.closed += 1

    def last_offset(self, _: TopicPartition) -> int:
        return self.stored - 1


def test_a_producer_that_has_failed_is_not_used_again(
    cluster: CommitLogCluster, commit_log: TopicCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    producers = Producers(monkeypatch)
    assert commit_log.entry() is None
    commit_log.record(CommitEntry(0, State.PREPARED))
    commit_log.record(CommitEntry(0, State.DONE))
    assert producers.made == 1
    producers.is_failing = True
    with pytest.raises(TimedOut):
        commit_log.record(CommitEntry(1, State.PREPARED))
    assert producers.closed == 1
    producers.is_failing = False
    producers.stored -= 1
    commit_log.record(CommitEntry(1, State.PREPARED))
    assert producers.made == 2
    assert cluster.fetches == 0


def test_who_does_not_know_whether_its_record_is_there_looks(
    cluster: CommitLogCluster, commit_log: TopicCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    producers = Producers(monkeypatch)
    assert commit_log.expected(0) is None
    commit_log.record(CommitEntry(0, State.DONE))
    looks = cluster.looks
    assert commit_log.expected(1) == CommitEntry(0, State.DONE)
    assert cluster.looks == looks
    producers.is_failing = True
    with pytest.raises(TimedOut):
        commit_log.record(CommitEntry(1, State.PREPARED))
    cluster.end = producers.stored
    with pytest.raises(TimedOut, match="reading the commit log"):
        commit_log.expected(1)
