"""Throws mutated batches at the validator: `python -m fuzz.batch_validator [--seconds 30] [--seed 1]`.

For every input three things must hold: the compiled kernel and its reference agree; the answer is a batch or
BatchRefused, never another exception; what is accepted has a right CRC and readable records (packed ones
excepted: Kafka stores those with wrong record lengths too). A failure prints the seed and the bytes.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from ottla.records import _reference, kernel
from ottla.records.batch import HEADER_SIZE, TimestampType, compute_crc, crc_ok, read_header
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.record import Header, iter_records
from ottla.records.validation import BatchRefused, BatchRules, validate

NOW_MS = 1_790_000_000_000
EDGES = (0, 1, 0x7F, 0x80, 0xFF)
RULES = (
    BatchRules(decompressed_bytes_max=1 << 20),
    BatchRules(compression_type="lz4", decompressed_bytes_max=1 << 20),
    BatchRules(compression_type="uncompressed", compacted=True, decompressed_bytes_max=1 << 16),
    BatchRules(timestamp_type=TimestampType.LOG_APPEND_TIME, max_message_bytes=300),
    BatchRules(timestamp_before_max_ms=1000, timestamp_after_max_ms=1000),
)


def make_batch(rng: random.Random) -> bytearray:
    """A sound batch."""
    records = [
        NewRecord(
            rng.choice((None, b"", b"key")),
            rng.choice((None, b"", b"value", rng.randbytes(100), bytes(1000))),
            tuple(Header("h", rng.choice((None, b"x"))) for _ in range(rng.randrange(3))),
            NOW_MS + rng.randrange(-2000, 2000),
        )
        for _ in range(rng.randrange(1, 6))
    ]
    return bytearray(build_batch(records, codec=rng.choice(list(Codec))))


def mutate(rng: random.Random, data: bytearray) -> bytearray:
    """A few changes of the kinds that break parsers; mostly the CRC is made right again afterwards."""
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 8))):
        place = rng.randrange(len(data)) if data else 0
        match rng.randrange(6):
            case 0 if data:
                data[place] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[place] = rng.choice(EDGES)
            case 2:
                data[place:place] = bytes(rng.choice(EDGES) for _ in range(rng.randrange(1, 12)))
            case 3:
                del data[place : place + rng.randrange(1, 12)]
            case 4:
                data[place : place + 4] = rng.choice(
                    (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00")
                )
            case _:
                data += data[place:]
    if len(data) >= HEADER_SIZE and rng.random() < 0.9:
        if rng.random() < 0.9:
            data[8:12] = (len(data) - 12).to_bytes(4, "big")
        data[17:21] = compute_crc(data).to_bytes(4, "big")
    return data


def try_one(rng: random.Random, data: bytearray, seen: Counter[str]) -> None:
    """One input through everything; raises where a promise is broken."""
    for limit, zstd_allowed in ((1_048_588, True), (200, False)):
        expected = _reference.check_batch(data, limit, zstd_allowed)
        found = kernel.check_batch(data, limit, zstd_allowed)
        if found != expected:
            raise AssertionError(f"kernel {found}, reference {expected}")
    count = rng.randrange(-1, 8)
    for strict in (True, False):
        expected_walk = _reference.walk(data, 0, len(data), count, -1, strict=strict)
        if kernel.walk(data, 0, len(data), count, -1, strict=strict) != expected_walk:
            raise AssertionError(f"walks of {count} records differ, strict={strict}")
    rules = rng.choice(RULES)
    try:
        valid = validate(memoryview(bytearray(data)), rules, NOW_MS, api_version=rng.choice((3, 13)))
    except BatchRefused as refused:
        seen[refused.code.name] += 1
        return
    seen["accepted"] += 1
    if not crc_ok(valid.data) or valid.header != read_header(valid.data):
        raise AssertionError("an accepted batch is inconsistent")
    if valid.header.compression == Codec.NONE or valid.rewritten:
        read = sum(1 for _ in iter_records(valid.data))
        if read != valid.header.records_count:
            raise AssertionError(f"{read} records of {valid.header.records_count} can be read")


def main() -> int:
    """Run until the time is over or a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    options = parser.parse_args()
    seen: Counter[str] = Counter()
    deadline = time.monotonic() + options.seconds
    seed = options.seed
    while time.monotonic() < deadline:
        rng = random.Random(seed)
        data = mutate(rng, make_batch(rng))
        kept = bytes(data)
        try:
            try_one(rng, data, seen)
        except Exception:
            print(f"seed {seed}: {kept.hex()}", file=sys.stderr)
            raise
        seed += 1
    print(f"{seen.total()} inputs, compiled kernel: {kernel.COMPILED}, last seed {seed - 1}")
    for name, number in seen.most_common():
        print(f"{number:10} {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
