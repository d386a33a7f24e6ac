"""Decisions collected in one batch."""

from __future__ import annotations

from ottla.coordinator.runtime.codec import encode_key, encode_value
from ottla.coordinator.runtime.open_batch import OpenBatch
from ottla.records.batch import HEADER_SIZE, crc_ok, read_header
from ottla.records.record import iter_records
from tests.support.shards import word


def test_several_decisions_make_one_batch() -> None:
    batch = OpenBatch(10, 1000)
    assert batch.add([word("a"), word("b")], 500)
    assert batch.add([word("c", None)], 400)
    assert batch.end_offset == 13
    data = batch.build()
    header = read_header(data)
    assert crc_ok(data)
    assert (header.records_count, header.last_offset_delta) == (3, 2)
    assert (header.base_timestamp, header.max_timestamp) == (500, 500)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert not header.is_transactional
    records = list(iter_records(data))
    assert [(each.offset_delta, each.timestamp_delta) for each in records] == [(0, 0), (1, 0), (2, -100)]
    assert [each.key for each in records] == [encode_key(word(text).key) for text in "abc"]
    assert [each.value for each in records] == [encode_value(word("a")), encode_value(word("b")), None]


def test_a_transactional_batch_has_its_producer() -> None:
    batch = OpenBatch(0, 1000)
    batch.add([word("a")], 1)
    header = read_header(batch.build(17, 3, transactional=True))
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (17, 3, -1)


def test_a_decision_that_does_not_fit_changes_nothing() -> None:
    whole = OpenBatch(0, 1000)
    whole.add([word("a"), word("b")], 1)
    size = len(whole.build())
    batch = OpenBatch(0, size)
    assert batch.add([word("a")], 1)
    before = bytes(batch.build())
    assert not batch.add([word("b"), word("c")], 2)
    assert bytes(batch.build()) == before
    assert batch.add([word("b")], 1)
    assert len(batch.build()) == size


def test_a_batch_with_a_tiny_limit_accepts_nothing() -> None:
    batch = OpenBatch(0, HEADER_SIZE)
    assert not batch.add([word("a")], 1)
    assert batch.count == 0
