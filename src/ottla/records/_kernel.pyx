# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: overflowcheck=False
"""Structural check of produced batches, compiled. `_reference.py` is the specification, in plain Python.

One call looks at one batch: header, CRC and, where the records are not packed, every record. All positions are
compared with the end before a byte is read; arithmetic on lengths is done as `end - position`, which cannot wrap.
"""

from ottla.base.crc import crc32c

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

from ottla.records._inline cimport CUT, UNREADABLE, murmur2_of, read_i16, read_i64, read_u32, varint32, varint64

cdef enum:
    OK = 0
    NO_BATCH = 1
    LENGTH_TOO_SMALL = 2
    MAGIC_UNKNOWN = 3
    MAGIC_OLD = 4
    ZSTD_TOO_EARLY = 5
    SECOND_BATCH = 6
    PRODUCER_ID_CUT = 7
    BASE_OFFSET_NOT_ZERO = 8
    TOO_LARGE = 9
    HEADER_CUT = 10
    CRC_WRONG = 11
    CODEC_UNKNOWN = 12
    OFFSET_RANGE_INVALID = 13
    COUNT_INVALID = 14
    COUNT_INCONSISTENT = 15
    CONTROL_FROM_CLIENT = 16
    SEQUENCE_INVALID = 17
    RECORD_LENGTH_UNREADABLE = 18
    RECORD_MALFORMED = 19
    RECORDS_LEFT_OVER = 20

    LOG_OVERHEAD = 12
    LENGTH_MIN = 14
    MAGIC_OFFSET = 16
    ATTRIBUTES_OFFSET = 21
    PRODUCER_ID_END = 51
    RECORDS_OFFSET = 61
    CODEC_MASK = 0x07
    CODEC_ZSTD = 4
    CONTROL_MASK = 0x20
    NO_TIMESTAMP = -1

cdef int64_t TIMESTAMP_MAX = 0x7FFFFFFFFFFFFFFF

cdef inline Py_ssize_t skip(Py_ssize_t position, int32_t size, Py_ssize_t end) noexcept nogil:
    if position < 0 or size <= 0:
        return position
    return position + size if size <= end - position else CUT


cdef Py_ssize_t skip_headers(const uint8_t* data, Py_ssize_t position, Py_ssize_t end, int32_t count) noexcept nogil:
    cdef int32_t size = 0
    while count > 0:
        position = varint32(data, position, end, &size)
        if size < 0:
            return CUT
        position = skip(position, size, end)
        position = varint32(data, position, end, &size)
        position = skip(position, size, end)
        if position < 0:
            return CUT
        count -= 1
    return position


cdef Walked walk_records(
    const uint8_t* data, Py_ssize_t start, Py_ssize_t end, int64_t count, int64_t base_timestamp, bint strict
) noexcept nogil:
    cdef Walked result
    cdef Py_ssize_t position = start, record_end = end
    cdef int64_t index = 0, timestamp = 0, delta = 0
    cdef int32_t size = 0, offset_delta = 0, key_size = 0
    result.verdict = RECORD_MALFORMED
    result.max_timestamp = NO_TIMESTAMP
    result.min_timestamp = TIMESTAMP_MAX
    result.keyless = 0
    result.sequential = True
    while index < count:
        position = varint32(data, position, end, &size)
        if position < 0:
            if position == UNREADABLE and strict:
                result.verdict = RECORD_LENGTH_UNREADABLE
            return result
        if strict:
            if size <= 0 or size > end - position:
                return result
            record_end = position + size
        position = varint64(data, position + 1, record_end, &delta)
        position = varint32(data, position, record_end, &offset_delta)
        position = varint32(data, position, record_end, &key_size)
        position = skip(position, key_size, record_end)
        position = varint32(data, position, record_end, &size)
        position = skip(position, size, record_end)
        position = varint32(data, position, record_end, &size)
        if position < 0 or size < 0:
            return result
        if size != 0:
            position = skip_headers(data, position, record_end, size)
        if position < 0 or (strict and position != record_end):
            return result
        timestamp = <int64_t>(<uint64_t>base_timestamp + <uint64_t>delta)
        if timestamp > result.max_timestamp:
            result.max_timestamp = timestamp
        if timestamp < result.min_timestamp and timestamp != NO_TIMESTAMP:
            result.min_timestamp = timestamp
        if key_size < 0:
            result.keyless += 1
        if offset_delta != index:
            result.sequential = False
        index += 1
    result.verdict = OK if position == end else RECORDS_LEFT_OVER
    return result


def walk(buf, Py_ssize_t start, Py_ssize_t end, int64_t count, int64_t base_timestamp, *, bint strict):
    """See `_reference.walk`."""
    cdef Py_buffer view
    cdef Walked walked
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= end <= view.len:
            raise ValueError("the records section lies outside the buffer")
        with nogil:
            walked = walk_records(<const uint8_t*>view.buf, start, end, count, base_timestamp, strict)
    finally:
        PyBuffer_Release(&view)
    if walked.verdict != OK:
        return walked.verdict, 0, 0, 0, False
    return OK, walked.max_timestamp, walked.min_timestamp, walked.keyless, walked.sequential


