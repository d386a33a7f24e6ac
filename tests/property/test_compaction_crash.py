"""A crash at any change that a cleaning makes leaves old segments or new ones, never a mix or a loss."""

from __future__ import annotations

from random import Random

import pytest

from ottla.storage.recovery.recovery import LastKnown
from ottla.testing.disk import SimDisk, Survival
from tests.support.cleaning import CleanedLog

ROOT = "/data"
SETTINGS: dict[str, object] = {"segment.bytes": 900}


def dirty_log(disk: SimDisk, seed: int) -> CleanedLog:
    """Two or more groups of segments, with tombstones, an aborted transaction and a producer to remember."""
    rng = Random(seed)
    log = CleanedLog(disk, ROOT, settings=SETTINGS)
    for number in range(12):
        keys = [b"%d" % rng.randrange(6) for _ in range(3)]
        log.write(*((key, None if rng.random() < 0.2 else rng.randbytes(20)) for key in keys))
        if number == 3:
            log.write((b"0", b"aborted"), producer_id=1, epoch=0, sequence=0, transactional=True)
            log.end_txn(1, 0, committed=False)
        if number == 5:
            log.write((b"0", b"x"), (b"1", b"x"), producer_id=2, epoch=0, sequence=0)
        if number % 2:
            log.roll()
    return log


def content(log: CleanedLog) -> list[bytes]:
    return [batch for _, batch in log.batches()]


def states_of_cleaning(log: CleanedLog) -> list[list[bytes]]:
    """The contents that readers may see, one after the other."""
    states = [content(log)]
    log.cleaner.start()
    while log.cleaner.cleaning:
        log.time.fire()
        now = content(log)
        if now != states[-1]:
            states.append(now)
    return states


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_at_each_change(seed: int) -> None:
    disk = SimDisk(Random(seed))
    disk.makedirs(ROOT)
    log = dirty_log(disk, seed)
    before = len(disk.trace)
    end_offset = log.log.log_end_offset
    states = states_of_cleaning(log)
    assert len(states) > 2, "the cleaning has several groups"
    assert log.faults == []
    trace = list(disk.trace)
    replayed = SimDisk(Random(seed + 100))
    for change in trace[:before]:
        replayed.apply(change)
    seen = set()
    for change in [*trace[before:], None]:
        for survival in (Survival.NONE, Survival.ALL, Survival.SOME, Survival.SOME):
            again = CleanedLog(
                replayed.crash(survival), ROOT, settings=SETTINGS, last=LastKnown(recovery_point=end_offset)
            )
            found = content(again)
            assert found in states
            seen.add(states.index(found))
            assert again.log.log_end_offset == end_offset
            leftovers = again.disk.listdir(again.log.directory)
            assert not [name for name in leftovers if name.endswith((".cleaned", ".swap"))]
        if change is not None:
            replayed.apply(change)
    assert seen == set(range(len(states)))
