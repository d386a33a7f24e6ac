"""Which producers' records a reader leaves out, as the batches of a partition go by.

A fetch of committed records comes with the transactions that were aborted in its range: producer and first offset.
From there on the producer's transactional batches do not count, until its abort marker. State of one pass over one
answer; not thread-safe.
"""

from __future__ import annotations

from collections.abc import Sequence


class AbortedTransactions:
    """Those of one answer."""

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
        """Those whose marker was not reached: what the next pass over the same answer starts with."""
        return sorted([*self._open.items(), *self._coming], key=lambda one: (one[1], one[0]))
