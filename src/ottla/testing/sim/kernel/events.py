"""Virtual time: one queue of events for everything that is simulated, and the diary of what happened.

Time is counted in whole microseconds and moves only from event to event; each takes at least one, so that time never
stands still. Events of one moment happen in the order in which they were scheduled. All randomness comes from
streams that are derived from the seed by name, so that one more draw in one place does not change what another place
draws.

The diary: every event, and whatever is noted with `note`, goes into a running digest. Two runs of one seed are the
same run exactly if their digests are equal; the last lines are kept to be shown when something goes wrong.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, NamedTuple, Protocol

from ottla.base.rng import Random

US_PER_MS: Final = 1000
US_PER_SECOND: Final = 1_000_000
START_MS: Final = 1_750_000_000_000
"""What a right clock shows when a run begins."""
_LINES_KEPT: Final = 400


class Owner(Protocol):
    """Whose event it is: one that died has none any more, one that is paused has them later."""

    name: str
    alive: bool
    paused_until_us: int


class Violation(NamedTuple):
    """Something happened that must never happen; `rule` names the invariant."""

    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail}"


class Kernel:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_us = 0
        self.events = 0
        self.counts: Counter[str] = Counter()
        """What happened how often: shown to the user, so that one sees that the faults really happen."""
        self.violation: Violation | None = None
        self.client: Owner | None = None
        """Whose event the last one was."""
        self.lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._queue: list[tuple[int, int, Owner, Callable[[], None]]] = []
        self._sequence = 0
        self._digest = hashlib.blake2b(digest_size=16)

    @property
    def now_ms(self) -> int:
        return self.now_us // US_PER_MS

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def stream(self, name: str) -> Random:
        """Randomness for one purpose. Seeding by text does not depend on the hash seed of the process."""
        return Random(f"{self.seed}/{name}")

    def schedule(self, at_us: int, owner: Owner, action: Callable[[], None]) -> None:
        self._sequence += 1
        heappush(self._queue, (max(at_us, self.now_us), self._sequence, owner, action))

    def after_ms(self, delay_ms: float, owner: Owner, action: Callable[[], None]) -> None:
        self.schedule(self.now_us + int(delay_ms * US_PER_MS), owner, action)

    def step(self) -> bool:
        """Let the next event happen; False if there is none."""
        while self._queue:
            at_us, _, owner, action = heappop(self._queue)
            if not owner.alive:
                continue
            self.now_us = max(at_us, self.now_us + 1)
            if owner.paused_until_us > self.now_us:
                self.schedule(owner.paused_until_us, owner, action)
                continue
            self.events += 1
            self.client = owner
            self._digest.update(b"%d %s\n" % (self.now_us, owner.name.encode()))
            action()
            return True
        return False

    def note(self, client_id: str, text: str) -> None:
        """Write a line of the diary."""
        line = f"{self.now_us / US_PER_MS:>12.3f} {client_id:<12} {text}"
        self.lines.append(line)
        self._digest.update(line.encode())

    def count(self, what: str, by: int = 1) -> None:
        self.counts[what] += by

    def violated(self, rule: str, detail: str) -> None:
        """An invariant does not hold. The first violation counts: what follows it may be its consequence."""
        if self.violation is None:
            self.note("VIOLATION", f"{rule}: {detail}")
            self.violation = Violation(rule, detail)

    def check(self, holds: object, rule: str, detail: str) -> None:
        if not holds:
            self.violated(rule, detail)
