"""A copied log equals the leader's log, file by file; damaged, torn and unexpected batches are not appended."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.rng import Random
from ottla.records.batch import iter_batches
from ottla.records.builder import NewRecord, build_batch
from ottla.storage.log import appendable_log, raw_append, raw_reference
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.testing.disk import SimDisk
from tests.support.logs import NOW_MS, append, batch, marker, open_at

LEADER, FOLLOWER = "/leader/topic-0", "/follower/topic-0"


@pytest.fixture(
    params=[raw_reference.scan_raw, raw_append.scan_raw], ids=["reference", "chosen"], autouse=True
)
def _scan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    scan: Callable[..., object] = request.param
    monkeypatch.setattr(appendable_log, "scan_raw", scan)


def log_at(disk: SimDisk, directory: str, **settings: object) -> Log:
    return open_at(disk, directory, LogConfig(**settings))  # type: ignore[arg-type]


def raw(base_offset: int, epoch: int = 0, count: int = 1, value: bytes = b"v") -> bytes:
    records = [NewRecord(None, value, timestamp=NOW_MS)] * count
    return build_batch(records, base_offset=base_offset, leader_epoch=epoch)


def fill(log: Log, rng: random.Random, batches: int) -> None:
    """Append batches of several leader epochs, of idempotent and transactional producers, with aborts."""
    epoch = 1
    sequences: dict[int, int] = {}
    for _ in range(batches):
        epoch += rng.random() < 0.05
        producer = rng.choice([-1, -1, 7, 8, 9])
        count, time_ms = rng.randint(1, 4), NOW_MS + rng.randint(0, 9000)
        if producer < 0:
            append(log, batch(count, value=bytes(rng.randint(0, 300)), time_ms=time_ms), leader_epoch=epoch)
            continue
        if producer == 9 and log.producers.in_transaction(9, 0) and rng.random() < 0.4:
            append(log, marker(9, 0, committed=rng.random() < 0.5), leader_epoch=epoch)
            continue
        sequence = sequences.get(producer, 0)
        sequences[producer] = sequence + count
        append(
            log,
            batch(
                count,
                time_ms=time_ms,
                producer_id=producer,
                epoch=0,
                sequence=sequence,
                transactional=producer == 9,
            ),
            leader_epoch=epoch,
        )


def files_of(disk: SimDisk, log: Log, directory: str) -> dict[str, bytes]:
    log.high_watermark = log.log_end_offset
    log.close(NOW_MS)
    return {
        name: disk.read(f"{directory}/{name}")
        for name in disk.listdir(directory)
        if name != "partition.metadata"
    }


@pytest.mark.parametrize("seed", range(4))
def test_a_copy_equals_the_log_of_the_leader(seed: int) -> None:
    rng = random.Random(seed)
    disk = SimDisk(Random(1))
    settings = {"segment_bytes": 6000, "index_interval_bytes": 500}
    leader, follower = log_at(disk, LEADER, **settings), log_at(disk, FOLLOWER, **settings)
    fill(leader, rng, 200)

    while follower.log_end_offset < leader.log_end_offset:
        fetched = leader.read_bytes(follower.log_end_offset, rng.randint(1, 4000), upto=leader.log_end_offset)
        torn = fetched + fetched[: rng.randint(0, 60)]
        follower.append_raw(torn, NOW_MS)
        follower.flush(NOW_MS)

    expected = files_of(disk, leader, LEADER)
    assert any(name.endswith(".txnindex") for name in expected)
    assert len([name for name in expected if name.endswith(".log")]) > 3
    assert files_of(disk, follower, FOLLOWER) == expected


def test_a_torn_last_batch_is_trimmed() -> None:
    follower = log_at(SimDisk(Random(1)), FOLLOWER)
    data = raw(0) + raw(1) + raw(2)
    placed = follower.append_raw(data[:-1], NOW_MS)
    assert (placed.base_offset, placed.last_offset) == (0, 1)
    follower.append_raw(raw(2)[:] + raw(3)[:10], NOW_MS)
    assert follower.log_end_offset == 3
    with pytest.raises(ApiError, match="no whole batch"):
        follower.append_raw(raw(3)[:-1], NOW_MS)


@pytest.mark.parametrize("damaged_at", [5, 17, 25, 70])
def test_batches_before_a_damaged_one_are_appended(damaged_at: int) -> None:
    follower = log_at(SimDisk(Random(1)), FOLLOWER)
    follower.append_raw(raw(0), NOW_MS)
    damaged = bytearray(raw(2, value=bytes(20)))
    damaged[damaged_at] ^= 0x80
    if damaged_at == 5:
        damaged = bytearray(raw(0))  # an offset that is in the log already
    follower.append_raw(raw(1) + damaged + raw(3), NOW_MS)
    assert follower.log_end_offset == 2
    with pytest.raises(ApiError):
        follower.append_raw(bytes(damaged), NOW_MS)
    follower.flush(NOW_MS)
    assert [header.base_offset for header, _ in follower.batches(0, upto=2)] == [0, 1]


def test_leader_epochs_do_not_decrease_and_do_not_exceed_the_epoch_of_the_fetch() -> None:
    follower = log_at(SimDisk(Random(1)), FOLLOWER)
    follower.append_raw(raw(0, epoch=3) + raw(1, epoch=5) + raw(2, epoch=4), NOW_MS, epoch_max=5)
    assert follower.log_end_offset == 2
    follower.append_raw(raw(2, epoch=5) + raw(3, epoch=6), NOW_MS, epoch_max=5)
    assert (follower.log_end_offset, follower.latest_epoch) == (3, 5)
    for epoch in (4, 6):
        with pytest.raises(ApiError) as raised:
            follower.append_raw(raw(3, epoch=epoch), NOW_MS, epoch_max=5)
        assert raised.value.code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert [tuple(entry) for entry in follower.epochs.entries()] == [(3, 0), (5, 1)]


def test_a_long_range_is_staged_without_a_copy() -> None:
    follower = log_at(SimDisk(Random(1)), FOLLOWER)
    follower.append_raw(raw(0), NOW_MS)
    follower.flush(NOW_MS)
    data = b"".join(raw(1 + number, value=bytes(1000)) for number in range(300))
    follower.append_raw(data, NOW_MS)
    job = follower.take_staged()
    assert job is not None
    (buffers,) = [step.buffers for step in job.steps]
    assert [memoryview(buffer).obj for buffer in buffers] == [data]
    assert len(list(iter_batches(buffers[0]))) == 300


def test_an_index_does_not_overflow() -> None:
    settings = {"segment_index_bytes": 12 * 10, "index_interval_bytes": 0}
    disk = SimDisk(Random(1))
    leader, follower = log_at(disk, LEADER, **settings), log_at(disk, FOLLOWER, **settings)
    for _ in range(50):
        append(leader, batch())
    for data in (leader.read_bytes(each.base_offset, 1 << 20, upto=50) for each in leader.segments):
        follower.append_raw(data, NOW_MS)
    follower.flush(NOW_MS)
    assert len(leader.segments) > 3
    assert files_of(disk, follower, FOLLOWER) == files_of(disk, leader, LEADER)
