"""Every prefix of a recorded run, crashed and recovered: nothing synced is lost, nothing truncated comes
back.

One run of more than 2,000 changes on the simulated disk; after each change three crashes: all unsynced
changes lost, all kept, and a random choice of them kept, lost or torn. See `tests.support.crash_run` for what
is promised when.
"""

from __future__ import annotations

import pickle

import pytest

from ottla.base.ids import TopicPartition
from ottla.base.rng import Random
from ottla.testing.disk import SimDisk, Survival
from tests.support.crash_run import CrashRun, Found, Promise, problem, recover

CHANGES = 2100
SEED = 20


def image_of(disk: SimDisk) -> bytes:
    """All files with their content, to know a disk that was recovered before."""

    def walk(path: str) -> list[tuple[str, bytes | None]]:
        found: list[tuple[str, bytes | None]] = []
        for name in disk.listdir(path or "/"):
            inner = f"{path}/{name}"
            if disk.is_dir(inner):
                found += [(inner, None), *walk(inner)]
            else:
                found.append((inner, disk.read(inner)))
        return found

    return pickle.dumps(walk(""))


class Checker:
    def __init__(self, run: CrashRun) -> None:
        self.run = run
        self.recoveries = 0
        self._known: dict[bytes, dict[TopicPartition, Found]] = {}

    def recovered(self, disk: SimDisk) -> dict[TopicPartition, Found]:
        image = image_of(disk)
        if image not in self._known:
            self.recoveries += 1
            self._known[image] = recover(disk)
            if self.recoveries % 20 == 0:
                again = recover(disk.crash(Survival.NONE))
                assert again == self._known[image], "recovery was not durable"
        return self._known[image]

    def check(self, disk: SimDisk, changes: int, survival: Survival) -> None:
        found = self.recovered(disk.crash(survival))
        for partition, promise in self.promises(changes):
            wrong = problem(found.get(partition), promise)
            assert wrong is None, (
                f"after change {changes} ({survival.value}) of seed {SEED}, {partition}: {wrong}"
            )

    def promises(self, changes: int) -> list[tuple[TopicPartition, Promise]]:
        latest = {}
        for run in [*self.run.finished, *self.run.runs.values()]:
            promise = run.promises.after(changes)
            if promise is not None:
                latest[run.log.topic_partition] = promise
        return list(latest.items())


@pytest.mark.slow
def test_every_prefix_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.storage.log.log.REREAD_BYTES_MAX", 400)
    run = CrashRun(SEED, CHANGES)
    checker = Checker(run)
    disk = SimDisk(Random(SEED))
    for changes, change in enumerate(run.disk.trace, 1):
        disk.apply(change)
        if changes >= run.claimed_after:
            for survival in Survival:
                checker.check(disk, changes, survival)
    assert len(run.disk.trace) >= 2000
    assert checker.recoveries > 1000
