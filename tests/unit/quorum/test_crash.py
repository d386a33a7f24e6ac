"""The process is killed before each of its changes to the disk: committed decisions are kept, each one whole."""

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
    """The process was killed; nothing catches this."""


class Mortal:
    """A disk, or a file of it, that allows `lives.left` changes and then kills the process."""

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


def live(root: Path, disk: Any, committed: list[bytes], prefix: str, turns: int) -> None:
    """One life: a write per turn with one or two decisions of two values each, and snapshots of the state."""
    bench = QuorumBench(disk, str(root), interval=400).lead()
    state = bench.values()
    for turn in range(turns):
        pairs = [
            [f"{prefix}{turn}.{number}{half}".encode() for half in "ab"] for number in range(1 + turn % 2)
        ]
        last_offset = [bench.quorum.append(bench.quorum.epoch, pair) for pair in pairs][-1]
        bench.run()
        assert bench.quorum.high_watermark == last_offset + 1
        written = [value for pair in pairs for value in pair]
        committed += written
        state += written
        if bench.quorum.snapshot_due:
            bench.quorum.write_snapshot(last_offset, bench.quorum.epoch, list(state))
            bench.run()
    bench.close()


def check_prefix(found: list[bytes], committed: list[bytes]) -> None:
    """What is stored are the committed decisions, then at most the decisions of the write that was under way."""
    assert found[: len(committed)] == committed
    more = found[len(committed) :]
    assert [value[-1:] for value in more] in ([], [b"a", b"b"], [b"a", b"b"] * 2)
    assert len({value.rsplit(b".", 1)[0] for value in more}) <= 1, "more than one write"


def check(root: Path, committed: list[bytes]) -> None:
    bench = QuorumBench(OsDisk(), str(root))
    found = bench.values()
    check_prefix(found, committed)
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
        committed: list[bytes] = []
        with pytest.raises(Killed):
            live(root, Mortal(OsDisk(), Lives(survived)), committed, "n", 12)
        check(root, committed)


def test_killed_again_and_again(tmp_path: Path) -> None:
    rng = random.Random(11)
    committed: list[bytes] = []
    for life in range(40):
        with suppress(Killed):
            live(tmp_path, Mortal(OsDisk(), Lives(rng.randrange(5, 60))), committed, f"{life}.", 10)
        found = QuorumBench(OsDisk(), str(tmp_path)).values()
        check_prefix(found, committed)
        committed = found
