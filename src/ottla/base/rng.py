"""Randomness as a port: a node draws from one seeded stream, so that a simulation can repeat it."""

from __future__ import annotations

import random  # noqa: TID251 - this is the adapter
import uuid

Random = random.Random


def system_random() -> random.Random:
    """A stream seeded by the operating system."""
    return random.Random(random.SystemRandom().getrandbits(128))  # noqa: S311 - ids, not secrets


def random_uuid(rng: random.Random) -> uuid.UUID:
    """A version-4 UUID whose text form does not start with '-', as Kafka makes them."""
    while True:
        made = uuid.UUID(int=rng.getrandbits(128), version=4)
        # 0b111110 in the first six bits would be '-' in URL-safe base64: awkward on a command line.
        if made.bytes[0] >> 2 != 0b111110:
            return made
