"""Offsets per second from two samples."""

from __future__ import annotations

from ottla.admin.offset_rates import OffsetRates
from ottla.base.ids import TopicPartition

TP = TopicPartition("scores", 0)


def test_a_rate_needs_two_snapshots() -> None:
    rates = OffsetRates()
    assert rates.update({TP: 100}, 1.0) == {}
    assert rates.update({TP: 150}, 1.5) == {TP: 100.0}
    assert rates.update({}, 2.0) == {}
    assert rates.update({TP: 250}, 2.5) == {TP: 100.0}
    assert rates.update({TP: 10}, 3.0) == {TP: 0.0}, "deleted and created again"
