"""The scoreboard as each consumer group of the demo has seen it. Pure.

A group has seen the records before its committed offsets. The reader adds every record of the topic `scoreboard`; a
group's board shows a record when its committed offset is beyond it. A group without offsets has seen nothing. Records
that all groups have seen are dropped, and at most `WAITING_MAX` wait for a group that does not progress.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import msgspec

from ottla.base.ids import TopicPartition
from ottla.scoreboard.screens import Board
from ottla.scoreboard.standings import Standing

GROUPS = ("mobile", "computer")
WAITING_MAX = 20_000


class Boards:
    """One board for each group. Not thread-safe."""

    def __init__(self) -> None:
        self.boards = {group: Board() for group in GROUPS}
        self._waiting: dict[str, dict[TopicPartition, deque[tuple[int, Standing]]]] = {
            group: {} for group in GROUPS
        }

    def add(self, tp: TopicPartition, offset: int, value: bytes | None) -> None:
        """A record of the topic; values that are not standings are ignored."""
        try:
            standing = msgspec.json.decode(value or b"", type=Standing)
        except (msgspec.MsgspecError, RecursionError):
            return
        for waiting in self._waiting.values():
            waiting.setdefault(tp, deque(maxlen=WAITING_MAX)).append((offset, standing))

    def advance(self, group: str, committed: Mapping[TopicPartition, int]) -> None:
        """Show what a group has seen now."""
        for tp, offset in committed.items():
            waiting = self._waiting[group].get(tp)
            while waiting and waiting[0][0] < offset:
                self.boards[group].show(waiting.popleft()[1])

    def standings(self, group: str) -> list[Standing]:
        """The newest standing of each match, matches that go on first."""
        found = self.boards[group].standings.values()
        return sorted(found, key=lambda each: (each.ended, -each.started_ms, each.match))
