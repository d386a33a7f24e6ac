from __future__ import annotations

import pytest

from ottla.base.rng import Random
from ottla.records.batch import read_header
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.segment import Segment
from ottla.testing.disk import SimDisk
from tests.support.logs import NOW_MS, append, batch, open_at, truncate


def open_log(**settings: int) -> Log:
    return open_at(SimDisk(Random(1)), "/data/topic-0", LogConfig(**settings))


def test_a_reader_continues_where_it_stopped_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(index_interval_bytes=1 << 20)
    append(log, batch(3), batch(3))
    assert log.read(0, 10_000, upto=6).size == log.size_bytes
    end = log.size_bytes
    append(log, batch(2))
    monkeypatch.setattr(Segment, "find", None)
    found = log.read(6, 10_000, upto=8)
    assert (found.position, found.size) == (end, log.size_bytes - end)


def test_a_reader_at_a_limit_continues_with_the_batch_that_follows_it() -> None:
    log = open_log(index_interval_bytes=1 << 20)
    append(log, *[batch(3) for _ in range(10)])
    for limit in range(0, 30, 3):
        first = log.read(0, 10_000, upto=limit)
        rest = log.read(limit, 10_000, upto=30)
        assert first.size + rest.size == log.size_bytes
        assert read_header(rest.read()).base_offset == limit


def test_a_reader_finds_other_batches_after_a_truncation() -> None:
    log = open_log(index_interval_bytes=1 << 20)
    append(log, batch(3), batch(3), batch(3))
    assert log.read(0, 10_000, upto=9).size == log.size_bytes
    truncate(log, 3, NOW_MS)
    append(log, batch(6, value=bytes(50)), batch(2))
    found = log.read(9, 10_000, upto=11)
    assert read_header(found.read()).base_offset == 9


def test_a_new_segment_has_its_own_positions() -> None:
    log = open_log(segment_bytes=200)
    for count in range(1, 30):
        append(log, batch(1))
        found = log.read(count - 1, 10_000, upto=count)
        assert read_header(found.read()).base_offset == count - 1
