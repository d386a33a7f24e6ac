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


def test_a_damaged_offset_after_a_clean_stop_is_reported_as_damage() -> None:
    """After a clean stop the log is not scanned: a base offset below its predecessor shows when it is read."""
    try_one(1794910405961962234, Counter())
