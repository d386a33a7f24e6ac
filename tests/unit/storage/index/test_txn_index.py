from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base.errors import InvariantViolation
from ottla.base.files import OsDisk
from ottla.storage.index.sparse_index import CorruptIndex
from ottla.storage.index.txn_index import AbortedTxn, TxnIndex

KAFKA_BYTES = bytes.fromhex(
    "0000 0000000000000004 0000000000000100 0000000000000102 00000000000000ff"
    "0000 0000000000000003 00000000000000ff 0000000000000103 0000000000000104"
)
"""Two interleaved aborted transactions as Apache Kafka wrote them."""
INNER = AbortedTxn(4, 0x100, 0x102, 0xFF)
OUTER = AbortedTxn(3, 0xFF, 0x103, 0x104)


def index_at(path: Path) -> TxnIndex:
    return TxnIndex(OsDisk(), str(path / "i.txnindex"), 0)


def test_files_are_those_of_kafka(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.append(INNER)
    index.append(OUTER)
    index.flush()
    assert (tmp_path / "i.txnindex").read_bytes() == KAFKA_BYTES
    assert list(index_at(tmp_path).entries()) == [INNER, OUTER]


def test_a_segment_without_aborted_transactions_has_no_file(tmp_path: Path) -> None:
    index_at(tmp_path).close()
    assert not (tmp_path / "i.txnindex").exists()


@pytest.mark.parametrize(
    ("start", "end", "found", "complete"),
    [
        (0, 0xFF, [], True),  # the inner one's last stable offset already reaches the end
        (0, 0x100, [OUTER], True),
        (0, 0x104, [INNER, OUTER], True),
        (0, 0x105, [INNER, OUTER], False),
        (0x103, 0x104, [OUTER], True),
        (0x104, 0x110, [], False),
    ],
)
def test_collecting(tmp_path: Path, start: int, end: int, found: list[AbortedTxn], complete: bool) -> None:
    (tmp_path / "i.txnindex").write_bytes(KAFKA_BYTES)
    assert index_at(tmp_path).collect(start, end) == (found, complete)


def test_truncation_and_order(tmp_path: Path) -> None:
    (tmp_path / "i.txnindex").write_bytes(KAFKA_BYTES)
    index = index_at(tmp_path)
    index.truncate_to(0x103)
    assert list(index.entries()) == [INNER]
    with pytest.raises(InvariantViolation):
        index.append(INNER)
    index.close()
    assert (tmp_path / "i.txnindex").read_bytes() == KAFKA_BYTES[:34]


def test_truncation_is_by_the_offset_of_the_marker(tmp_path: Path) -> None:
    (tmp_path / "i.txnindex").write_bytes(KAFKA_BYTES)
    index = index_at(tmp_path)
    index.truncate_to(0x102)
    assert list(index.entries()) == []
    index.close()


@pytest.mark.parametrize(("base_offset", "sound"), [(0x102, True), (0x103, False)])
def test_an_entry_belongs_to_its_segment(tmp_path: Path, base_offset: int, sound: bool) -> None:
    (tmp_path / "i.txnindex").write_bytes(KAFKA_BYTES)
    index = TxnIndex(OsDisk(), str(tmp_path / "i.txnindex"), base_offset)
    if sound:
        index.check()
    else:
        with pytest.raises(CorruptIndex):
            index.check()


@pytest.mark.parametrize(
    "data",
    [
        KAFKA_BYTES[:10] + b"\0\0\0\0\0\0\x01\x03" + KAFKA_BYTES[18:],
        KAFKA_BYTES[:40],
        KAFKA_BYTES + bytes(34),
        b"\0\1" + KAFKA_BYTES[2:],
        KAFKA_BYTES[34:] + KAFKA_BYTES[:34],
    ],
)
def test_corruption_is_found(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "i.txnindex").write_bytes(data)
    with pytest.raises(CorruptIndex):
        index_at(tmp_path).check()
