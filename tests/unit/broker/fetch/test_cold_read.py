"""Fetches of records that are not in the page cache."""

from __future__ import annotations

import errno

import pytest

from ottla.base.errors import ErrorCode
from ottla.testing.disk import SimFile
from tests.support.replica_fetches import NOW_MS, Broker, Follower


@pytest.fixture(autouse=True)
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is in the page cache."""
    read = SimFile.pread_into

    def pread_into(file: SimFile, buffer: memoryview, position: int, *, wait: bool = True) -> int:
        return read(file, buffer, position) if wait else -1

    monkeypatch.setattr(SimFile, "pread_into", pread_into)


def cold_fetch(fetching: int) -> tuple[Broker, Follower]:
    """A fetch of two records that a worker thread is about to read."""
    broker = Broker()
    for _ in range(2):
        broker.append()
        broker.write()
    for replica_id in (2, 3):
        Follower(broker, replica_id).fetch({0: 2})
    client = Follower(broker, fetching, session=False)
    client.fetch({0: 0})
    assert client.waits
    return broker, client


def test_records_are_read_from_the_disk() -> None:
    broker, client = cold_fetch(2)
    broker.executor.step()
    assert client.received()[0].records


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("restart", [False, True])
def test_a_truncation_during_a_read_is_no_failure_of_the_disk(end: int, restart: bool) -> None:
    """As of a leader that another one has replaced while a follower was fetching from it."""
    broker, client = cold_fetch(2)
    (partition,) = broker.partitions
    partition.become(broker.image(leader=2, epoch=1, partition_epoch=1))
    log = partition.log
    job = log.take_restart(end, NOW_MS) if restart else log.take_truncation(end, NOW_MS)
    assert job is not None
    log.perform(job)
    broker.executor.step()
    assert client.received()[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.faults == []


def test_records_of_a_removed_segment_are_read() -> None:
    broker, client = cold_fetch(-1)
    for segment in broker.partitions[0].log.segments:
        segment.close()
    broker.executor.step()
    assert client.received()[0].records
    assert broker.faults == []


def test_without_a_free_descriptor_the_segments_own_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def duplicate(_: SimFile) -> SimFile:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(SimFile, "duplicate", duplicate)
    broker, client = cold_fetch(-1)
    broker.executor.step()
    assert client.received()[0].records


def test_an_error_of_the_disk_is_reported() -> None:
    broker, client = cold_fetch(-1)
    for segment in broker.partitions[0].log.segments:
        segment.file.truncate(1)
    broker.executor.step()
    assert client.received()[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(broker.faults) == 1
