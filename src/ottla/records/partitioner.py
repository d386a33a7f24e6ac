"""The partition of a key by the default rule of Kafka's clients. Pure.

The choice is the client's; the broker never looks. This is here for tools, for the Spark sink, and to prove
that all clients agree.
"""

from __future__ import annotations

from ottla.records.batch import Buffer
from ottla.records.kernel import murmur2

__all__ = ["murmur2", "partition_for_key"]


def partition_for_key(key: Buffer, partitions: int) -> int:
    """Kafka's rule: murmur2 of the key's bytes without the sign bit, modulo the number of partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
