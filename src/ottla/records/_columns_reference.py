"""The kernel of columns in plain Python: the specification of `_columns.pyx`. Tests compare the two.

Input is not trusted: every length is checked against the available bytes, what a batch unpacks to is
bounded, and bytes that are no batch raise `CorruptBatch`.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence

from ottla.base.errors import LocalError
from ottla.records._reference import murmur2, wrap_long
from ottla.records.aborted import AbortedTransactions
from ottla.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Buffer,
    TimestampType,
    crc_ok,
    read_header,
)
from ottla.records.builder import assemble_batch
from ottla.records.column_buffers import (
    BYTES_LIMIT,
    BYTES_LIMIT_MAX,
    HEADERS,
    KEY,
    MICROSECONDS_MAX,
    MICROSECONDS_MIN,
    OFFSET,
    ROWS_LIMIT,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    VALUE,
    BinaryColumn,
    DecodedColumns,
    HeadersColumn,
    corrupt,
)
from ottla.records.compression import Codec, DecompressedTooLarge, DecompressionFailed, compress, decompress
from ottla.records.record import (
    DECOMPRESSED_BYTES_MAX,
    Header,
    MalformedRecord,
    Record,
    append_record,
    read_record,
)

_RECORD_MIN = 7
"""A record without key, value and headers."""
_BASE_OFFSET_MAX = 0x7FFF_FFFF_FFFF_FFFF - 0x8000_0000
_ABORT = b"\x00\x00"
"""The type of control record, behind two bytes of version."""


def decode(
    data: Buffer,
    *,
    start_offset: int,
    end_offset: int,
    wanted: Collection[str],
    aborted: Sequence[tuple[int, int]] = (),
    limit_rows: int = ROWS_LIMIT,
    limit_bytes: int = BYTES_LIMIT,
    check_crc: bool = True,
) -> DecodedColumns:
    """The records of one partition's fetched bytes with start_offset <= offset < end_offset, as columns.

    Control batches, batches of the `aborted` transactions and a batch cut off at the end give no rows. The limits are
    looked at between batches, so the batch that reaches one is still read whole. Raises CorruptBatch.
    """
    if limit_bytes > BYTES_LIMIT_MAX:
        raise LocalError(f"limit_bytes can be {BYTES_LIMIT_MAX} at most, not {limit_bytes}")
    view = memoryview(data)
    columns = _Columns(wanted)
    transactions = AbortedTransactions(aborted)
    position = 0
    next_offset = start_offset
    while next_offset < end_offset and columns.rows < limit_rows and columns.bytes < limit_bytes:
        size = _batch_size(view, position)
        if size == 0:
            break
        batch = view[position : position + size]
        header = _checked_header(batch)
        if header.base_offset >= end_offset:
            next_offset = end_offset
            break
        position += size
        transactions.reach(header.last_offset)
        if header.is_control:
            if transactions.is_open(header.producer_id) and is_abort(batch, header, check_crc):
                transactions.end(header.producer_id)
        elif header.last_offset >= start_offset and not (
            header.is_transactional and transactions.is_open(header.producer_id)
        ):
            _read_batch(batch, header, start_offset, end_offset, columns, check_crc)
        next_offset = min(end_offset, max(next_offset, header.last_offset + 1))
    return columns.finish(next_offset, position, transactions.left())


def end_of(data: Buffer, offset: int) -> int:
    """The offset after the last whole batch: where to fetch on. `offset` if there is no such batch."""
    view = memoryview(data)
    position = 0
    while size := _batch_size(view, position):
        offset = max(offset, _checked_header(view[position : position + size]).last_offset + 1)
        position += size
    return offset


class _Binary:
    def __init__(self) -> None:
        self.values: list[bytes | None] = []

    def finish(self) -> BinaryColumn:
        offsets = array("i", [0])
        data = bytearray()
        for value in self.values:
            data += value or b""
            offsets.append(len(data))
        validity, nulls = _bitmap([value is not None for value in self.values])
        return BinaryColumn(bytearray(offsets.tobytes()), data, validity, nulls)


class _Columns:
    """The columns so far."""

    def __init__(self, wanted: Collection[str]) -> None:
        self.rows = 0
        self.bytes = 0
        self._key = _Binary() if KEY in wanted else None
        self._value = _Binary() if VALUE in wanted else None
        self._offset = array("q") if OFFSET in wanted else None
        self._timestamp = array("q") if TIMESTAMP in wanted else None
        self._timestamp_type = array("i") if TIMESTAMP_TYPE in wanted else None
        self._headers: list[tuple[Header, ...]] | None = [] if HEADERS in wanted else None

    def add(self, offset: int, timestamp_ms: int, timestamp_type: int, record: Record) -> None:
        self.rows += 1
        if self._key is not None:
            self._key.values.append(record.key)
            self.bytes += len(record.key or b"")
        if self._value is not None:
            self._value.values.append(record.value)
            self.bytes += len(record.value or b"")
        if self._offset is not None:
            self._offset.append(offset)
        if self._timestamp is not None:
            self._timestamp.append(min(MICROSECONDS_MAX, max(MICROSECONDS_MIN, timestamp_ms * 1000)))
        if self._timestamp_type is not None:
            self._timestamp_type.append(timestamp_type)
        if self._headers is not None:
            self._headers.append(record.headers)
            self.bytes += sum(len(name.encode()) + len(content or b"") for name, content in record.headers)

    def finish(self, next_offset: int, consumed: int, aborted: list[tuple[int, int]]) -> DecodedColumns:
        return DecodedColumns(
            self.rows,
            next_offset,
            consumed,
            aborted,
            self._key.finish() if self._key is not None else None,
            self._value.finish() if self._value is not None else None,
            _raw(self._offset),
            _raw(self._timestamp),
            _raw(self._timestamp_type),
            _headers_column(self._headers) if self._headers is not None else None,
        )


def _raw(numbers: array[int] | None) -> Buffer | None:
    return None if numbers is None else bytearray(numbers.tobytes())


def _bitmap(valid: Sequence[bool]) -> tuple[Buffer | None, int]:
    """Validity of rows, and how many lack a value."""
    nulls = len(valid) - sum(valid)
    if not nulls:
        return None, 0
    bits = bytearray((len(valid) + 7) // 8)
    for row, there in enumerate(valid):
        bits[row >> 3] |= there << (row & 7)
    return bits, nulls


def _headers_column(rows: list[tuple[Header, ...]]) -> HeadersColumn:
    offsets = array("i", [0])
    keys, values = _Binary(), _Binary()
    for headers in rows:
        keys.values += [name.encode() for name, _ in headers]
        values.values += [content for _, content in headers]
        offsets.append(len(keys.values))
    validity, nulls = _bitmap([bool(headers) for headers in rows])
    return HeadersColumn(bytearray(offsets.tobytes()), keys.finish(), values.finish(), validity, nulls)


def _batch_size(view: memoryview, position: int) -> int:
    """The size of the whole batch at a position, 0 if it is cut off; raises at what cannot be one."""
    left = len(view) - position
    if left < HEADER_SIZE:
        return 0
    length = int.from_bytes(view[position + 8 : position + 12], "big", signed=True)
    base_offset = int.from_bytes(view[position : position + 8], "big", signed=True)
    if view[position + MAGIC_OFFSET] != MAGIC:
        raise corrupt(base_offset, f"its format is {view[position + MAGIC_OFFSET]}, only 2 can be read")
    if length < HEADER_SIZE - LOG_OVERHEAD:
        raise corrupt(base_offset, f"its length cannot be {length}")
    size = length + LOG_OVERHEAD
    return size if size <= left else 0


def _checked_header(batch: memoryview) -> BatchHeader:
    header = read_header(batch)
    if not 0 <= header.base_offset <= _BASE_OFFSET_MAX or header.last_offset_delta < 0:
        raise corrupt(header.base_offset, "impossible offsets")
    return header


def _section(batch: memoryview, header: BatchHeader, check_crc: bool) -> Buffer:
    """The records of a batch, unpacked; its count is known to be possible afterwards."""
    if check_crc and not crc_ok(batch):
        raise corrupt(header.base_offset, "wrong CRC")
    section: Buffer = batch[HEADER_SIZE:]
    if header.records_count == 0:
        return b""
    try:
        section = decompress(header.compression, section, DECOMPRESSED_BYTES_MAX)
    except (DecompressionFailed, DecompressedTooLarge) as error:
        raise corrupt(header.base_offset, str(error)) from None
    if not 0 <= header.records_count <= len(section) // _RECORD_MIN:
        raise corrupt(header.base_offset, f"its count of records cannot be {header.records_count}")
    return section


def is_abort(batch: memoryview, header: BatchHeader, check_crc: bool) -> bool:
    """Whether a control batch ends its producer's transaction with an abort."""
    section = _section(batch, header, check_crc)
    if not section:
        return False
    try:
        record, _ = read_record(section, 0, len(section))
    except MalformedRecord:
        raise corrupt(header.base_offset, "a record cannot be read") from None
    key = record.key or b""
    return len(key) >= 4 and key[2:4] == _ABORT


