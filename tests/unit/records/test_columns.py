"""Columns in Arrow's own eyes, and what rows are left out."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from ottla.base.errors import LocalError
from ottla.records import _column_rows, _columns, _columns_reference, columns
from ottla.records.batch import CorruptBatch, TimestampType
from ottla.records.builder import NewRecord, build_batch
from ottla.records.column_buffers import ALL_COLUMNS, BYTES_LIMIT_MAX, BinaryColumn, DecodedColumns
from ottla.records.control import EndTxnMarker, build_end_txn_batch
from ottla.records.record import Header

pa = pytest.importorskip("pyarrow")


class _Compiled:
    decode = staticmethod(_columns.decode)
    encode = staticmethod(_column_rows.encode)


@pytest.fixture(params=[_Compiled, _columns_reference], ids=["compiled", "reference"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    chosen: ModuleType = request.param
    return chosen


@pytest.mark.parametrize(("value", "compiled"), [("1", "False"), ("0", "True")])
def test_environment_chooses(value: str, compiled: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", "from ottla.records import columns; print(columns.COMPILED)"],
        env=os.environ | {"OTTLA_PURE": value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == compiled


def arrow_of(column: BinaryColumn, rows: int) -> Any:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    made = pa.Array.from_buffers(pa.binary(), rows, buffers, column.nulls)
    made.validate(full=True)
    return made


def values_of(made: DecodedColumns) -> list[bytes | None]:
    assert made.value is not None
    found: list[bytes | None] = arrow_of(made.value, made.rows).to_pylist()
    return found


def batch(*values: bytes | None, offset: int = 0, **options: Any) -> bytes:
    return build_batch([NewRecord(None, value, (), 5) for value in values], base_offset=offset, **options)


def read(kernel: Any, data: bytes, start: int = 0, end: int = 1000, **options: Any) -> DecodedColumns:
    made: DecodedColumns = kernel.decode(
        data, start_offset=start, end_offset=end, wanted={"value", "offset"}, **options
    )
    return made


def test_arrow_reads_the_contents_of_the_records(kernel: Any) -> None:
    records = [
        NewRecord(b"k", b"v", (Header("a", b"1"), Header("ü", None)), 1_000),
        NewRecord(None, None, (), 2_000),
        NewRecord(b"", b"", (Header("", b""),), -1),
    ]
    made = kernel.decode(
        build_batch(records, base_offset=7), start_offset=0, end_offset=99, wanted=ALL_COLUMNS
    )
    assert (made.rows, made.next_offset) == (3, 10)
    assert arrow_of(made.key, 3).to_pylist() == [b"k", None, b""]
    assert arrow_of(made.value, 3).to_pylist() == [b"v", None, b""]
    assert list(memoryview(made.offset).cast("q")) == [7, 8, 9]
    assert list(memoryview(made.timestamp).cast("q")) == [1_000_000, 2_000_000, -1_000]
    assert list(memoryview(made.timestamp_type).cast("i")) == [0, 0, 0]
    headers = made.headers
    names = arrow_of(headers.keys, headers.entries).cast(pa.string())
    entries = pa.StructArray.from_arrays([names, arrow_of(headers.values, headers.entries)], ["key", "value"])
    lists = pa.Array.from_buffers(
        pa.list_(entries.type),
        3,
        [pa.py_buffer(headers.validity), pa.py_buffer(headers.offsets)],
        headers.nulls,
        children=[entries],
    )
    lists.validate(full=True)
    assert lists.to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "ü", "value": None}],
        None,
        [{"key": "", "value": b""}],
    ]


def test_time_of_the_append_is_that_of_all_its_records(kernel: Any) -> None:
    data = batch(b"1", b"2", timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=9)
    made = kernel.decode(data, start_offset=0, end_offset=9, wanted={"timestamp", "timestampType"})
    assert list(memoryview(made.timestamp).cast("q")) == [9_000, 9_000]
    assert list(memoryview(made.timestamp_type).cast("i")) == [1, 1]
    assert made.key is made.value is made.offset is made.headers is None


@pytest.mark.parametrize(("milliseconds", "expected"), [(2**63 - 1, 2**63 - 1), (-(2**63), -(2**63))])
def test_a_time_beyond_64_bits_is_held_at_the_limit(kernel: Any, milliseconds: int, expected: int) -> None:
    data = batch(b"x", timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=milliseconds)
    made = kernel.decode(data, start_offset=0, end_offset=9, wanted={"timestamp"})
    assert list(memoryview(made.timestamp).cast("q")) == [expected]


def test_only_offsets_in_the_range_are_read(kernel: Any) -> None:
    data = batch(b"0", b"1", b"2") + batch(b"5", b"6", offset=5)
    made = read(kernel, data, 1, 6)
    assert values_of(made) == [b"1", b"2", b"5"]
    assert made.next_offset == 6


def test_a_gap_up_to_the_end_is_passed(kernel: Any) -> None:
    """Offsets 3 and 4 were compacted away: who waits for offset 5 is done."""
    data = batch(b"0", b"1", b"2") + batch(b"5", offset=5)
    made = read(kernel, data, 0, 5)
    assert values_of(made) == [b"0", b"1", b"2"]
    assert made.next_offset == 5


def test_a_batch_cut_off_is_left_for_the_next_fetch(kernel: Any) -> None:
    first = batch(b"0", b"1")
    made = read(kernel, first + batch(b"2", offset=2)[:-1])
    assert (values_of(made), made.next_offset, made.consumed) == ([b"0", b"1"], 2, len(first))


def test_limits_end_at_a_batch(kernel: Any) -> None:
    data = batch(b"0", b"1") + batch(b"2", offset=2)
    assert values_of(read(kernel, data, limit_rows=1)) == [b"0", b"1"]
    assert values_of(read(kernel, data, limit_bytes=2)) == [b"0", b"1"]
    assert values_of(read(kernel, data, limit_rows=3, limit_bytes=3)) == [b"0", b"1", b"2"]
    with pytest.raises(LocalError, match="limit_bytes"):
        read(kernel, data, limit_bytes=BYTES_LIMIT_MAX + 1)


def transactional(value: bytes, producer_id: int, offset: int) -> bytes:
    return batch(value, offset=offset, producer_id=producer_id, producer_epoch=0, transactional=True)


def marker(committed: bool, producer_id: int, offset: int) -> bytes:
    return build_end_txn_batch(
        EndTxnMarker(committed, 0), timestamp=1, producer_id=producer_id, producer_epoch=0, base_offset=offset
    )


TRANSACTIONS = b"".join(
    [
        transactional(b"aborted", 1, 0),
        transactional(b"committed", 2, 1),
        batch(b"plain", offset=2),
        marker(False, 1, 3),
        marker(True, 2, 4),
        transactional(b"later", 1, 5),
        marker(True, 1, 6),
    ]
)


def test_aborted_records_and_markers_are_left_out(kernel: Any) -> None:
    made = read(kernel, TRANSACTIONS, aborted=[(1, 0)])
    assert values_of(made) == [b"committed", b"plain", b"later"]
    assert (made.next_offset, made.aborted) == (7, [])
    everything = read(kernel, TRANSACTIONS)
    assert values_of(everything) == [b"aborted", b"committed", b"plain", b"later"]


def test_aborted_transactions_that_are_still_open_are_returned_at_a_limit(kernel: Any) -> None:
    first = read(kernel, TRANSACTIONS, aborted=[(1, 0)], limit_rows=1)
    assert first.aborted == [(1, 0)]
    rest = read(kernel, TRANSACTIONS[first.consumed :], first.next_offset, aborted=first.aborted)
    assert values_of(first) + values_of(rest) == [b"committed", b"plain", b"later"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ((70, 99), "wrong CRC"),
        ((16, 1), "its format is 1"),
        ((11, 5), "its length cannot be 5"),
        ((23, 255), "impossible offsets"),
    ],
)
def test_damage_is_named(kernel: Any, damage: tuple[int, int], said: str) -> None:
    data = bytearray(batch(b"value"))
    data[damage[0]] = damage[1]
    with pytest.raises(CorruptBatch, match=said):
        read(kernel, bytes(data))


def test_a_batch_larger_than_the_limit_has_one_record(kernel: Any) -> None:
    array = pa.array([b"a" * 200, b"b" * 200, b"c"], pa.binary())
    validity, offsets, data = array.buffers()
    column = BinaryColumn(offsets, data, validity, array.null_count, array.offset)
    made = kernel.encode(column, 3, timestamp_ms=1, max_batch_bytes=100)
    assert [int.from_bytes(one[57:61], "big") for one in made] == [1, 1, 1]


def test_a_slice_of_an_arrow_array_is_taken_where_it_starts(kernel: Any) -> None:
    array = pa.array([b"no", None, b"b", b"c"], pa.binary())[1:]
    validity, offsets, data = array.buffers()
    column = BinaryColumn(offsets, data, validity, array.null_count, array.offset)
    (made,) = kernel.encode(column, 3, timestamp_ms=1)
    assert values_of(columns.decode(made, start_offset=0, end_offset=9, wanted={"value"})) == [
        None,
        b"b",
        b"c",
    ]
