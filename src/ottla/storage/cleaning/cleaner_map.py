"""From a key to the last offset it was seen at, for as many keys as a fixed number of bytes holds.

An open-addressing table: a slot is 24 bytes, two words of a 128-bit hash of the key and one of the offset, in
three arrays. The hash represents the key (no collisions are expected among 128-bit hashes); it is a
cryptographic one, so no client can choose keys that replace each other. The table starts small and doubles up to
its limit, so that `log.cleaner.dedupe.buffer.size` is a bound and not a price.

Concurrency: one cleaning at a time.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from struct import Struct
from typing import Final

_SLOT_BYTES: Final = 24
_SLOTS_START: Final = 1024
_FILL_MAX: Final = 0.75  # beyond it a search in an open-addressing table gets long
_WORDS: Final = Struct("=QQ")
_FREE: Final = -1


class OffsetMap:
    def __init__(self, max_bytes: int, load_factor: float = 0.9) -> None:
        """Room for what fits in `max_bytes` filled to `load_factor` (`log.cleaner.io.buffer.load.factor`)."""
        # While the table doubles, the old one (half the size) and the new one exist together.
        self._slots_max = max(2, max_bytes * 2 // (3 * _SLOT_BYTES))
        self._load_factor = min(load_factor, _FILL_MAX)
        self.capacity = max(1, int(self._slots_max * self._load_factor))
        self.latest_offset = -1  # everything up to it is in the map
        self._count = 0
        self._allocate(min(self._slots_max, _SLOTS_START))

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        return self._count >= self.capacity

    @property
    def size_bytes(self) -> int:
        return len(self._offsets) * _SLOT_BYTES

    def put(self, key: bytes, offset: int) -> bool:
        """Remember the offset of a key; False, and nothing happens, if the key is new and the map is full."""
        high, low = _WORDS.unpack(blake2b(key, digest_size=16).digest())
        slot = self._find(high, low)
        if self._offsets[slot] == _FREE:
            if self._count >= self.capacity:
                return False
            if self._count >= len(self._offsets) * self._load_factor:
                self._double()
                slot = self._find(high, low)
            self._high[slot] = high
            self._low[slot] = low
            self._count += 1
        self._offsets[slot] = offset
        return True

    def get(self, key: bytes) -> int:
        """The last offset of a key, -1 if it was not seen."""
        high, low = _WORDS.unpack(blake2b(key, digest_size=16).digest())
        return self._offsets[self._find(high, low)]

    def _find(self, high: int, low: int) -> int:
        """The slot of a hash, or the free one where it belongs."""
        highs, lows, offsets = self._high, self._low, self._offsets
        slots = len(offsets)
        slot = low % slots
        while offsets[slot] != _FREE and (lows[slot] != low or highs[slot] != high):
            slot = slot + 1 if slot + 1 < slots else 0
        return slot

    def _allocate(self, slots: int) -> None:
        self._high: array[int] = array("Q", bytes(8 * slots))
        self._low: array[int] = array("Q", bytes(8 * slots))
        self._offsets: array[int] = array("q", b"\xff" * (8 * slots))

    def _double(self) -> None:
        highs, lows, offsets = self._high, self._low, self._offsets
        self._allocate(min(2 * len(offsets), self._slots_max))
        for high, low, offset in zip(highs, lows, offsets, strict=True):
            if offset != _FREE:
                slot = self._find(high, low)
                self._high[slot] = high
                self._low[slot] = low
                self._offsets[slot] = offset
