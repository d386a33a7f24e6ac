"""Validation of options, and delays of retries."""

from __future__ import annotations

import pytest

from ottla.base.errors import LocalError
from ottla.client.parallel.options import Options, RetryPolicy


def test_delays_grow_up_to_the_cap() -> None:
    policy = RetryPolicy(delay_first_s=0.5, delay_max_s=3, factor=2)
    assert [policy.delay_s(attempts) for attempts in (1, 2, 3, 4, 10_000)] == [0.5, 1, 2, 3, 3]


def test_the_first_attempt_is_counted() -> None:
    assert not RetryPolicy(attempts_max=2).is_exhausted(1)
    assert RetryPolicy(attempts_max=2).is_exhausted(2)
    assert not RetryPolicy(attempts_max=None).is_exhausted(10**9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": 0},
        {"records_max": 1},
        {"commit_interval_s": 0},
        {"handover_timeout_s": -1},
        {"drain_timeout_s": -1},
        {"metadata_bytes_max": -1},
        {"dead_letter_topic": ""},
    ],
)
def test_invalid_options_are_rejected_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(LocalError, match=next(iter(wrong))):
        Options(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"attempts_max": 0}, {"delay_first_s": 31}, {"factor": 0.5}])
def test_invalid_retries_are_rejected_by_name(wrong: dict[str, float]) -> None:
    with pytest.raises(LocalError, match=next(iter(wrong))):
        RetryPolicy(**wrong)  # type: ignore[arg-type]
