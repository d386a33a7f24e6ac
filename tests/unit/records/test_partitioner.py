"""The partition of a key is the one that every client chooses."""

from __future__ import annotations

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from ottla.records.partitioner import murmur2, partition_for_key

# Vectors as published with Kafka's own implementation, there as signed numbers.
VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", VECTORS)
def test_vectors(key: bytes) -> None:
    assert murmur2(key) == VECTORS[key] % 2**32


def test_same_as_other_clients() -> None:
    for number in range(2_000):
        key = b"key-%d" % (number * number)
        expected = kafka_python_murmur2(key) % 2**32
        assert murmur2(key) == expected
        assert aiokafka_murmur2(key) % 2**32 == expected


@pytest.mark.parametrize("partitions", [1, 3, 12, 1000])
def test_partition(partitions: int) -> None:
    for key, signed in VECTORS.items():
        assert partition_for_key(key, partitions) == (signed & 0x7FFFFFFF) % partitions
