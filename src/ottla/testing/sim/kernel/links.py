"""Links between simulated hosts: how long packets take in one direction, and the faults on the way.

A link is directed. TCP hides loss, duplication and reordering of packets from its users: a lost packet is sent again,
so that the stream stalls for a while. What users see of a bad network is delay, stalls, low bandwidth, silence (a cut
in one direction or both) and resets. Streams are ordered, but messages on two connections overtake each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from ottla.testing.sim.kernel.events import US_PER_MS, Kernel, Owner

_RETRANSMISSION_MS: Final = 200
_RETRANSMISSIONS_MAX: Final = 6
_FOREVER_US: Final = 1 << 62


class Conditions:
    """State of a network: delays, and the chances of faults. Several links may share one object."""

    def __init__(self) -> None:
        self.delay_ms_max = 2.0
        self.late_chance = 0.0
        self.late_ms_max = 0.0
        self.loss_chance = 0.0
        self.reset_chance = 0.0
        self.bytes_per_ms = 0.0
        """Bandwidth; 0: unlimited."""

    def end_faults(self) -> None:
        self.late_chance = self.loss_chance = self.reset_chance = self.bytes_per_ms = 0.0


class Stream(Protocol):
    """Receiving end of one direction of a connection."""

    last_arrival_us: int
    """When the last packet arrives that was sent so far: the next one must not overtake it."""

    @property
    def host(self) -> Owner: ...


class Link:
    """One direction between two hosts."""

    def __init__(self, kernel: Kernel, name: str, conditions: Conditions) -> None:
        self._kernel = kernel
        self._rng = kernel.stream(f"link {name}")
        self.name = name
        self.conditions = conditions
        self._busy_until_us = 0
        self.is_cut = False
        self._cut_until_us = 0
        self._waiting: deque[tuple[Stream, int, Callable[[], None]]] = deque()

    def transmit(self, stream: Stream, size: int, arrive: Callable[[], None]) -> None:
        """Call `arrive` on the stream's host when a packet of that size has arrived there, in order."""
        if self.is_cut:
            self._waiting.append((stream, size, arrive))
            return
        at_us = stream.last_arrival_us = max(stream.last_arrival_us, self._arrival_us(size))
        self._kernel.schedule(at_us, stream.host, arrive)

    def _arrival_us(self, size: int) -> int:
        conditions, rng = self.conditions, self._rng
        delay_ms = rng.uniform(0.1, conditions.delay_ms_max)
        if conditions.late_chance and rng.random() < conditions.late_chance:
            delay_ms += rng.uniform(0, conditions.late_ms_max)
        if conditions.loss_chance:
            for attempt in range(_RETRANSMISSIONS_MAX):
                if rng.random() >= conditions.loss_chance:
                    break
                delay_ms += _RETRANSMISSION_MS << attempt
        sent_us = self._kernel.now_us
        if conditions.bytes_per_ms:
            sent_us = max(sent_us, self._busy_until_us) + int(size / conditions.bytes_per_ms * US_PER_MS)
            self._busy_until_us = sent_us
        return sent_us + int(delay_ms * US_PER_MS)

    def resets(self) -> bool:
        """Whether the connection of the packet that is about to be sent is reset instead."""
        chance = self.conditions.reset_chance
        return bool(chance) and self._rng.random() < chance

    def cut(self, milliseconds: float | None = None) -> None:
        """Deliver nothing until `restore`, or for a while. Packets wait, because TCP sends them again."""
        self.is_cut = True
        if milliseconds is None:
            self._cut_until_us = _FOREVER_US
        else:
            until_us = self._kernel.now_us + int(milliseconds * US_PER_MS)
            self._cut_until_us = max(self._cut_until_us, until_us)
            self._kernel.schedule(until_us, self._kernel.root, self._restore_when_due)

    def _restore_when_due(self) -> None:
        if self._kernel.now_us >= self._cut_until_us:
            self.restore()

    def restore(self) -> None:
        """End a cut: what waits is sent."""
        self.is_cut = False
        self._cut_until_us = 0
        waiting, self._waiting = self._waiting, deque()
        for stream, size, arrive in waiting:
            self.transmit(stream, size, arrive)
