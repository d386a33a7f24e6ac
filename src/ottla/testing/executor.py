"""Executor without threads: work runs at once, or step by step in an order that the test chooses."""

from __future__ import annotations

from collections import deque

from ottla.base.executor import Done, Work


class InlineExecutor:
    """Runs work in `submit`, or with `stepped=True` when `step` is called."""

    def __init__(self, *, stepped: bool = False) -> None:
        self.stepped = stepped
        self._waiting: deque[tuple[Work, Done]] = deque()

    def submit(self, work: Work, done: Done) -> None:
        self._waiting.append((work, done))
        if not self.stepped:
            self.run_all()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def step(self) -> bool:
        """Run the oldest work item; False if there is none."""
        if not self._waiting:
            return False
        work, done = self._waiting.popleft()
        failure: BaseException | None = None
        try:
            work()
        except Exception as error:  # noqa: BLE001 - reported to the submitter, as with threads
            failure = error
        done(failure)
        return True

    def run_all(self) -> None:
        while self.step():
            pass
