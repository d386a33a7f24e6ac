"""The fuzz target of recovery with fixed seeds: some hundred damaged directories, each started on."""

from __future__ import annotations

from collections import Counter

import pytest

from fuzz.recovery import try_one


@pytest.mark.parametrize("start", range(0, 400, 50))
def test_damaged_directories_are_started_on(start: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(start, start + 50):
        try_one(seed, seen)
    assert seen.total() == 50