def _read_batch(
    batch: memoryview,
    header: BatchHeader,
    start_offset: int,
    end_offset: int,
    columns: _Columns,
    check_crc: bool,
) -> None:
    section = _section(batch, header, check_crc)
    appended = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    position = 0
    for _ in range(header.records_count):
        try:
            record, position = read_record(section, position, len(section))
        except MalformedRecord:
            raise corrupt(header.base_offset, "a record cannot be read") from None
        offset = header.base_offset + record.offset_delta
        if start_offset <= offset < end_offset:
            timestamp = (
                header.max_timestamp
                if appended
                else wrap_long(header.base_timestamp + record.timestamp_delta)
            )
            columns.add(offset, timestamp, header.timestamp_type, record)
    if position != len(section):
        raise corrupt(header.base_offset, "bytes are left over after its last record")


def encode(
    values: BinaryColumn,
    rows: int,
    *,
    keys: BinaryColumn | None = None,
    headers: HeadersColumn | None = None,
    timestamps: Buffer | None = None,
    timestamp_ms: int,
    selection: Buffer | None = None,
    codec: int = Codec.NONE,
    level: int | None = None,
    max_batch_bytes: int = 1 << 20,
) -> list[bytearray]:
    """Rows as record batches, ready to be sent, and to be stamped by an idempotent producer before.

    `rows` is how many rows the columns have, `selection` (int32) which of them to take, in that order; all if None.
    `timestamps` are int64 milliseconds, one per row of the columns; without them every record gets `timestamp_ms`.
    A batch ends before it would pass `max_batch_bytes` unpacked; a record larger than that has one of its own.
    """
    value_of = _Cells(values, rows)
    key_of = _Cells(keys, rows) if keys is not None else None
    headers_of = _HeaderCells(headers, rows) if headers is not None else None
    times = memoryview(timestamps).cast("B").cast("q") if timestamps is not None else None
    if times is not None and len(times) < rows:
        raise LocalError("there are fewer timestamps than rows")
    batches: list[bytearray] = []
    chosen = range(rows) if selection is None else memoryview(selection).cast("B").cast("i")
    if any(not 0 <= row < rows for row in chosen):
        raise LocalError(f"a selected row lies outside the {rows} rows")
    section, stamps = bytearray(), array("q")
    for row in chosen:
        timestamp = timestamp_ms if times is None else times[row]
        key, value = key_of[row] if key_of is not None else None, value_of[row]
        its_headers = headers_of[row] if headers_of is not None else ()
        piece = bytearray()
        base = stamps[0] if stamps else timestamp
        append_record(piece, Record(len(stamps), wrap_long(timestamp - base), key, value, its_headers))
        if stamps and HEADER_SIZE + len(section) + len(piece) > max_batch_bytes:
            batches.append(_batch(section, stamps, codec, level))
            section, stamps, piece = bytearray(), array("q"), bytearray()
            append_record(piece, Record(0, 0, key, value, its_headers))
        section += piece
        stamps.append(timestamp)
    if stamps:
        batches.append(_batch(section, stamps, codec, level))
    return batches


