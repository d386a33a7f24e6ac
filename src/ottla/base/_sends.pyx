# cython: language_level=3, boundscheck=False, wraparound=False
"""Several sends in one system call, through an io_uring of the event loop. `sends.py` describes its purpose.

The ring has one user, the thread of the event loop, and is empty between calls: all sends are submitted, and completed
before the call returns, because a send that must not wait (MSG_DONTWAIT) is executed during its submission. So the
kernel never uses a message after the call.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

cdef extern from *:
    """
    #include <linux/io_uring.h>
    #include <sys/mman.h>
    #include <sys/socket.h>
    #include <sys/syscall.h>
    #include <unistd.h>

    static int ring_setup(unsigned entries, struct io_uring_params *parameters) {
        return (int)syscall(__NR_io_uring_setup, entries, parameters);
    }
    static int ring_enter(int fd, unsigned submitted, unsigned completed) {
        return (int)syscall(__NR_io_uring_enter, fd, submitted, completed, IORING_ENTER_GETEVENTS, NULL, 0);
    }
    static uint32_t load(const uint32_t *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
    static void store(uint32_t *at, uint32_t value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }
    """
    cdef struct io_sqring_offsets:
        uint32_t head
        uint32_t tail
        uint32_t ring_mask
        uint32_t array
    cdef struct io_cqring_offsets:
        uint32_t head
        uint32_t tail
        uint32_t ring_mask
        uint32_t cqes
    cdef struct io_uring_params:
        uint32_t sq_entries
        uint32_t cq_entries
        uint32_t features
        io_sqring_offsets sq_off
        io_cqring_offsets cq_off
    cdef struct io_uring_sqe:
        uint8_t opcode
        int32_t fd
        uint64_t addr
        uint32_t len
        uint32_t msg_flags
        uint64_t user_data
    cdef struct io_uring_cqe:
        uint64_t user_data
        int32_t res
    int ring_setup(unsigned, io_uring_params*) nogil
    int ring_enter(int, unsigned, unsigned) nogil
    uint32_t load(const uint32_t*) nogil
    void store(uint32_t*, uint32_t) nogil
    void* mmap(void*, size_t, int, int, int, size_t) nogil
    int munmap(void*, size_t) nogil
    int close(int) nogil
    int PROT_READ, PROT_WRITE, MAP_SHARED, MAP_POPULATE, IORING_OFF_SQ_RING, IORING_OFF_SQES
    int IORING_FEAT_SINGLE_MMAP, IORING_OP_SEND, MSG_DONTWAIT, MSG_NOSIGNAL

cdef enum:
    ENTRIES = 16


cdef class SendRing:
    """A ring for at most `ENTRIES` sends at a time."""

    cdef int _fd
    cdef uint8_t* _rings
    cdef size_t _rings_size
    cdef io_uring_sqe* _entries
    cdef io_uring_params _parameters

    def __cinit__(self):
        self._fd = -1
        self._rings = NULL
        self._entries = NULL
        memset(&self._parameters, 0, sizeof(self._parameters))
        self._fd = ring_setup(ENTRIES, &self._parameters)
        if self._fd < 0:
            raise OSError(errno, "io_uring is not available")
        if not self._parameters.features & IORING_FEAT_SINGLE_MMAP:
            raise OSError("the rings of io_uring are not mapped together")
        self._rings_size = max(
            self._parameters.sq_off.array + self._parameters.sq_entries * sizeof(uint32_t),
            self._parameters.cq_off.cqes + self._parameters.cq_entries * sizeof(io_uring_cqe),
        )
        cdef int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE
        cdef void* mapped = mmap(NULL, self._rings_size, protection, flags, self._fd, IORING_OFF_SQ_RING)
        if mapped == <void*>-1:
            raise OSError(errno, "the rings of io_uring could not be mapped")
        self._rings = <uint8_t*>mapped
        mapped = mmap(NULL, ENTRIES * sizeof(io_uring_sqe), protection, flags, self._fd, IORING_OFF_SQES)
        if mapped == <void*>-1:
            raise OSError(errno, "the entries of io_uring could not be mapped")
        self._entries = <io_uring_sqe*>mapped

    cdef inline uint32_t* _at(self, uint32_t offset) noexcept:
        return <uint32_t*>(self._rings + offset)

    def send(self, list descriptors, list messages):
        """Send each message to its socket; return the number of accepted bytes, or the negative errno, of each."""
        cdef Py_buffer views[ENTRIES]
        cdef Py_ssize_t count = len(descriptors), taken = 0, index
        cdef uint32_t tail, mask
        cdef io_uring_sqe* entry
        cdef list results = [-EAGAIN] * count
        if count > ENTRIES or count != len(messages):
            raise ValueError(f"{count} descriptors for {len(messages)} messages, at most {ENTRIES} are possible")
        try:
            mask = self._at(self._parameters.sq_off.ring_mask)[0]
            tail = self._at(self._parameters.sq_off.tail)[0]
            for index in range(count):
                PyObject_GetBuffer(messages[index], &views[index], PyBUF_SIMPLE)
                taken += 1
                entry = &self._entries[tail & mask]
                memset(entry, 0, sizeof(io_uring_sqe))
                entry.opcode = IORING_OP_SEND
                entry.fd = descriptors[index]
                entry.addr = <uint64_t>views[index].buf
                entry.len = <uint32_t>views[index].len
                entry.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL
                entry.user_data = index
                self._at(self._parameters.sq_off.array)[tail & mask] = tail & mask
                tail += 1
            store(self._at(self._parameters.sq_off.tail), tail)
            self._enter(<uint32_t>count, results)
        finally:
            for index in range(taken):
                PyBuffer_Release(&views[index])
        return results

    cdef void _enter(self, uint32_t count, list results):
        """Submit that many entries and collect their results. What the kernel does not take is removed again."""
        cdef uint32_t submitted = 0, seen = 0, head, mask
        cdef int entered
        cdef io_uring_cqe* ended
        while seen < count:
            entered = ring_enter(self._fd, count - submitted, count - seen)
            if entered >= 0:
                submitted += entered
            elif errno != EINTR:
                store(self._at(self._parameters.sq_off.tail), load(self._at(self._parameters.sq_off.head)))
                count = submitted
            mask = self._at(self._parameters.cq_off.ring_mask)[0]
            head = self._at(self._parameters.cq_off.head)[0]
            while head != load(self._at(self._parameters.cq_off.tail)):
                ended = <io_uring_cqe*>(self._rings + self._parameters.cq_off.cqes) + (head & mask)
                results[<Py_ssize_t>ended.user_data] = ended.res
                head += 1
                seen += 1
            store(self._at(self._parameters.cq_off.head), head)

    def close(self):
        if self._entries != NULL:
            munmap(self._entries, ENTRIES * sizeof(io_uring_sqe))
            self._entries = NULL
        if self._rings != NULL:
            munmap(self._rings, self._rings_size)
            self._rings = NULL
        if self._fd >= 0:
            close(self._fd)
            self._fd = -1

    def __dealloc__(self):
        self.close()
