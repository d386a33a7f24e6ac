# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: overflowcheck=False
"""Batches to columns, compiled. `_columns_reference.py` is the specification, in plain Python.

Before a batch is read, every column gets room for all that its records section could hold, so the loop over records
needs no check of room. All positions are compared with the end before a byte is read; arithmetic on lengths is done as
`end - position`, which cannot wrap.
"""

from ottla.base.crc import crc32c

from ottla.base.errors import LocalError
from ottla.records._columns_reference import is_abort
from ottla.records.aborted import AbortedTransactions
from ottla.records.batch import read_header
from ottla.records.column_buffers import (
    BYTES_LIMIT,
    BYTES_LIMIT_MAX,
    HEADERS,
    KEY,
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
from ottla.records.compression import DecompressedTooLarge, DecompressionFailed, decompress
from ottla.records.record import DECOMPRESSED_BYTES_MAX

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize

from ottla.records._inline cimport is_ascii, read_i64, read_u32, varint32, varint64

cdef enum:
    LOG_OVERHEAD = 12
    MAGIC_OFFSET = 16
    CRC_OFFSET = 17
    ATTRIBUTES_OFFSET = 21
    RECORDS_OFFSET = 61
    CODEC_MASK = 0x07
    TIMESTAMP_TYPE_MASK = 0x08
    TRANSACTIONAL_MASK = 0x10
    CONTROL_MASK = 0x20
    RECORD_MIN = 7
    HEADER_MIN = 2
    # A byte that is no UTF-8 becomes U+FFFD, which takes three.
    REPLACED_MAX = 3

    READ = 0
    MALFORMED = 1
    LEFT_OVER = 2

cdef int64_t BASE_OFFSET_MAX = INT64_MAX - 0x80000000


cdef class Room:
    """Bytes that grow at the end."""

    cdef bytearray made
    cdef uint8_t* at
    cdef Py_ssize_t used
    cdef Py_ssize_t capacity

    def __cinit__(self):
        self.made = bytearray()
        self.at = NULL
        self.used = 0
        self.capacity = 0

    cdef int reserve(self, Py_ssize_t more) except -1:
        if self.capacity - self.used < more:
            self.capacity = max(self.used + more, 2 * self.capacity)
            PyByteArray_Resize(self.made, self.capacity)
            self.at = <uint8_t*>PyByteArray_AS_STRING(self.made)
        return 0

    cdef int reserve_zeroed(self, Py_ssize_t size) except -1:
        """Room for `size` bytes in all; what is new is zero."""
        if size > self.used:
            self.reserve(size - self.used)
            memset(self.at + self.used, 0, size - self.used)
            self.used = size
        return 0

    cdef bytearray finish(self, Py_ssize_t used):
        PyByteArray_Resize(self.made, used)
        return self.made


cdef class Cells:
    """A binary column being made."""

    cdef Room offsets
    cdef Room data
    cdef Room bits
    cdef Py_ssize_t rows
    cdef Py_ssize_t nulls

    def __cinit__(self):
        self.offsets = Room()
        self.data = Room()
        self.bits = Room()
        self.rows = 0
        self.nulls = 0
        self.offsets.reserve_zeroed(sizeof(int32_t))

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1:
        self.offsets.reserve(rows * sizeof(int32_t))
        self.data.reserve(size)
        self.bits.reserve_zeroed((self.rows + rows + 7) >> 3)
        return 0

    cdef inline void put(self, const uint8_t* data, int32_t size) noexcept:
        """One more row; a negative size is null."""
        if size >= 0:
            memcpy(self.data.at + self.data.used, data, size)
            self.data.used += size
            self.bits.at[self.rows >> 3] |= <uint8_t>(1 << (self.rows & 7))
        else:
            self.nulls += 1
        self.rows += 1
        (<int32_t*>self.offsets.at)[self.rows] = <int32_t>self.data.used
        self.offsets.used += sizeof(int32_t)

    cdef object finish(self):
        bits = self.bits.finish((self.rows + 7) >> 3) if self.nulls else None
        offsets = self.offsets.finish(self.offsets.used)
        return BinaryColumn(offsets, self.data.finish(self.data.used), bits, self.nulls)


cdef class Columns:
    """The columns so far; None for those that are not wanted."""

    cdef Cells key
    cdef Cells value
    cdef Cells names
    cdef Cells contents
    cdef Room offset
    cdef Room timestamp
    cdef Room timestamp_type
    cdef Room lists
    cdef Room list_bits
    cdef Py_ssize_t no_headers
    cdef Py_ssize_t rows

    def __cinit__(self, wanted):
        self.rows = 0
        self.no_headers = 0
        self.key = Cells() if KEY in wanted else None
        self.value = Cells() if VALUE in wanted else None
        self.offset = Room() if OFFSET in wanted else None
        self.timestamp = Room() if TIMESTAMP in wanted else None
        self.timestamp_type = Room() if TIMESTAMP_TYPE in wanted else None
        if HEADERS in wanted:
            self.names, self.contents, self.lists, self.list_bits = Cells(), Cells(), Room(), Room()
            self.lists.reserve_zeroed(sizeof(int32_t))

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1:
        """Room for that many records in that many bytes."""
        if self.key is not None:
            self.key.reserve(rows, size)
        if self.value is not None:
            self.value.reserve(rows, size)
        if self.offset is not None:
            self.offset.reserve(rows * sizeof(int64_t))
        if self.timestamp is not None:
            self.timestamp.reserve(rows * sizeof(int64_t))
        if self.timestamp_type is not None:
            self.timestamp_type.reserve(rows * sizeof(int32_t))
        if self.lists is not None:
            self.lists.reserve(rows * sizeof(int32_t))
            self.list_bits.reserve_zeroed((self.rows + rows + 7) >> 3)
            self.names.reserve(size // HEADER_MIN, size * REPLACED_MAX)
            self.contents.reserve(size // HEADER_MIN, size)
        return 0

    cdef Py_ssize_t bytes_used(self):
        cdef Py_ssize_t used = 0
        if self.key is not None:
            used += self.key.data.used
        if self.value is not None:
            used += self.value.data.used
        if self.lists is not None:
            used += self.names.data.used + self.contents.data.used
        return used

    cdef object finish(self, int64_t next_offset, Py_ssize_t consumed, list aborted):
        headers = None
        if self.lists is not None:
            bits = self.list_bits.finish((self.rows + 7) >> 3) if self.no_headers else None
            lists = self.lists.finish(self.lists.used)
            headers = HeadersColumn(lists, self.names.finish(), self.contents.finish(), bits, self.no_headers)
        return DecodedColumns(
            self.rows,
            next_offset,
            consumed,
            aborted,
            self.key.finish() if self.key is not None else None,
            self.value.finish() if self.value is not None else None,
            self.offset.finish(self.offset.used) if self.offset is not None else None,
            self.timestamp.finish(self.timestamp.used) if self.timestamp is not None else None,
            self.timestamp_type.finish(self.timestamp_type.used) if self.timestamp_type is not None else None,
            headers,
        )


cdef struct Batch:
    int64_t base_offset
    int64_t last_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int32_t count
    uint8_t attributes


cdef int put_name(Cells names, const uint8_t* data, int32_t size) except -1:
    """A header's key; Arrow's strings are UTF-8, so what is not is replaced."""
    if is_ascii(data, size):
        names.put(data, size)
    else:
        text = data[:size].decode("utf-8", "replace").encode()
        names.put(<const uint8_t*><const char*>text, <int32_t>len(text))
    return 0


cdef Py_ssize_t read_headers(
    Columns columns, const uint8_t* data, Py_ssize_t position, Py_ssize_t end, int32_t count, bint keep
) except -3:
    """Past the headers of a record, which are kept if wanted; negative where they are malformed."""
    cdef int32_t name_size = 0, size = 0
    cdef Py_ssize_t name
    cdef int32_t index
    for index in range(count):
        name = varint32(data, position, end, &name_size)
        if name < 0 or name_size < 0 or name_size > end - name:
            return -1
        position = varint32(data, name + name_size, end, &size)
        if position < 0 or size > end - position:
            return -1
        if keep:
            put_name(columns.names, data + name, name_size)
            columns.contents.put(data + position, size)
        if size > 0:
            position += size
    return position


cdef inline void put_headers(Columns columns, int32_t count) noexcept:
    cdef Room lists = columns.lists
    if count:
        columns.list_bits.at[columns.rows >> 3] |= <uint8_t>(1 << (columns.rows & 7))
    else:
        columns.no_headers += 1
    (<int32_t*>lists.at)[columns.rows + 1] = <int32_t>columns.names.rows
    lists.used += sizeof(int32_t)


cdef inline int64_t microseconds(int64_t milliseconds) noexcept:
    if milliseconds > INT64_MAX // 1000:
        return INT64_MAX
    if milliseconds < -(INT64_MAX // 1000):
        return INT64_MIN
    return milliseconds * 1000


cdef int read_section(
    Columns columns, const uint8_t* data, Py_ssize_t size, Batch* batch, int64_t start_offset, int64_t end_offset
) except -1:
    """Add the records of one section; whether all of it could be read."""
    cdef Py_ssize_t position = 0, end, key, value, index
    cdef int64_t delta = 0, offset, time
    cdef int32_t record = 0, offset_delta = 0, key_size = 0, value_size = 0, count = 0
    cdef bint appended = batch.attributes & TIMESTAMP_TYPE_MASK != 0
    cdef bint keep, with_headers = columns.lists is not None
    cdef Cells keys = columns.key, values = columns.value
    cdef Room offsets = columns.offset, times = columns.timestamp, types = columns.timestamp_type
    columns.reserve(batch.count, size)
    for index in range(batch.count):
        position = varint32(data, position, size, &record)
        if position < 0 or record <= 0 or record > size - position:
            return MALFORMED
        end = position + record
        position = varint64(data, position + 1, end, &delta)
        position = varint32(data, position, end, &offset_delta)
        key = varint32(data, position, end, &key_size)
        if key < 0 or key_size > end - key:
            return MALFORMED
        value = varint32(data, key + (key_size if key_size > 0 else 0), end, &value_size)
        if value < 0 or value_size > end - value:
            return MALFORMED
        position = varint32(data, value + (value_size if value_size > 0 else 0), end, &count)
        if position < 0 or count < 0 or count > end - position:
            return MALFORMED
        offset = batch.base_offset + offset_delta
        keep = start_offset <= offset < end_offset
        if count:
            position = read_headers(columns, data, position, end, count, keep and with_headers)
        if position != end:
            return MALFORMED
        if not keep:
            continue
        if keys is not None:
            keys.put(data + key, key_size)
        if values is not None:
            values.put(data + value, value_size)
        if offsets is not None:
            (<int64_t*>offsets.at)[columns.rows] = offset
            offsets.used += sizeof(int64_t)
        if times is not None:
            time = batch.max_timestamp
            if not appended:
                time = <int64_t>(<uint64_t>batch.base_timestamp + <uint64_t>delta)
            (<int64_t*>times.at)[columns.rows] = microseconds(time)
            times.used += sizeof(int64_t)
        if types is not None:
            (<int32_t*>types.at)[columns.rows] = appended
            types.used += sizeof(int32_t)
        if with_headers:
            put_headers(columns, count)
        columns.rows += 1
    return READ if position == size else LEFT_OVER


cdef int read_batch(
    Columns columns, object batch, const uint8_t* data, Batch* header, int64_t start_offset, int64_t end_offset,
    bint check_crc,
) except -1:
    """Add the records of one whole batch; `batch` and `data` are the same bytes."""
    cdef Py_buffer view
    cdef int outcome
    if check_crc and <uint32_t>crc32c(batch[ATTRIBUTES_OFFSET:]) != read_u32(data + CRC_OFFSET):
        raise corrupt(header.base_offset, "wrong CRC")
    section = batch[RECORDS_OFFSET:]
    if header.count == 0:
        section = b""
    else:
        try:
            section = decompress(header.attributes & CODEC_MASK, section, DECOMPRESSED_BYTES_MAX)
        except (DecompressionFailed, DecompressedTooLarge) as error:
            raise corrupt(header.base_offset, str(error)) from None
    PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
    try:
        if header.count < 0 or header.count > view.len // RECORD_MIN:
            raise corrupt(header.base_offset, f"its count of records cannot be {header.count}")
        outcome = read_section(columns, <const uint8_t*>view.buf, view.len, header, start_offset, end_offset)
    finally:
        PyBuffer_Release(&view)
    if outcome == MALFORMED:
        raise corrupt(header.base_offset, "a record cannot be read")
    if outcome == LEFT_OVER:
        raise corrupt(header.base_offset, "bytes are left over after its last record")
    return 0


cdef Py_ssize_t whole_batch(const uint8_t* data, Py_ssize_t left, Batch* batch) except -1:
    """The size of the batch that starts here, 0 if it is cut off; fills in the fields of its header."""
    cdef int32_t length, last_delta
    if left < RECORDS_OFFSET:
        return 0
    length = <int32_t>read_u32(data + 8)
    batch.base_offset = read_i64(data)
    if data[MAGIC_OFFSET] != 2:
        raise corrupt(batch.base_offset, f"its format is {data[MAGIC_OFFSET]}, only 2 can be read")
    if length < RECORDS_OFFSET - LOG_OVERHEAD:
        raise corrupt(batch.base_offset, f"its length cannot be {length}")
    if <Py_ssize_t>length + LOG_OVERHEAD > left:
        return 0
    last_delta = <int32_t>read_u32(data + 23)
    if batch.base_offset < 0 or batch.base_offset > BASE_OFFSET_MAX or last_delta < 0:
        raise corrupt(batch.base_offset, "impossible offsets")
    batch.last_offset = batch.base_offset + last_delta
    batch.attributes = data[ATTRIBUTES_OFFSET + 1]
    batch.base_timestamp = read_i64(data + 27)
    batch.max_timestamp = read_i64(data + 35)
    batch.producer_id = read_i64(data + 43)
    batch.count = <int32_t>read_u32(data + 57)
    return <Py_ssize_t>length + LOG_OVERHEAD


def decode(
    data, *, int64_t start_offset, int64_t end_offset, wanted, aborted=(), Py_ssize_t limit_rows=ROWS_LIMIT,
    Py_ssize_t limit_bytes=BYTES_LIMIT, bint check_crc=True,
):
    """See `_columns_reference.decode`."""
    cdef Py_buffer view
    cdef Batch batch
    cdef Py_ssize_t position = 0, size
    cdef int64_t next_offset = start_offset
    cdef Columns columns = Columns(wanted)
    cdef bint has_aborted = len(aborted) > 0
    if limit_bytes > BYTES_LIMIT_MAX:
        raise LocalError(f"limit_bytes can be {BYTES_LIMIT_MAX} at most, not {limit_bytes}")
    transactions = AbortedTransactions(aborted)
    whole = memoryview(data)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while next_offset < end_offset and columns.rows < limit_rows and columns.bytes_used() < limit_bytes:
            size = whole_batch(<const uint8_t*>view.buf + position, view.len - position, &batch)
            if size == 0:
                break
            if batch.base_offset >= end_offset:
                next_offset = end_offset
                break
            if has_aborted:
                transactions.reach(batch.last_offset)
            if batch.attributes & CONTROL_MASK:
                if has_aborted and transactions.is_open(batch.producer_id):
                    marker = whole[position:position + size]
                    if is_abort(marker, read_header(marker), check_crc):
                        transactions.end(batch.producer_id)
            elif batch.last_offset >= start_offset and not (
                has_aborted and batch.attributes & TRANSACTIONAL_MASK and transactions.is_open(batch.producer_id)
            ):
                read_batch(
                    columns, whole[position:position + size], <const uint8_t*>view.buf + position, &batch,
                    start_offset, end_offset, check_crc,
                )
            position += size
            next_offset = min(end_offset, max(next_offset, batch.last_offset + 1))
    finally:
        PyBuffer_Release(&view)
    return columns.finish(next_offset, position, transactions.left())


def end_of(data, int64_t offset):
    """See `_columns_reference.end_of`."""
    cdef Py_buffer view
    cdef Batch batch
    cdef Py_ssize_t position = 0, size = -1
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while size != 0:
            size = whole_batch(<const uint8_t*>view.buf + position, view.len - position, &batch)
            if size != 0:
                offset = max(offset, batch.last_offset + 1)
                position += size
    finally:
        PyBuffer_Release(&view)
    return offset
