# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: overflowcheck=False
"""Columns to batches, and keys to partitions, compiled. `_columns_reference.py` is the specification.

Columns are not trusted: how many rows they have is checked first, and each row's offsets are held against the data
before a byte is read.
"""

from ottla.base.crc import crc32c

from ottla.base.errors import LocalError
from ottla.records._columns_reference import check_rows, entries_of
from ottla.records.compression import compress

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize

from ottla.records._inline cimport is_ascii, murmur2_of, varint_size, write_i64, write_u32, write_varint

cdef enum:
    LOG_OVERHEAD = 12
    MAGIC_OFFSET = 16
    CRC_OFFSET = 17
    ATTRIBUTES_OFFSET = 21
    RECORDS_OFFSET = 61

cdef int64_t RECORD_MAX = 0x7FFFFFFF


cdef class Source:
    """A buffer held while it is read, or none."""

    cdef Py_buffer view
    cdef bint held
    cdef Py_ssize_t size

    def __cinit__(self, buffer):
        self.held = False
        self.size = 0
        if buffer is not None:
            PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
            self.held = True
            self.size = self.view.len

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef inline const uint8_t* at(self) noexcept:
        return <const uint8_t*>self.view.buf if self.held else NULL


cdef inline bint bit(const uint8_t* bits, Py_ssize_t row) noexcept:
    return bits == NULL or (bits[row >> 3] >> (row & 7)) & 1


cdef class BinaryRows:
    """The rows of a binary column that is given."""

    cdef Source offsets
    cdef Source data
    cdef Source bits
    cdef Py_ssize_t start

    def __cinit__(self, column, Py_ssize_t rows):
        self.offsets, self.data, self.bits = Source(column.offsets), Source(column.data), Source(column.validity)
        self.start = column.start
        check_rows(self.offsets.size // sizeof(int32_t), column.validity, self.start, rows)

    cdef inline int64_t cell(self, Py_ssize_t row, const uint8_t** data) except -2:
        """The size of a row's bytes and where they are; -1 for null."""
        cdef int32_t begin, end
        row += self.start
        if not bit(self.bits.at(), row):
            return -1
        begin = (<const int32_t*>self.offsets.at())[row]
        end = (<const int32_t*>self.offsets.at())[row + 1]
        if begin < 0 or begin > end or end > self.data.size:
            raise LocalError("a column's offsets pass its data")
        data[0] = self.data.at() + begin
        return end - begin


cdef class HeaderRows:
    """The rows of a headers column that is given."""

    cdef Source offsets
    cdef Source bits
    cdef BinaryRows names
    cdef BinaryRows contents
    cdef Py_ssize_t start
    cdef Py_ssize_t entries

    def __cinit__(self, column, Py_ssize_t rows):
        self.offsets, self.bits, self.start = Source(column.offsets), Source(column.validity), column.start
        check_rows(self.offsets.size // sizeof(int32_t), column.validity, self.start, rows)
        self.entries = entries_of(column)
        self.names, self.contents = BinaryRows(column.keys, self.entries), BinaryRows(column.values, self.entries)

    cdef Py_ssize_t range_of(self, Py_ssize_t row, Py_ssize_t* begin) except -1:
        """How many headers a row has, and which is the first."""
        cdef Py_ssize_t end
        row += self.start
        begin[0] = 0
        if not bit(self.bits.at(), row):
            return 0
        begin[0] = (<const int32_t*>self.offsets.at())[row]
        end = (<const int32_t*>self.offsets.at())[row + 1]
        if begin[0] < 0 or begin[0] > end or end > self.entries:
            raise LocalError("a column's offsets pass its data")
        return end - begin[0]

    cdef int64_t size_of(self, Py_ssize_t begin, Py_ssize_t count) except -1:
        """The bytes that these headers take in a record."""
        cdef int64_t size, total = 0
        cdef const uint8_t* data = NULL
        cdef Py_ssize_t index
        for index in range(begin, begin + count):
            size = self.names.cell(index, &data)
            if size < 0:
                raise LocalError("a header has no key")
            if not is_ascii(data, <int32_t>size):
                check_utf8(data[:size])
            total += varint_size(size) + size
            size = self.contents.cell(index, &data)
            total += varint_size(size) + (size if size > 0 else 0)
        return total

    cdef uint8_t* write(self, uint8_t* to, Py_ssize_t begin, Py_ssize_t count) except NULL:
        cdef const uint8_t* data = NULL
        cdef int64_t size
        cdef Py_ssize_t index
        for index in range(begin, begin + count):
            size = self.names.cell(index, &data)
            to = write_cell(to, data, size)
            size = self.contents.cell(index, &data)
            to = write_cell(to, data, size)
        return to


cdef int check_utf8(bytes name) except -1:
    try:
        name.decode()
    except UnicodeDecodeError:
        raise LocalError("the key of a header is not UTF-8") from None
    return 0


cdef inline uint8_t* write_cell(uint8_t* to, const uint8_t* data, int64_t size) noexcept:
    to = write_varint(to, size)
    if size > 0:
        memcpy(to, data, size)
        to += size
    return to


cdef class Packer:
    """Batches being made of rows: those that are done, and the one that is open."""

    cdef list batches
    cdef int codec
    cdef object level
    cdef bytearray made
    cdef uint8_t* at
    cdef Py_ssize_t used
    cdef Py_ssize_t capacity
    cdef int64_t base_timestamp
    cdef int64_t max_timestamp
    cdef int32_t count

    def __cinit__(self, int codec, level):
        self.batches, self.codec, self.level = [], codec, level
        self.open()

    cdef int open(self) except -1:
        self.made = bytearray()
        self.at = NULL
        self.used = RECORDS_OFFSET
        self.capacity = 0
        self.count = 0
        return 0

    cdef int reserve(self, Py_ssize_t more) except -1:
        if self.capacity - self.used < more:
            self.capacity = max(self.used + more, 2 * self.capacity)
            PyByteArray_Resize(self.made, self.capacity)
            self.at = <uint8_t*>PyByteArray_AS_STRING(self.made)
        return 0

    cdef int close(self) except -1:
        """End the batch with its header and CRC."""
        cdef bytearray batch = self.made
        cdef uint8_t* at
        PyByteArray_Resize(batch, self.used)
        if self.codec:
            packed = compress(self.codec, memoryview(batch)[RECORDS_OFFSET:], self.level)
            batch = bytearray(RECORDS_OFFSET)
            batch += packed
        at = <uint8_t*>PyByteArray_AS_STRING(batch)
        memset(at, 0, RECORDS_OFFSET)
        write_u32(at + 8, <uint32_t>(len(batch) - LOG_OVERHEAD))
        write_u32(at + 12, 0xFFFFFFFF)
        at[MAGIC_OFFSET] = 2
        at[ATTRIBUTES_OFFSET + 1] = <uint8_t>self.codec
        write_u32(at + 23, <uint32_t>(self.count - 1))
        write_i64(at + 27, self.base_timestamp)
        write_i64(at + 35, self.max_timestamp)
        memset(at + 43, 0xFF, 14)
        write_u32(at + 57, <uint32_t>self.count)
        write_u32(at + CRC_OFFSET, <uint32_t>crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:]))
        self.batches.append(batch)
        self.open()
        return 0


