"""Which offsets of one assigned partition are finished.

Kept are only the *unfinished* ones, in the order they were delivered, and the next offset to come: everything
else below that is finished, including offsets that never existed (compacted away, or a transaction's marker).
So memory follows the work at hand, however far one stuck record is left behind.

What an earlier life of the group finished above its last commit is told at the start, passed over when it is
delivered again, and told again with each commit until the position is beyond it.

Invariants: unfinished offsets ascend and lie below `next_offset`; the lowest of them is what may be committed.
Pure; one owner.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence

from ottla.base.errors import invariant
from ottla.client.parallel import offset_metadata
from ottla.client.parallel.offset_metadata import Run


class OffsetTracker:
    def __init__(self, committed_offset: int | None = None, finished_before: Sequence[Run] = ()) -> None:
        self.next_offset = committed_offset
        """Above every offset delivered so far; None until anything is known of the partition."""
        # Ordered, and unlike a dict its first key is found at once however many before it were deleted.
        self._unfinished: OrderedDict[int, None] = OrderedDict()
        self._finished_before = deque(finished_before)

    def __len__(self) -> int:
        """How many delivered records are unfinished."""
        return len(self._unfinished)

    @property
    def committable_offset(self) -> int | None:
        """The lowest unfinished offset: all below it is done."""
        if self._unfinished:
            return next(iter(self._unfinished))
        return self.next_offset

    def goes_back(self, offset: int) -> bool:
        """Whether a record delivered with this offset means that the partition is read again from there."""
        return self.next_offset is not None and offset < self.next_offset

    def take(self, offset: int) -> bool:
        """Note a delivered record; False when it was finished before, so that there is nothing to do."""
        invariant(not self.goes_back(offset), "offsets of a partition are delivered in ascending order")
        self.next_offset = offset + 1
        earlier = self._finished_before
        while earlier and earlier[0][1] <= offset:
            earlier.popleft()
        if earlier and earlier[0][0] <= offset:
            return False
        self._unfinished[offset] = None
        return True

    def finish(self, offset: int) -> None:
        del self._unfinished[offset]

    def advance(self, next_offset: int) -> bool:
        """Note that nothing is left to come below an offset; True when that was news."""
        if self.next_offset is not None and next_offset <= self.next_offset:
            return False
        self.next_offset = next_offset
        return True

    def finished_runs(self) -> list[Run]:
        """The finished offsets above the committable one."""
        runs: list[Run] = []
        if self.next_offset is None:
            return runs
        at = self.committable_offset or 0
        for offset in self._unfinished:
            if offset > at:
                runs.append((at, offset))
            at = offset + 1
        if at < self.next_offset:
            runs.append((at, self.next_offset))
        for start, end in self._finished_before:
            if end > self.next_offset:
                _append(runs, (max(start, self.next_offset), end))
        return runs

    def encode(self, bytes_max: int) -> tuple[str, bool]:
        """The metadata that goes with a commit of `committable_offset`, and whether it is complete."""
        return offset_metadata.encode(self.committable_offset or 0, self.finished_runs(), bytes_max)

    def is_crowded(self, bytes_max: int) -> bool:
        """Whether the finished offsets above the committable one are too scattered to be remembered."""
        if not self._unfinished or self.next_offset is None:
            return False
        last = max(self.next_offset, self._finished_before[-1][1] if self._finished_before else 0)
        span = last - next(iter(self._unfinished))
        if offset_metadata.surely_fits(len(self._unfinished) + len(self._finished_before), span, bytes_max):
            return False
        return not self.encode(bytes_max)[1]


def _append(runs: list[Run], run: Run) -> None:
    if runs and runs[-1][1] == run[0]:
        runs[-1] = (runs[-1][0], run[1])
    else:
        runs.append(run)
