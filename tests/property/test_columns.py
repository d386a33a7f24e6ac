"""Columns: the compiled kernels and their reference agree byte for byte, on sound batches and on damaged ones."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ottla.base.errors import OttlaError
from ottla.records import _columns_reference as reference
from ottla.records.batch import HEADER_SIZE, TimestampType, compute_crc, read_header
from ottla.records.builder import NewRecord, build_batch
from ottla.records.column_buffers import ALL_COLUMNS, BinaryColumn, HeadersColumn
from ottla.records.compression import Codec
from ottla.records.control import EndTxnMarker, build_end_txn_batch
from ottla.records.partitioner import partition_for_key
from ottla.records.record import Header, iter_records, record_timestamp

_columns = pytest.importorskip("ottla.records._columns")
_column_rows = pytest.importorskip("ottla.records._column_rows")

# Both are about speed, which depends on who else uses the machine.
calm = settings(suppress_health_check=[HealthCheck.too_slow])
LONGS = st.integers(-(2**63), 2**63 - 1)
CELLS = st.none() | st.binary(max_size=40)
NAMES = st.text(st.characters(codec="utf-8"), max_size=6)
HEADERS = st.lists(st.builds(Header, NAMES, CELLS), max_size=3).map(tuple)
TIMES = st.integers(0, 2**41) | LONGS
NEW_RECORDS = st.builds(NewRecord, CELLS, CELLS, HEADERS, st.integers(-1, 2**41))
CODECS = st.sampled_from(list(Codec))
WANTED = st.sets(st.sampled_from(sorted(ALL_COLUMNS)))
PRODUCERS = st.integers(-1, 2)


@st.composite
def partitions(draw: st.DrawFn) -> bytes:
    """A partition's bytes: batches of all codecs with gaps between, transactions and their markers."""
    offset = draw(st.integers(0, 5))
    parts = []
    for _ in range(draw(st.integers(0, 5))):
        producer = draw(PRODUCERS)
        if producer >= 0 and draw(st.booleans()):
            marker = EndTxnMarker(draw(st.booleans()), 0)
            parts.append(
                build_end_txn_batch(
                    marker, timestamp=1, producer_id=producer, producer_epoch=0, base_offset=offset
                )
            )
            offset += 1
        else:
            records = draw(st.lists(NEW_RECORDS, max_size=6))
            parts.append(
                build_batch(
                    records,
                    base_offset=offset,
                    codec=draw(CODECS) if records else Codec.NONE,
                    producer_id=producer,
                    transactional=producer >= 0 and draw(st.booleans()),
                    timestamp_type=draw(st.sampled_from(TimestampType)),
                    log_append_time=draw(TIMES),
                )
                if records
                else emptied(offset)
            )
            offset += max(1, len(records))
        offset += draw(st.integers(0, 2))
    data = b"".join(parts)
    return data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 3)) == 0 else data


def emptied(offset: int) -> bytes:
    """What the cleaner leaves of a batch whose records are all gone."""
    batch = bytearray(build_batch([NewRecord(None, None)], base_offset=offset)[:HEADER_SIZE])
    batch[8:12] = (HEADER_SIZE - 12).to_bytes(4, "big")
    batch[57:61] = bytes(4)
    batch[17:21] = compute_crc(batch).to_bytes(4, "big")
    return bytes(batch)


def outcome(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        return call(*args, **options)
    except OttlaError as error:
        return type(error), str(error)


ABORTED = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), max_size=3)


@calm
@given(
    data=partitions(),
    start=st.integers(0, 12),
    length=st.integers(-1, 40),
    wanted=WANTED,
    aborted=ABORTED,
    rows=st.integers(0, 10),
    size=st.sampled_from([0, 50, 1 << 20]),
)
def test_both_read_the_same(
    data: bytes, start: int, length: int, wanted: set[str], aborted: Any, rows: int, size: int
) -> None:
    options = {
        "start_offset": start,
        "end_offset": start + length,
        "wanted": wanted,
        "aborted": aborted,
        "limit_rows": rows,
        "limit_bytes": size,
    }
    assert outcome(_columns.decode, data, **options) == outcome(reference.decode, data, **options)


@calm
@given(
    data=partitions(),
    changes=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=4),
    mend=st.booleans(),
    check_crc=st.booleans(),
)
@example(data=emptied(0), changes=[(60, 1)], mend=True, check_crc=True)
def test_both_refuse_the_same(
    data: bytes, changes: list[tuple[int, int]], mend: bool, check_crc: bool
) -> None:
    """Damage that the CRC detects, and damage with a CRC that was computed again."""
    damaged = bytearray(data)
    for position, value in changes:
        if damaged:
            damaged[position % len(damaged)] = value
    if mend and len(damaged) >= HEADER_SIZE:
        size = read_header(damaged).size_in_bytes
        if HEADER_SIZE <= size <= len(damaged):
            damaged[17:21] = compute_crc(damaged[:size]).to_bytes(4, "big")
    options = {
        "start_offset": 0,
        "end_offset": 2**62,
        "wanted": ALL_COLUMNS,
        "aborted": [(1, 0)],
        "check_crc": check_crc,
    }
    assert outcome(_columns.decode, damaged, **options) == outcome(reference.decode, damaged, **options)
    assert outcome(_columns.end_of, damaged, 3) == outcome(reference.end_of, damaged, 3)


