"""Virtual time: the queue of all simulated events, the random streams of a seed, and the traces of a run.

Time is counted in whole microseconds and advances only from event to event. An event is scheduled at least one
microsecond after the event that schedules it, so that time always advances. Events of one microsecond are run in the
order in which they were scheduled. All randomness comes from streams that are derived from the seed and a name, so
that an additional draw from one stream does not change the values of another one.

Every host has a `Trace`: a running digest of its events and of the lines that are written with `note`. Two runs are
identical if and only if the digests of all their traces are equal. What happens on one host changes the trace of
another one only through messages between the two. The last lines are kept for the report of a violation.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, NamedTuple

from ottla.base.rng import Random

US_PER_MS: Final = 1000
US_PER_SECOND: Final = 1_000_000
START_MS: Final = 1_750_000_000_000
"""Wall-clock time of a correct clock at the start of a run."""
_LINES_KEPT: Final = 400


class Violation(NamedTuple):
    """A broken invariant; `rule` names it."""

    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail}"


class Trace:
    """Digest and counters of the events of one host."""

    __slots__ = ("_digest", "counts", "name", "update")

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()
        self._digest = hashlib.blake2b(digest_size=16)
        self.update = self._digest.update

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


class Owner:
    """Base class of everything that has events: hosts, processes, and the parts of a scenario.

    Events of an owner that is not `alive` are discarded. Events of a paused owner are delayed. `after_event` is
    called after each event.
    """

    def __init__(self, name: str, trace: Trace) -> None:
        self.name = name
        self.trace = trace
        self.alive = True
        self.paused_until_us = 0
        self.after_event: Callable[[], None] | None = None
        self.label = f" {name}\n".encode()


class Kernel:
    """The event queue of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_us = 0
        self.events = 0
        self.violation: Violation | None = None
        self.traces: dict[str, Trace] = {}
        self.root = Owner("simulation", self.trace("simulation"))
        """Owner of the events that belong to no host."""
        self.current = self.root
        """Owner of the event that is being run."""
        self._lines: deque[tuple[int, str, str]] = deque(maxlen=_LINES_KEPT)
        self._queue: list[tuple[int, int, Owner, Callable[[], None]]] = []
        self._sequence = 0

    @property
    def now_ms(self) -> int:
        return self.now_us // US_PER_MS

    # Traces

    def trace(self, name: str) -> Trace:
        """Create the trace of a host. Names are unique in a run."""
        if name in self.traces:
            raise ValueError(f"two hosts are named {name!r}: host names must be unique in a run")
        made = self.traces[name] = Trace(name)
        return made

    @property
    def digest(self) -> str:
        """Digest of the whole run."""
        total = hashlib.blake2b(digest_size=16)
        for name in sorted(self.traces):
            total.update(f"{name} {self.traces[name].digest}\n".encode())
        return total.hexdigest()

    @property
    def counts(self) -> Counter[str]:
        """How often each thing has happened, on all hosts. Shown to the user as evidence that faults occur."""
        total: Counter[str] = Counter()
        for trace in self.traces.values():
            total.update(trace.counts)
        return total

    @property
    def lines(self) -> list[str]:
        """The last lines of all traces."""
        return [f"{at_us / US_PER_MS:>12.3f} {name:<12} {text}" for at_us, name, text in self._lines]

    def note(self, name: str, text: str) -> None:
        """Write a line to the trace of the current event's owner."""
        self._lines.append((self.now_us, name, text))
        self.current.trace.update(f"{name} {text}\n".encode())

    def count(self, what: str, by: int = 1) -> None:
        self.current.trace.counts[what] += by

    # Events

    def stream(self, name: str) -> Random:
        """Random numbers for one purpose. Seeding by text does not depend on the hash seed of the process."""
        return Random(f"{self.seed}/{name}")

    def schedule(self, at_us: int, owner: Owner, action: Callable[[], None]) -> None:
        self._sequence += 1
        heappush(self._queue, (max(at_us, self.now_us + 1), self._sequence, owner, action))

    def after_ms(self, delay_ms: float, owner: Owner, action: Callable[[], None]) -> None:
        self.schedule(self.now_us + int(delay_ms * US_PER_MS), owner, action)

    def step(self) -> bool:
        """Run the next event; False if there is none."""
        while self._queue:
            at_us, _, owner, action = heappop(self._queue)
            if not owner.alive:
                continue
            self.now_us = at_us
            if owner.paused_until_us > at_us:
                self.schedule(owner.paused_until_us, owner, action)
                continue
            self.events += 1
            self.current = owner
            owner.trace.update(b"%d%b" % (at_us, owner.label))
            action()
            if owner.after_event is not None:
                owner.after_event()
            return True
        return False

    # Violations

    def violated(self, rule: str, detail: str) -> None:
        """Report a broken invariant. Only the first one counts: later ones may be its consequence."""
        if self.violation is None:
            self.note("VIOLATION", f"{rule}: {detail}")
            self.violation = Violation(rule, detail)

    def check(self, holds: object, rule: str, detail: str) -> None:
        if not holds:
            self.violated(rule, detail)