cdef int add_record(
    Packer packer, BinaryRows keys, BinaryRows values, HeaderRows headers, Py_ssize_t row, int64_t timestamp,
    int64_t max_batch_bytes, Py_ssize_t expected,
) except -1:
    cdef const uint8_t* key = NULL
    cdef const uint8_t* value = NULL
    cdef int64_t key_size = -1, value_size, headers_size = 0, fixed, body, delta
    cdef Py_ssize_t first = 0, count = 0
    cdef uint8_t* to
    if keys is not None:
        key_size = keys.cell(row, &key)
    value_size = values.cell(row, &value)
    if headers is not None:
        count = headers.range_of(row, &first)
        headers_size = headers.size_of(first, count)
    fixed = 1 + varint_size(key_size) + varint_size(value_size) + varint_size(count) + headers_size
    fixed += (key_size if key_size > 0 else 0) + (value_size if value_size > 0 else 0)
    while True:
        delta = <int64_t>(<uint64_t>timestamp - <uint64_t>packer.base_timestamp) if packer.count else 0
        body = fixed + varint_size(delta) + varint_size(packer.count)
        if body > RECORD_MAX:
            raise LocalError("a record cannot be larger than 2 GiB")
        if packer.count == 0 or packer.used + varint_size(body) + body <= max_batch_bytes:
            break
        packer.close()
    if packer.count == 0:
        packer.base_timestamp = packer.max_timestamp = timestamp
        packer.reserve(max(expected, varint_size(body) + body))
    packer.reserve(varint_size(body) + body)
    to = packer.at + packer.used
    to = write_varint(to, body)
    to[0] = 0
    to = write_varint(to + 1, delta)
    to = write_varint(to, packer.count)
    to = write_cell(to, key, key_size)
    to = write_cell(to, value, value_size)
    to = write_varint(to, count)
    if count:
        to = headers.write(to, first, count)
    packer.used = to - packer.at
    packer.count += 1
    if timestamp > packer.max_timestamp:
        packer.max_timestamp = timestamp
    return 0


