"""Which produce requests belong to a transaction, and which data are refused before anything else is checked."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.produce.entries import has_transactional, is_transactional
from ottla.records.batch import ATTRIBUTES_OFFSET, LENGTH_OFFSET, MAGIC_OFFSET, TRANSACTIONAL_MASK
from ottla.records.builder import NewRecord, build_batch
from ottla.records.validation import BatchRefused
from ottla.wire.produce import TopicRecords


def batch(*, transactional: bool = False, **patches: int) -> memoryview:
    made = bytearray(
        build_batch(
            [NewRecord(b"k", b"v")],
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
        )
    )
    if "magic" in patches:
        made[MAGIC_OFFSET] = patches["magic"]
    if "length" in patches:
        made[LENGTH_OFFSET : LENGTH_OFFSET + 4] = patches["length"].to_bytes(4, "big", signed=True)
    return memoryview(made)


def topics(*entries: memoryview | None) -> list[TopicRecords]:
    return [(b"topic", list(enumerate(entries)))]


def test_one_transactional_batch_makes_the_request_transactional() -> None:
    assert has_transactional(topics(None, batch(), batch(transactional=True)))
    assert not has_transactional(topics(None, batch(), memoryview(b"")))


@pytest.mark.parametrize("records", [batch(transactional=True, magic=1), batch(transactional=True)[:-1]])
def test_other_formats_and_incomplete_batches_are_not_transactional(records: memoryview) -> None:
    assert records[ATTRIBUTES_OFFSET + 1] & TRANSACTIONAL_MASK
    assert not is_transactional(records)
    assert not has_transactional(topics(records))


@pytest.mark.parametrize(
    "records",
    [
        batch(magic=3),
        batch(magic=255),
        batch(transactional=True, magic=3),
        batch(magic=3)[:17],
        batch(length=13),
        batch(length=-1),
        batch(length=13)[:12],
    ],
)
def test_unknown_formats_refuse_the_request(records: memoryview) -> None:
    with pytest.raises(BatchRefused) as refused:
        has_transactional(topics(batch(), records, batch(transactional=True)))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert refused.value.message


def test_nothing_is_checked_behind_a_transactional_batch() -> None:
    assert has_transactional(topics(batch(transactional=True), batch(magic=3)))
