# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The scan for raw appends, compiled. `raw_reference.py` is its specification in plain Python."""

from ottla.base.crc import crc32c

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    LENGTH = 8
    LOG_OVERHEAD = 12
    LEADER_EPOCH = 12
    MAGIC = 16
    CRC = 17
    ATTRIBUTES = 21
    LAST_OFFSET_DELTA = 23
    MAX_TIMESTAMP = 35
    PRODUCER_ID = 43
    HEADER_SIZE = 61


cdef inline uint32_t get32(const uint8_t* at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int64_t get64(const uint8_t* at) noexcept nogil:
    return <int64_t>((<uint64_t>get32(at) << 32) | get32(at + 4))


def scan_raw(view, Py_ssize_t position, limits):
    """See `raw_reference.scan_raw`."""
    cdef Py_buffer buffer
    cdef const uint8_t* batch
    cdef Py_ssize_t start = position, end
    cdef int64_t next_offset, last_offset_max, bytes_left, latest, since_entry, interval
    cdef int64_t size, stamp, base_offset, last_offset, max_timestamp = -1, max_timestamp_offset = -1
    cdef int32_t leader_epoch, delta
    cdef list entries = []
    cdef list producers = []
    next_offset, last_offset_max, bytes_left, leader_epoch, latest, since_entry, interval = <tuple>limits
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        end = buffer.len
        while end - position >= HEADER_SIZE:
            batch = <const uint8_t*>buffer.buf + position
            size = <int64_t><int32_t>get32(batch + LENGTH) + LOG_OVERHEAD
            if size < HEADER_SIZE or size > end - position or size > bytes_left or batch[MAGIC] != 2:
                break
            stamp = get64(batch + MAX_TIMESTAMP)
            if <int32_t>get32(batch + LEADER_EPOCH) != leader_epoch or stamp > latest:
                break
            base_offset = get64(batch)
            delta = <int32_t>get32(batch + LAST_OFFSET_DELTA)
            if base_offset < next_offset or delta < 0 or base_offset > last_offset_max - delta:
                break
            if <uint32_t>crc32c(view[position + ATTRIBUTES:position + size]) != get32(batch + CRC):
                break
            last_offset = base_offset + delta
            next_offset = last_offset + 1
            if stamp > max_timestamp:
                max_timestamp = stamp
                max_timestamp_offset = last_offset
            if since_entry > interval:
                entries.append((last_offset, position - start, max_timestamp, max_timestamp_offset))
                since_entry = 0
            since_entry += size
            if get64(batch + PRODUCER_ID) >= 0:
                producers.append(position)
            bytes_left -= size
            position += size
    finally:
        PyBuffer_Release(&buffer)
    if position == start:
        return None
    return position, next_offset, max_timestamp, max_timestamp_offset, entries, since_entry, producers