cdef int frame(const uint8_t* data, Py_ssize_t remaining, Py_ssize_t* size) noexcept nogil:
    cdef int32_t length
    size[0] = 0
    if remaining < LOG_OVERHEAD:
        return NO_BATCH
    length = <int32_t>read_u32(data + 8)
    if length < LENGTH_MIN:
        return LENGTH_TOO_SMALL
    if remaining < MAGIC_OFFSET + 1:
        return NO_BATCH
    if data[MAGIC_OFFSET] > 2:
        return MAGIC_UNKNOWN
    if remaining < <Py_ssize_t>length + LOG_OVERHEAD:
        return NO_BATCH
    size[0] = <Py_ssize_t>length + LOG_OVERHEAD
    return OK


cdef int check_before_crc(
    const uint8_t* data, Py_ssize_t available, int64_t max_message_bytes, bint zstd_allowed, Py_ssize_t* size
) noexcept nogil:
    cdef Py_ssize_t following_size
    cdef int codec
    cdef int verdict = frame(data, available, size)
    if verdict != OK:
        return verdict
    if data[MAGIC_OFFSET] != 2:
        return MAGIC_OLD
    codec = data[ATTRIBUTES_OFFSET + 1] & CODEC_MASK
    if codec >= CODEC_ZSTD and not zstd_allowed:
        return ZSTD_TOO_EARLY if codec == CODEC_ZSTD else CODEC_UNKNOWN
    verdict = frame(data + size[0], available - size[0], &following_size)
    if verdict == OK:
        return SECOND_BATCH
    if verdict != NO_BATCH:
        return verdict
    if size[0] < PRODUCER_ID_END:
        return PRODUCER_ID_CUT
    if read_i64(data) != 0:
        return BASE_OFFSET_NOT_ZERO
    if size[0] > max_message_bytes:
        return TOO_LARGE
    if size[0] < RECORDS_OFFSET:
        return HEADER_CUT
    return OK


cdef int check_header(const uint8_t* data) noexcept nogil:
    cdef int32_t last_offset_delta = <int32_t>read_u32(data + 23)
    cdef int32_t count = <int32_t>read_u32(data + 57)
    cdef uint8_t attributes = data[ATTRIBUTES_OFFSET + 1]
    if attributes & CODEC_MASK > CODEC_ZSTD:
        return CODEC_UNKNOWN
    if last_offset_delta < 0:
        return OFFSET_RANGE_INVALID
    if count <= 0:
        return COUNT_INVALID
    if count - 1 != last_offset_delta:
        return COUNT_INCONSISTENT
    if attributes & CONTROL_MASK:
        return CONTROL_FROM_CLIENT
    if read_i64(data + 43) >= 0 and <int32_t>read_u32(data + 53) < 0:
        return SEQUENCE_INVALID
    return OK


cdef tuple refuse(int verdict):
    return verdict, None, 0, 0, 0, False


def check_batch(buf, int64_t max_message_bytes, bint zstd_allowed):
    """See `_reference.check_batch`."""
    cdef Py_buffer view
    cdef const uint8_t* data
    cdef Py_ssize_t size = 0
    cdef int verdict
    cdef Walked walked
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        data = <const uint8_t*>view.buf
        verdict = check_before_crc(data, view.len, max_message_bytes, zstd_allowed, &size)
        if verdict != OK:
            return refuse(verdict)
        if <uint32_t>crc32c(memoryview(buf)[ATTRIBUTES_OFFSET:size]) != read_u32(data + 17):
            return refuse(CRC_WRONG)
        verdict = check_header(data)
        if verdict != OK:
            return refuse(verdict)
        if data[ATTRIBUTES_OFFSET + 1] & CODEC_MASK:
            walked.max_timestamp = NO_TIMESTAMP
            walked.min_timestamp = TIMESTAMP_MAX
            walked.keyless = 0
            walked.sequential = True
        else:
            walked = walk_records(
                data, RECORDS_OFFSET, size, <int32_t>read_u32(data + 57), read_i64(data + 27), True
            )
            if walked.verdict != OK:
                return refuse(walked.verdict)
        header = (
            0,
            <int32_t>read_u32(data + 8),
            <int32_t>read_u32(data + 12),
            2,
            read_u32(data + 17),
            read_i16(data + ATTRIBUTES_OFFSET),
            <int32_t>read_u32(data + 23),
            read_i64(data + 27),
            read_i64(data + 35),
            read_i64(data + 43),
            read_i16(data + 51),
            <int32_t>read_u32(data + 53),
            <int32_t>read_u32(data + 57),
        )
        return OK, header, walked.max_timestamp, walked.min_timestamp, walked.keyless, walked.sequential
    finally:
        PyBuffer_Release(&view)


def murmur2(buf):
    """See `_reference.murmur2`."""
    cdef Py_buffer view
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        return murmur2_of(<const uint8_t*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
