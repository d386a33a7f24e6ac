"""Confirmation of heartbeats by commits."""

from __future__ import annotations

import pytest

from ottla.controller.brokers.confirmation import Confirmation


@pytest.mark.parametrize(
    ("silence", "elapsed"),
    [(0.0, 0.0), (0.4, 0.0), (1.2, 0.7), (2.0, 1.5), (60.0, 1.5)],
)
def test_silence_before_an_election_counts_up_to_the_fetch_timeout(silence: float, elapsed: float) -> None:
    made = Confirmation(0.5, 2.0)
    assert made.start(silence, has_other_voters=True) == pytest.approx(elapsed)


def test_heartbeats_append_one_record_for_each_interval() -> None:
    made = Confirmation(0.5, 2.0)
    made.start(0.0, has_other_voters=True)
    assert [now for now in (10.0, 10.1, 10.4, 10.5, 10.9, 12.0) if made.needs_record(now)] == [
        10.0,
        10.5,
        12.0,
    ]


def test_a_new_leadership_confirms_its_first_heartbeat() -> None:
    made = Confirmation(0.5, 2.0)
    made.start(0.0, has_other_voters=True)
    assert made.needs_record(10.0)
    made.start(0.0, has_other_voters=True)
    assert made.needs_record(10.1)


@pytest.mark.parametrize(("interval", "has_other_voters"), [(0.5, False), (0.0, True)])
def test_the_only_voter_and_an_interval_of_zero_append_nothing(
    interval: float, has_other_voters: bool
) -> None:
    made = Confirmation(interval, 2.0)
    assert made.start(5.0, has_other_voters=has_other_voters) == 0.0
    assert not made.needs_record(10.0)
