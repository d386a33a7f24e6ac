"""The aborted transactions that a reader of committed records skips, batch by batch.

A fetch of committed records contains the transactions that were aborted in its range: producer and first offset.
From that offset to its abort marker the producer's transactional batches are skipped. State of one pass over one
response; not thread-safe.
"""

from __future__ import annotations

from collections.abc import Sequence


class AbortedTransactions:
    """The aborted transactions of one response."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._coming = sorted(aborted, key=lambda one: (one[1], one[0]), reverse=True)
        self._open: dict[int, int] = {}

    def reach(self, offset: int) -> None:
        """All batches up to this offset are being looked at."""
        while self._coming and self._coming[-1][1] <= offset:
            producer_id, first_offset = self._coming.pop()
            self._open[producer_id] = first_offset

    def is_open(self, producer_id: int) -> bool:
        """Whether the producer is within a transaction that was aborted."""
        return producer_id in self._open

    def end(self, producer_id: int) -> None:
        """The producer's abort marker was seen."""
        del self._open[producer_id]

    def left(self) -> list[tuple[int, int]]:
        """Those without their marker so far: the start of the next pass over the same response."""
        return sorted([*self._open.items(), *self._coming], key=lambda one: (one[1], one[0]))
