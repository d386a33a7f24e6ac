# cython: language_level=3
"""What the kernels share, inlined into each: varints, numbers in network order, and murmur2.

No function reads a byte at or behind `end`; a failed position goes through the next call unchanged as CUT.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

# Where a varint ended, or why it did not: the bytes ended early, or it was longer than its width allows.
cdef enum:
    UNREADABLE = -1
    CUT = -2


cdef inline Py_ssize_t varint32(const uint8_t* data, Py_ssize_t position, Py_ssize_t end, int32_t* value) noexcept nogil:
    cdef uint32_t raw = 0
    cdef uint8_t byte
    cdef int shift = 0
    value[0] = 0
    if position < 0:
        return CUT
    while shift <= 28:
        if position >= end:
            return CUT
        byte = data[position]
        position += 1
        raw |= (<uint32_t>(byte & 0x7F)) << shift
        if byte < 0x80:
            value[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
            return position
        shift += 7
    return UNREADABLE


cdef inline Py_ssize_t varint64(const uint8_t* data, Py_ssize_t position, Py_ssize_t end, int64_t* value) noexcept nogil:
    cdef uint64_t raw = 0
    cdef uint8_t byte
    cdef int shift = 0
    value[0] = 0
    if position < 0:
        return CUT
    while shift <= 63:
        if position >= end:
            return CUT
        byte = data[position]
        position += 1
        raw |= (<uint64_t>(byte & 0x7F)) << shift
        if byte < 0x80:
            value[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
            return position
        shift += 7
    return UNREADABLE


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline int varint_size(int64_t value) noexcept nogil:
    cdef uint64_t raw = zigzag(value)
    cdef int size = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


cdef inline uint8_t* write_varint(uint8_t* to, int64_t value) noexcept nogil:
    cdef uint64_t raw = zigzag(value)
    while raw > 0x7F:
        to[0] = <uint8_t>(raw & 0x7F) | 0x80
        to += 1
        raw >>= 7
    to[0] = <uint8_t>raw
    return to + 1


cdef inline uint32_t read_u32(const uint8_t* at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int64_t read_i64(const uint8_t* at) noexcept nogil:
    return <int64_t>((<uint64_t>read_u32(at) << 32) | read_u32(at + 4))


cdef inline int read_i16(const uint8_t* at) noexcept nogil:
    cdef int value = (at[0] << 8) | at[1]
    return value - 0x10000 if value & 0x8000 else value


cdef inline void write_u32(uint8_t* at, uint32_t value) noexcept nogil:
    at[0] = <uint8_t>(value >> 24)
    at[1] = <uint8_t>(value >> 16)
    at[2] = <uint8_t>(value >> 8)
    at[3] = <uint8_t>value


cdef inline void write_i64(uint8_t* at, int64_t value) noexcept nogil:
    write_u32(at, <uint32_t>(<uint64_t>value >> 32))
    write_u32(at + 4, <uint32_t>value)


cdef inline uint32_t murmur2_of(const uint8_t* data, Py_ssize_t length) noexcept nogil:
    cdef uint32_t h, k, multiplier = 0x5BD1E995
    cdef Py_ssize_t position = 0
    h = <uint32_t>0x9747B28C ^ <uint32_t>length
    while length - position >= 4:
        k = data[position] | (<uint32_t>data[position + 1] << 8)
        k |= (<uint32_t>data[position + 2] << 16) | (<uint32_t>data[position + 3] << 24)
        k *= multiplier
        k ^= k >> 24
        k *= multiplier
        h *= multiplier
        h ^= k
        position += 4
    if length > position:
        k = data[position]
        if length - position > 1:
            k |= <uint32_t>data[position + 1] << 8
        if length - position > 2:
            k |= <uint32_t>data[position + 2] << 16
        h ^= k
        h *= multiplier
    h ^= h >> 13
    h *= multiplier
    h ^= h >> 15
    return h


cdef inline bint is_ascii(const uint8_t* data, int32_t size) noexcept nogil:
    cdef int32_t index
    cdef uint8_t seen = 0
    for index in range(size):
        seen |= data[index]
    return seen < 0x80
