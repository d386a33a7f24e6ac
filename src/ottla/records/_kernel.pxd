"""What other kernels may call: the checks of one batch, without the interpreter's lock."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

cdef struct Walked:
    int verdict
    int64_t max_timestamp
    int64_t min_timestamp
    int64_t keyless
    bint sequential

cdef Walked walk_records(
    const uint8_t* data, Py_ssize_t start, Py_ssize_t end, int64_t count, int64_t base_timestamp, bint strict
) noexcept nogil
cdef int check_before_crc(
    const uint8_t* data, Py_ssize_t available, int64_t max_message_bytes, bint zstd_allowed, Py_ssize_t* size
) noexcept nogil
cdef int check_header(const uint8_t* data) noexcept nogil
