"""The process dies before any of its changes to the disk: what was answered is there, and all is whole."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ottla.base.files import OsDisk
from tests.support.quorum import QuorumBench

CHANGES = frozenset(
    {"pwritev", "datasync", "truncate", "replace", "rename", "remove", "sync_dir", "makedirs"}
)


class Killed(BaseException):
    """Nobody catches this: the process is gone."""


class Mortal:
    """A disk, or a file of it, that lets `lives.left` changes happen and then kills."""

    def __init__(self, inner: Any, lives: Lives) -> None:
        self._inner = inner
        self._lives = lives

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in CHANGES:
            return self._lives.counted(found)
        if name == "open":
            return lambda *args, **more: Mortal(found(*args, **more), self._lives)
        return found


class Lives:
    def __init__(self, left: int) -> None:
        self.left = left

    def counted(self, change: Any) -> Any:
        def act(*args: Any, **more: Any) -> Any:
            if self.left == 0:
                raise Killed
            self.left -= 1
            return change(*args, **more)

        return act


def live(root: Path, disk: Any, answered: list[bytes], prefix: str, decisions: int) -> None:
    """One life: decisions of two values each, and snapshots of everything so far."""
    bench = QuorumBench(disk, str(root), interval=400).lead()
    state = bench.values()
    for number in range(decisions):
        pair = [f"{prefix}{number}a".encode(), f"{prefix}{number}b".encode()]
        appended = bench.append(*pair)
        answered += pair
        state += pair
        if bench.quorum.snapshot_due:
            bench.quorum.write_snapshot(appended.last_offset, appended.epoch, list(state))
            bench.executor.run_all()
    bench.close()


def check(root: Path, answered: list[bytes]) -> None:
    bench = QuorumBench(OsDisk(), str(root))
    found = bench.values()
    assert found[: len(answered)] == answered
    assert len(found) - len(answered) in (0, 2), "more than the one decision that was under way"
    assert len(found) % 2 == 0
    epoch = bench.quorum.epoch
    assert bench.lead().quorum.epoch == epoch + 1
    bench.append(b"x", b"y")
    assert bench.values() == [*found, b"x", b"y"]
    bench.close()


@pytest.mark.slow
def test_killed_before_every_change(tmp_path: Path) -> None:
    lives = Lives(10**9)
    live(tmp_path / "whole", Mortal(OsDisk(), lives), [], "n", 12)
    changes = 10**9 - lives.left
    assert changes > 40
    for survived in range(changes):
        root = tmp_path / str(survived)
        answered: list[bytes] = []
        with pytest.raises(Killed):
            live(root, Mortal(OsDisk(), Lives(survived)), answered, "n", 12)
        check(root, answered)


def test_killed_again_and_again(tmp_path: Path) -> None:
    rng = random.Random(11)
    answered: list[bytes] = []
    for life in range(40):
        pending: list[bytes] = []
        with suppress(Killed):
            live(tmp_path, Mortal(OsDisk(), Lives(rng.randrange(5, 60))), pending, f"{life}.", 10)
        answered += pending
        found = QuorumBench(OsDisk(), str(tmp_path)).values()
        # A decision that was written but not answered may be there: it is the newest one.
        assert found[: len(answered)] == answered
        assert len(found) - len(answered) in (0, 2)
        answered = found