def _batch(section: bytearray, stamps: array[int], codec: int, level: int | None) -> bytearray:
    return assemble_batch(
        compress(codec, section, level),
        base_offset=0,
        leader_epoch=NO_LEADER_EPOCH,
        attributes=codec,
        last_offset_delta=len(stamps) - 1,
        base_timestamp=stamps[0],
        max_timestamp=max(stamps),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=len(stamps),
    )


class _Cells:
    """The rows of a binary column; nothing in it is trusted."""

    def __init__(self, column: BinaryColumn, rows: int) -> None:
        self._offsets = memoryview(column.offsets).cast("B").cast("i")
        self._data = memoryview(column.data).cast("B")
        self._validity = column.validity
        self._start = column.start
        check_rows(len(self._offsets), column.validity, column.start, rows)

    def __getitem__(self, row: int) -> bytes | None:
        row += self._start
        if not _is_valid(self._validity, row):
            return None
        begin, end = self._offsets[row], self._offsets[row + 1]
        if not 0 <= begin <= end <= len(self._data):
            raise LocalError("a column's offsets pass its data")
        return bytes(self._data[begin:end])


class _HeaderCells:
    """The rows of a headers column."""

    def __init__(self, column: HeadersColumn, rows: int) -> None:
        self._offsets = memoryview(column.offsets).cast("B").cast("i")
        self._validity = column.validity
        self._start = column.start
        check_rows(len(self._offsets), column.validity, column.start, rows)
        self._entries = entries_of(column)
        self._names = _Cells(column.keys, self._entries)
        self._contents = _Cells(column.values, self._entries)

    def __getitem__(self, row: int) -> tuple[Header, ...]:
        row += self._start
        if not _is_valid(self._validity, row):
            return ()
        begin, end = self._offsets[row], self._offsets[row + 1]
        if not 0 <= begin <= end <= self._entries:
            raise LocalError("a column's offsets pass its data")
        return tuple(Header(_name(self._names[at]), self._contents[at]) for at in range(begin, end))


