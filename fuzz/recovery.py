"""Starts on damaged data directories: `python -m fuzz.recovery [--seconds 30] [--seed 1]`.

A directory with a log of several segments is written, the power goes (or the stop is clean), then files are damaged:
bits flipped, ends cut off or grown, contents replaced, files removed. What must hold afterwards: the start succeeds
and takes no directory offline; offsets increase; after an unclean stop every batch has a right CRC, and everything
before the first damaged batch is still there (all of it, if only indexes and the like were damaged); the log takes
appends; and a second start finds the same. A failure prints the seed.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
from collections import Counter

import structlog

from ottla.base.errors import ApiError
from ottla.base.ids import TopicPartition, Uuid
from ottla.records.batch import CorruptBatch, crc_ok, read_header
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import EndTxnMarker, build_end_txn_batch
from ottla.records.validation import ValidBatch
from ottla.storage.log import log_files
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log_dirs import LogDirs, NewLog
from ottla.testing.disk import SimDisk, Survival
from ottla.testing.executor import InlineExecutor

NOW_MS = 1_790_000_000_000
ROOT = "/data"
PARTITION = TopicPartition("topic", 0)
DIRECTORY = f"{ROOT}/{PARTITION}"
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=150)
KEPT = {"meta.properties", ".lock"}


def valid(data: bytes) -> ValidBatch:
    return ValidBatch(memoryview(bytearray(data)), read_header(data))


def write_log(rng: random.Random, disk: SimDisk) -> LogDirs:
    """A log of some segments with idempotent and transactional producers."""
    dirs = LogDirs(disk, [ROOT], rng, InlineExecutor())
    dirs.claim("cluster", 1)
    dirs.load(lambda _: CONFIG, NOW_MS)
    dirs.create_logs([NewLog(PARTITION, Uuid(int=3), CONFIG)], NOW_MS, lambda _, result: None)
    (log,) = dirs.logs()
    sequence = 0
    for number in range(rng.randrange(5, 40)):
        producer = rng.choice((-1, 4))
        transactional = producer == 4 and rng.random() < 0.3
        records = [NewRecord(b"k", rng.randbytes(rng.randrange(60)), timestamp=NOW_MS + number)]
        if transactional and log.producers.first_unstable_offset is not None:
            marker = EndTxnMarker(rng.random() < 0.5, 0)
            log.append(
                valid(build_end_txn_batch(marker, timestamp=NOW_MS, producer_id=4, producer_epoch=0)),
                0,
                NOW_MS,
            )
        transactional |= producer == 4 and log.producers.first_unstable_offset is not None
        data = build_batch(
            records,
            producer_id=producer,
            producer_epoch=0 if producer == 4 else -1,
            base_sequence=sequence if producer == 4 else -1,
            transactional=transactional,
        )
        sequence += producer == 4
        log.append(valid(data), number // 10, NOW_MS)
        log.flush(NOW_MS)
        log.high_watermark = log.log_end_offset
        if rng.random() < 0.1:
            dirs.checkpoint()
    return dirs


def damage(rng: random.Random, disk: SimDisk) -> tuple[str, int]:
    """Break one file; returns its path and the first byte that is not what it was."""
    inside = [f"{DIRECTORY}/{name}" for name in disk.listdir(DIRECTORY)]
    beside = [f"{ROOT}/{name}" for name in disk.listdir(ROOT) if not disk.is_dir(f"{ROOT}/{name}")]
    path = rng.choice([path for path in inside + beside if path.rpartition("/")[2] not in KEPT])
    content = disk.read(path)
    at = rng.randrange(len(content)) if content else 0
    match rng.randrange(6):
        case 0 if content:
            changed = bytearray(content)
            changed[at] ^= 1 << rng.randrange(8)
        case 1:
            changed = bytearray(content[:at])
        case 2:
            at = len(content)
            changed = bytearray(content + rng.choice((bytes(200), rng.randbytes(50), content[:100])))
        case 3:
            changed = bytearray(content[:at] + rng.randbytes(rng.randrange(1, 80)) + content[at + 20 :])
        case 4:
            changed = bytearray(content[:at] + bytes(len(content) - at))
        case _:
            if path.endswith(log_files.LOG):
                return path, len(content)
            disk.remove(path)
            disk.sync_dir(path.rpartition("/")[0])
            return path, 0
    disk.replace(path, bytes(changed))
    return path, at


def start(rng: random.Random, disk: SimDisk) -> tuple[LogDirs, Log]:
    dirs = LogDirs(disk, [ROOT], rng, InlineExecutor())
    dirs.load(lambda _: CONFIG, NOW_MS)
    if not dirs.dirs[0].online:
        raise AssertionError(f"the directory went offline: {dirs.dirs[0].fault}")
    log = dirs.get(PARTITION)
    if log is None:
        raise AssertionError("the log is gone")
    return dirs, log


def read_log(log: Log, check_crc: bool) -> list[tuple[int, int]]:
    """(base offset, CRC) of all batches; raises if what is read is not what it should be."""
    found: list[tuple[int, int]] = []
    expected = 0
    try:
        for header, data in log.batches(log.log_start_offset, upto=log.log_end_offset):
            if check_crc and (header.base_offset < expected or not crc_ok(data)):
                raise AssertionError(f"an unsound batch at offset {header.base_offset} was kept")
            expected = header.last_offset + 1
            found.append((header.base_offset, header.crc))
    except CorruptBatch:
        # After a clean stop nothing is scanned: damage shows when it is read.
        if check_crc:
            raise
    return found


def first_damaged_offset(before: list[tuple[str, int, int]], path: str, at: int) -> int:
    """The first offset that may be missing: of the batch that holds the damaged byte, or none."""
    touched = [offset for file, end, offset in before if file == path and end > at]
    after = [offset for file, _, offset in before if file > path]
    return min(touched + after, default=2**63) if path.endswith(log_files.LOG) else 2**63


def try_one(seed: int, seen: Counter[str]) -> None:
    rng = random.Random(seed)
    disk = SimDisk(rng)
    dirs = write_log(rng, disk)
    log = dirs.get(PARTITION)
    if log is None:
        raise AssertionError("no log was written")
    batches = read_log(log, check_crc=True)
    places = [
        (segment.path, place.position + place.size, place.base_offset)
        for segment in log.segments
        for offset, _ in batches
        if (place := segment.find(offset, segment.written_size)) and place.base_offset == offset
    ]
    clean = rng.random() < 0.3
    if clean:
        dirs.close(NOW_MS)
    crashed = disk.crash(Survival.ALL if clean else rng.choice(list(Survival)))
    if not clean and rng.random() < 0.5:
        checkpoint = f"{ROOT}/recovery-point-offset-checkpoint"
        if crashed.exists(checkpoint):
            crashed.remove(checkpoint)
    scanned = not clean and not crashed.exists(f"{ROOT}/recovery-point-offset-checkpoint")
    path, at = damage(rng, crashed)
    seen[("clean " if clean else "crashed ") + path.rpartition("/")[2].lstrip("0123456789")] += 1
    dirs, log = start(rng, crashed)
    found = read_log(log, check_crc=scanned)
    if scanned:
        safe = first_damaged_offset(places, path, at)
        missing = [offset for offset, _ in batches if log.log_start_offset <= offset < safe]
        if [offset for offset, _ in found][: len(missing)] != missing:
            raise AssertionError(f"offsets {missing} should have stayed, {found} did ({path} at {at})")
    try:
        log.append(valid(build_batch([NewRecord(None, b"after", timestamp=NOW_MS)])), 99, NOW_MS)
    except ApiError as error:
        raise AssertionError(f"the log takes no appends: {error}") from error
    log.flush(NOW_MS)
    after = read_log(log, check_crc=scanned)
    _, again = start(rng, crashed.crash(Survival.NONE))
    if scanned and read_log(again, check_crc=True) != after:
        raise AssertionError("a second start found something else")


def main() -> int:
    """Run until the time is over or a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    seen: Counter[str] = Counter()
    deadline = time.monotonic() + options.seconds
    seed = options.seed
    while time.monotonic() < deadline:
        try:
            try_one(seed, seen)
        except Exception:
            print(f"seed {seed}", file=sys.stderr)
            raise
        seed += 1
    print(f"{seen.total()} directories, last seed {seed - 1}")
    for name, number in seen.most_common():
        print(f"{number:10} {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
