"""Offsets per second of partitions, from the end offsets of two samples."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.base.ids import TopicPartition


class OffsetRates:
    """The last sample of each partition."""

    def __init__(self) -> None:
        self._before: dict[TopicPartition, tuple[int, float]] = {}

    def update(self, ends: Mapping[TopicPartition, int], now_s: float) -> dict[TopicPartition, float]:
        """The rates up to now. A partition without a response has no rate and keeps its last sample."""
        rates = {}
        for tp, end in ends.items():
            before = self._before.get(tp)
            if before is not None and now_s > before[1]:
                rates[tp] = max(0, end - before[0]) / (now_s - before[1])
            self._before[tp] = (end, now_s)
        return rates