@calm
@given(data=partitions(), aborted=ABORTED, rows=st.integers(1, 3), decode=st.sampled_from(["fast", "slow"]))
def test_in_pieces_is_as_at_once(data: bytes, aborted: Any, rows: int, decode: str) -> None:
    read = _columns.decode if decode == "fast" else reference.decode
    wanted = {"value", "offset"}
    whole = read(data, start_offset=0, end_offset=99, wanted=wanted, aborted=aborted)
    offsets, left, at = bytearray(), memoryview(data), 0
    while True:
        piece = read(left, start_offset=at, end_offset=99, wanted=wanted, aborted=aborted, limit_rows=rows)
        offsets += piece.offset
        left, at, aborted = left[piece.consumed :], piece.next_offset, piece.aborted
        if not piece.consumed:
            break
    assert (offsets, at) == (whole.offset, whole.next_offset)


def column(cells: Sequence[bytes | None], start: int = 0) -> BinaryColumn:
    """As Arrow would have it after a slice: `start` rows of something else come before."""
    offsets, data, bits = array("i", [0]), bytearray(), 0
    for row, cell in enumerate([b"?"] * start + list(cells)):
        data += cell or b""
        offsets.append(len(data))
        bits |= (cell is not None) << row
    size = (len(offsets) + 7) // 8
    nulls = sum(cell is None for cell in cells)
    return BinaryColumn(offsets.tobytes(), bytes(data), bits.to_bytes(size, "little"), nulls, start)


def headers_column(rows: Sequence[Sequence[Header]], start: int = 0) -> HeadersColumn:
    offsets, bits = array("i", [0] * (start + 1)), 0
    flat = [header for row in rows for header in row]
    for index, row in enumerate(rows, start):
        offsets.append(offsets[-1] + len(row))
        bits |= bool(row) << index
    names, contents = column([name.encode() for name, _ in flat]), column([value for _, value in flat])
    validity = bits.to_bytes((start + len(rows) + 8) // 8, "little")
    return HeadersColumn(offsets.tobytes(), names, contents, validity, 0, start)


ROWS = st.lists(st.tuples(CELLS, CELLS, HEADERS, TIMES), max_size=12)


@calm
@given(
    rows=ROWS,
    data=st.data(),
    codec=CODECS,
    limit=st.sampled_from([0, 90, 200, 1 << 20]),
    start=st.integers(0, 9),
    parts=st.sets(st.sampled_from(["keys", "headers", "timestamps", "selection"])),
)
def test_both_make_the_same_batches_and_what_is_made_is_read_back(
    rows: Any, data: st.DataObject, codec: Codec, limit: int, start: int, parts: set[str]
) -> None:
    given_options: dict[str, Any] = {
        "keys": column([row[0] for row in rows], start),
        "headers": headers_column([row[2] for row in rows], start),
        "timestamps": array("q", [row[3] for row in rows]).tobytes(),
        "selection": array("i"),
    }
    chosen = list(range(len(rows)))
    if "selection" in parts and rows:
        chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=15))
        given_options["selection"] = array("i", chosen).tobytes()
    elif "selection" in parts:
        given_options["selection"] = b""
    options = {name: given_options[name] for name in parts}
    values = column([row[1] for row in rows], start)
    made = [
        encode(values, len(rows), timestamp_ms=7, codec=codec, max_batch_bytes=limit, **options)
        for encode in (_column_rows.encode, reference.encode)
    ]
    assert made[0] == made[1]
    read = [
        (record.key, record.value, record.headers, record_timestamp(header, record))
        for batch in made[0]
        for header in [read_header(batch)]
        for record in iter_records(batch)
    ]
    if all(abs(row[3]) < 2**41 for row in rows):
        assert read == [
            (
                rows[row][0] if "keys" in parts else None,
                rows[row][1],
                rows[row][2] if "headers" in parts else (),
                rows[row][3] if "timestamps" in parts else 7,
            )
            for row in chosen
        ]


@calm
@given(
    offsets=st.lists(st.integers(-3, 9), max_size=6),
    data=st.binary(max_size=8),
    bits=st.none() | st.binary(max_size=2),
    start=st.integers(0, 3),
    rows=st.integers(0, 6),
    selection=st.none() | st.lists(st.integers(-2, 7), max_size=4),
)
def test_both_refuse_columns_that_lie(
    offsets: list[int], data: bytes, bits: bytes | None, start: int, rows: int, selection: list[int] | None
) -> None:
    liar = BinaryColumn(array("i", offsets).tobytes(), data, bits, 0, start)
    chosen = None if selection is None else array("i", selection).tobytes()
    honest = column([b"v"] * rows)
    headers = HeadersColumn(array("i", range(rows + 1)).tobytes(), liar, liar)
    for values, options in ((liar, {}), (honest, {"keys": liar}), (honest, {"headers": headers})):
        results = [
            outcome(encode, values, rows, timestamp_ms=1, selection=chosen, **options)
            for encode in (_column_rows.encode, reference.encode)
        ]
        assert results[0] == results[1]
    assert outcome(_column_rows.partition_of, liar, rows, 3) == outcome(reference.partition_of, liar, rows, 3)


@calm
@given(keys=st.lists(CELLS, max_size=20), partitions=st.integers(1, 7), keyless=st.integers(-1, 7))
def test_both_place_keys_as_every_client_does(
    keys: list[bytes | None], partitions: int, keyless: int
) -> None:
    chosen = _column_rows.partition_of(column(keys, 3), len(keys), partitions, keyless=keyless)
    expected = [keyless if key is None else partition_for_key(key, partitions) for key in keys]
    assert chosen == array("i", expected).tobytes()
    assert chosen == reference.partition_of(column(keys, 3), len(keys), partitions, keyless=keyless)
    grouped = outcome(_column_rows.rows_by_partition, chosen, partitions)
    assert grouped == outcome(reference.rows_by_partition, chosen, partitions)
    if all(0 <= one < partitions for one in expected):
        assert [list(array("i", bytes(rows))) for rows in grouped] == [
            [row for row, one in enumerate(expected) if one == partition] for partition in range(partitions)
        ]