def encode(
    values, Py_ssize_t rows, *, keys=None, headers=None, timestamps=None, int64_t timestamp_ms, selection=None,
    int codec=0, level=None, int64_t max_batch_bytes=1 << 20,
):
    """See `_columns_reference.encode`."""
    cdef BinaryRows value_rows = BinaryRows(values, rows)
    cdef BinaryRows key_rows = BinaryRows(keys, rows) if keys is not None else None
    cdef HeaderRows header_rows = HeaderRows(headers, rows) if headers is not None else None
    cdef Source times = Source(timestamps), chosen = Source(selection)
    cdef Packer packer = Packer(codec, level)
    cdef Py_ssize_t index, row, count = rows if selection is None else chosen.size // <Py_ssize_t>sizeof(int32_t)
    cdef Py_ssize_t expected = 0
    if timestamps is not None and times.size // <Py_ssize_t>sizeof(int64_t) < rows:
        raise LocalError("there are fewer timestamps than rows")
    for index in range(count if selection is not None else 0):
        row = (<const int32_t*>chosen.at())[index]
        if row < 0 or row >= rows:
            raise LocalError(f"a selected row lies outside the {rows} rows")
    if rows:
        # A guess that spares most growing; half a batch too much costs nothing but address space.
        expected = (value_rows.data.size // rows + 32) * count
        expected = min(expected, <Py_ssize_t>max_batch_bytes)
    for index in range(count):
        row = (<const int32_t*>chosen.at())[index] if selection is not None else index
        add_record(
            packer, key_rows, value_rows, header_rows, row,
            (<const int64_t*>times.at())[row] if timestamps is not None else timestamp_ms, max_batch_bytes, expected,
        )
    if packer.count:
        packer.close()
    return packer.batches


def partition_of(keys, Py_ssize_t rows, int partitions, *, int keyless=-1):
    """See `_columns_reference.partition_of`."""
    cdef BinaryRows key_rows = BinaryRows(keys, rows)
    cdef bytearray chosen
    cdef int32_t* to
    cdef const uint8_t* key = NULL
    cdef int64_t size
    cdef Py_ssize_t row
    if partitions <= 0:
        raise LocalError("a topic has at least one partition")
    chosen = PyByteArray_FromStringAndSize(NULL, rows * <Py_ssize_t>sizeof(int32_t))
    to = <int32_t*>PyByteArray_AS_STRING(chosen)
    for row in range(rows):
        size = key_rows.cell(row, &key)
        if size < 0:
            to[row] = keyless
        else:
            to[row] = <int32_t>((murmur2_of(key, size) & 0x7FFFFFFF) % <uint32_t>partitions)
    return chosen


def rows_by_partition(chosen, Py_ssize_t partitions):
    """See `_columns_reference.rows_by_partition`."""
    cdef Source source = Source(chosen)
    cdef const int32_t* partition = <const int32_t*>source.at()
    cdef Py_ssize_t row, rows = source.size // <Py_ssize_t>sizeof(int32_t)
    cdef bytearray counts = bytearray(max(partitions, 0) * sizeof(int32_t))
    cdef bytearray starts = bytearray(max(partitions, 0) * sizeof(void*))
    cdef int32_t* count = <int32_t*>PyByteArray_AS_STRING(counts)
    cdef int32_t** to = <int32_t**>PyByteArray_AS_STRING(starts)
    for row in range(rows):
        if partition[row] < 0 or partition[row] >= partitions:
            raise LocalError(f"row {row} is assigned to partition {partition[row]}, the topic has {partitions}")
        count[partition[row]] += 1
    found = []
    for row in range(partitions):
        made = PyByteArray_FromStringAndSize(NULL, count[row] * <Py_ssize_t>sizeof(int32_t))
        to[row] = <int32_t*>PyByteArray_AS_STRING(made)
        found.append(made)
    for row in range(rows):
        to[partition[row]][0] = <int32_t>row
        to[partition[row]] += 1
    return found