def check_rows(offsets: int, validity: Buffer | None, start: int, rows: int) -> None:
    """Check that the buffers of a column are large enough for its rows."""
    if start < 0 or rows < 0 or offsets < start + rows + 1:
        raise LocalError("a column has fewer offsets than rows")
    if validity is not None and memoryview(validity).nbytes * 8 < start + rows:
        raise LocalError("a column has fewer bits of validity than rows")


def entries_of(column: HeadersColumn) -> int:
    """How many headers both child columns have."""
    return min(memoryview(one.offsets).nbytes // 4 - 1 - one.start for one in (column.keys, column.values))


def _is_valid(validity: Buffer | None, row: int) -> bool:
    return validity is None or bool(memoryview(validity).cast("B")[row >> 3] >> (row & 7) & 1)


def _name(name: bytes | None) -> str:
    if name is None:
        raise LocalError("a header has no key")
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise LocalError("the key of a header is not UTF-8") from None


def partition_of(keys: BinaryColumn, rows: int, partitions: int, *, keyless: int = -1) -> bytearray:
    """The partition of each row's key (int32) as Java's client chooses it; `keyless` for rows without a key."""
    if partitions <= 0:
        raise LocalError("a topic has at least one partition")
    chosen = array("i")
    cells = _Cells(keys, rows)
    for row in range(rows):
        key = cells[row]
        chosen.append(keyless if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions)
    return bytearray(chosen.tobytes())


def rows_by_partition(chosen: Buffer, partitions: int) -> list[bytearray]:
    """For each partition the rows (int32, ascending) that belong to it: what `encode` takes as a selection."""
    found = [array("i") for _ in range(partitions)]
    for row, partition in enumerate(memoryview(chosen).cast("B").cast("i")):
        if not 0 <= partition < partitions:
            raise LocalError(f"row {row} is assigned to partition {partition}, the topic has {partitions}")
        found[partition].append(row)
    return [bytearray(rows.tobytes()) for rows in found]
