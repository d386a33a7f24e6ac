# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The scan for bulk appends, compiled. `bulk_reference.py` is its specification in plain Python."""

from ottla.base.crc import crc32c

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from ottla.records._kernel cimport Walked, check_before_crc, check_header, walk_records

cdef enum:
    CORRELATION = 4
    AFTER_CORRELATION = 8
    LOG_OVERHEAD = 12
    CRC = 17
    ATTRIBUTES = 21
    MAX_TIMESTAMP = 35
    PRODUCER_ID = 43
    BASE_SEQUENCE = 53
    COUNT = 57
    RECORDS = 61
    HEADER_MIN = 8


cdef inline uint32_t get32(const uint8_t* at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int64_t get64(const uint8_t* at) noexcept nogil:
    return <int64_t>((<uint64_t>get32(at) << 32) | get32(at + 4))


cdef inline void put32(uint8_t* at, uint32_t value) noexcept nogil:
    at[0] = value >> 24
    at[1] = (value >> 16) & 0xFF
    at[2] = (value >> 8) & 0xFF
    at[3] = value & 0xFF


cdef inline void put64(uint8_t* at, int64_t value) noexcept nogil:
    put32(at, <uint32_t>(<uint64_t>value >> 32))
    put32(at + 4, <uint32_t>value)


cdef Py_ssize_t find_batch(
    const uint8_t* frame, Py_ssize_t size, const uint8_t* shape, Py_ssize_t shape_size, bint flexible, Py_ssize_t* batch_size
) noexcept nogil:
    """Return the position of the batch in a frame of this shape; -1 if the frame has another shape."""
    cdef Py_ssize_t position = shape_size + 4
    cdef uint32_t length = 0
    cdef int shift = 0
    if size < position + 5 or memcmp(frame, shape, CORRELATION) != 0:
        return -1
    if memcmp(frame + AFTER_CORRELATION, shape + CORRELATION, shape_size - CORRELATION) != 0:
        return -1
    if not flexible:
        length = get32(frame + position)
        position += 4
        batch_size[0] = length
        return position if length <= <uint32_t>0x7FFFFFFF and size - position == <Py_ssize_t>length else -1
    while shift <= 21 and position < size:
        length |= (<uint32_t>(frame[position] & 0x7F)) << shift
        position += 1
        if frame[position - 1] < 0x80:
            batch_size[0] = <Py_ssize_t>length - 1
            if length == 0 or size - position != batch_size[0] + 3:
                return -1
            if frame[size - 1] or frame[size - 2] or frame[size - 3]:
                return -1
            return position
        shift += 7
    return -1


def scan_bulk(view, Py_ssize_t position, Py_ssize_t end, bytes shape, bint flexible, bytes template,
              Py_ssize_t offset_at, limits):
    """See `bulk_reference.scan_bulk`."""
    cdef Py_buffer buffer
    cdef const uint8_t* data
    cdef const uint8_t* batch
    cdef uint8_t* out
    cdef uint8_t* response
    cdef Py_ssize_t size, start, batch_size = 0, checked = 0, filled = 0, template_size = len(template)
    cdef Py_ssize_t responses_filled = 0, responses_size = template_size * 8
    cdef int64_t next_offset, last_offset_max, bytes_left, earliest, latest, since_entry, interval, max_message_bytes
    cdef int64_t max_timestamp = -1, max_timestamp_offset = -1, stamp
    cdef int32_t leader_epoch
    cdef uint32_t count
    cdef bint keyless_refused
    cdef Walked walked
    cdef int requests = 0
    cdef list entries = []
    (next_offset, last_offset_max, bytes_left, leader_epoch, earliest, latest, since_entry, interval,
     max_message_bytes, keyless_refused) = <tuple>limits
    staged = bytearray()
    responses = bytearray()
    PyByteArray_Resize(staged, min(end - position, bytes_left))
    PyByteArray_Resize(responses, responses_size)
    out = <uint8_t*>PyByteArray_AS_STRING(staged)
    response = <uint8_t*>PyByteArray_AS_STRING(responses)
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        data = <const uint8_t*>buffer.buf
        while end - position >= 4:
            size = <int32_t>get32(data + position)
            if size < HEADER_MIN or size > end - position - 4:
                break
            start = find_batch(data + position + 4, size, shape, len(shape), flexible, &batch_size)
            if start < 0 or batch_size > bytes_left - filled:
                break
            batch = data + position + 4 + start
            if check_before_crc(batch, batch_size, max_message_bytes, True, &checked) != 0 or checked != batch_size:
                break
            if (batch[ATTRIBUTES] or batch[ATTRIBUTES + 1] or get64(batch + PRODUCER_ID) != -1
                    or get32(batch + BASE_SEQUENCE) != <uint32_t>0xFFFFFFFF):
                break
            start += position + 4
            if <uint32_t>crc32c(view[start + ATTRIBUTES:start + batch_size]) != get32(batch + CRC):
                break
            if check_header(batch) != 0:
                break
            count = get32(batch + COUNT)
            walked = walk_records(batch, RECORDS, batch_size, count, get64(batch + 27), True)
            stamp = walked.max_timestamp
            if (walked.verdict != 0 or stamp != get64(batch + MAX_TIMESTAMP) or stamp > latest
                    or walked.min_timestamp < earliest or (walked.keyless and keyless_refused)
                    or next_offset + count - 1 > last_offset_max):
                break
            memcpy(out + filled, batch, batch_size)
            put64(out + filled, next_offset)
            put32(out + filled + LOG_OVERHEAD, <uint32_t>leader_epoch)
            if responses_filled == responses_size:
                responses_size *= 4
                PyByteArray_Resize(responses, responses_size)
                response = <uint8_t*>PyByteArray_AS_STRING(responses)
            memcpy(response + responses_filled, <const char*>template, template_size)
            memcpy(response + responses_filled + 4, data + position + 4 + CORRELATION, 4)
            put64(response + responses_filled + offset_at, next_offset)
            responses_filled += template_size
            next_offset += count
            if stamp > max_timestamp:
                max_timestamp = stamp
                max_timestamp_offset = next_offset - 1
            if since_entry > interval:
                entries.append((next_offset - 1, filled, max_timestamp, max_timestamp_offset))
                since_entry = 0
            since_entry += batch_size
            filled += batch_size
            requests += 1
            position += 4 + size
    finally:
        PyBuffer_Release(&buffer)
    if requests == 0:
        return None
    PyByteArray_Resize(staged, filled)
    PyByteArray_Resize(responses, responses_filled)
    return position, requests, staged, next_offset, max_timestamp, max_timestamp_offset, entries, since_entry, responses
