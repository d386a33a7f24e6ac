"""Single records."""

from __future__ import annotations

import pytest

from ottla.records.batch import CorruptBatch, read_header
from ottla.records.compression import Codec
from ottla.records.record import (
    Header,
    MalformedRecord,
    Record,
    append_record,
    iter_records,
    read_record,
    records_section,
)

from .batch_cases import NOW_MS, packed, patch, plain, raw_record


def test_record_bytes() -> None:
    out = bytearray()
    append_record(out, Record(1, -2, b"k", None, (Header("h", b""),)))
    # length 9; attributes, time -2, offset 1, key, null value, one header
    assert out.hex() == "14" + "00" + "03" + "02" + "026b" + "01" + "02" + "0268" + "00"
    assert read_record(out, 0, len(out)) == (Record(1, -2, b"k", None, (Header("h", b""),)), len(out))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        raw_record(b"\x00\x00\x00\x01\x01\x00", 7),
        raw_record(b"\x00\x00\x00\x01\x01\x00", 5),
        raw_record(b"\x00\x00\x00\x01\x01\x00\x00"),
        raw_record(b"\x00\x00\x00\x14\x01\x00"),
        raw_record(b"\x00\x00\x00\x01\x01\x01"),
        raw_record(b"\x00\x00\x00\x01\x01\x14"),
        raw_record(b"\x00\x00\x00\x01\x01\x02\x01\x00"),
        raw_record(b"", 0),
        raw_record(b"", -1),
    ],
)
def test_malformed_records(data: bytes) -> None:
    with pytest.raises(MalformedRecord):
        read_record(data, 0, len(data))


def test_iter_records_notices_wrong_counts() -> None:
    for count in (2, 4):
        with pytest.raises(CorruptBatch):
            list(iter_records(patch(plain(NOW_MS), records_count=count)))


def test_undecodable_sections_are_corrupt() -> None:
    batch = packed(b"no gzip", Codec.GZIP)(NOW_MS)
    with pytest.raises(CorruptBatch):
        list(iter_records(batch))
    large = plain(NOW_MS, 100, codec=Codec.ZSTD)
    with pytest.raises(CorruptBatch):
        records_section(large, read_header(large), limit=100)
