# cython: language_level=3, boundscheck=False, wraparound=False
"""Threads that write to files without ever taking the interpreter's lock. `writer.py` describes its purpose.

A job is a C structure: descriptor, vector of buffers, position, sync or not, and the errno it ended with. The
buffers are held (Py_buffer) until `take` has reported the job, so that they cannot be resized or freed meanwhile.
Finished jobs are signalled through an eventfd, once per burst.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.errno cimport EINTR, EIO, errno
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free
from posix.types cimport off_t

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t:
        pass
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    int pthread_create(pthread_t*, void*, void* (*)(void*) noexcept nogil, void*)
    int pthread_join(pthread_t, void**)
    int pthread_mutex_init(pthread_mutex_t*, void*)
    int pthread_mutex_lock(pthread_mutex_t*)
    int pthread_mutex_unlock(pthread_mutex_t*)
    int pthread_cond_init(pthread_cond_t*, void*)
    int pthread_cond_wait(pthread_cond_t*, pthread_mutex_t*)
    int pthread_cond_signal(pthread_cond_t*)
    int pthread_cond_broadcast(pthread_cond_t*)

cdef extern from "<signal.h>" nogil:
    ctypedef struct sigset_t:
        pass
    int SIG_SETMASK
    int sigfillset(sigset_t*)
    int pthread_sigmask(int, const sigset_t*, sigset_t*)

cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t pwritev2(int, const iovec*, int, off_t, int)
    int RWF_DSYNC

cdef extern from "<unistd.h>" nogil:
    ssize_t write(int, const void*, size_t)

cdef enum:
    IOV_MAX = 1024
    THREADS_MAX = 64

cdef struct Job:
    int fd
    int flags
    int error
    Py_ssize_t count
    off_t position
    iovec* parts
    Py_buffer* views
    PyObject* done
    Job* next

cdef struct Queue:
    Job* first
    Job* last

cdef struct Shared:
    pthread_mutex_t lock
    pthread_cond_t work
    Queue waiting
    Queue finished
    bint signalled
    bint closing
    int wake_fd


cdef inline void push(Queue* queue, Job* job) noexcept nogil:
    job.next = NULL
    if queue.last == NULL:
        queue.first = job
    else:
        queue.last.next = job
    queue.last = job


cdef inline Job* pop(Queue* queue) noexcept nogil:
    cdef Job* job = queue.first
    if job != NULL:
        queue.first = job.next
        if queue.first == NULL:
            queue.last = NULL
    return job


cdef void perform(Job* job) noexcept nogil:
    """Write every byte of a job, or note why not. A sync that fails is not tried again."""
    cdef Py_ssize_t index = 0
    cdef int batch
    cdef ssize_t written
    while True:
        while index < job.count and job.parts[index].iov_len == 0:
            index += 1
        if index == job.count:
            return
        batch = <int>min(job.count - index, IOV_MAX)
        written = pwritev2(job.fd, job.parts + index, batch, job.position, job.flags)
        if written < 0:
            if errno == EINTR:
                continue
            job.error = errno
            return
        if written == 0:
            job.error = EIO
            return
        job.position += written
        while written > 0:
            if <size_t>written < job.parts[index].iov_len:
                job.parts[index].iov_base = <char*>job.parts[index].iov_base + written
                job.parts[index].iov_len -= written
                written = 0
            else:
                written -= job.parts[index].iov_len
                job.parts[index].iov_len = 0
                index += 1


cdef void* work(void* argument) noexcept nogil:
    cdef Shared* shared = <Shared*>argument
    cdef Job* job
    cdef uint64_t one = 1
    cdef bint signal
    while True:
        pthread_mutex_lock(&shared.lock)
        while shared.waiting.first == NULL and not shared.closing:
            pthread_cond_wait(&shared.work, &shared.lock)
        job = pop(&shared.waiting)
        pthread_mutex_unlock(&shared.lock)
        if job == NULL:
            return NULL
        perform(job)
        pthread_mutex_lock(&shared.lock)
        push(&shared.finished, job)
        signal = not shared.signalled
        shared.signalled = True
        pthread_mutex_unlock(&shared.lock)
        if signal:
            write(shared.wake_fd, &one, sizeof(one))


cdef Job* make_job(int fd, list buffers, off_t position, bint sync, object done) except NULL:
    cdef Py_ssize_t count = len(buffers), index
    cdef Job* job = <Job*>calloc(1, sizeof(Job))
    if job == NULL:
        raise MemoryError
    job.parts = <iovec*>calloc(count + 1, sizeof(iovec))
    job.views = <Py_buffer*>calloc(count + 1, sizeof(Py_buffer))
    if job.parts == NULL or job.views == NULL:
        free_job(job)
        raise MemoryError
    job.fd = fd
    job.position = position
    job.flags = RWF_DSYNC if sync else 0
    try:
        for index in range(count):
            PyObject_GetBuffer(buffers[index], &job.views[index], PyBUF_SIMPLE)
            job.count += 1
            job.parts[index].iov_base = job.views[index].buf
            job.parts[index].iov_len = job.views[index].len
    except BaseException:
        free_job(job)
        raise
    Py_INCREF(done)
    job.done = <PyObject*>done
    return job


cdef void free_job(Job* job):
    cdef Py_ssize_t index
    for index in range(job.count):
        PyBuffer_Release(&job.views[index])
    free(job.views)
    free(job.parts)
    if job.done != NULL:
        Py_DECREF(<object>job.done)
    free(job)


cdef class WriterThreads:
    """A fixed number of threads; `wake_fd` is an eventfd that the event loop watches."""

    cdef Shared _shared
    cdef pthread_t _threads[THREADS_MAX]
    cdef int _count

    def __cinit__(self, int threads, int wake_fd):
        cdef sigset_t all_signals, before
        cdef int index
        self._shared.wake_fd = wake_fd
        pthread_mutex_init(&self._shared.lock, NULL)
        pthread_cond_init(&self._shared.work, NULL)
        # Signals are handled by the main thread.
        sigfillset(&all_signals)
        pthread_sigmask(SIG_SETMASK, &all_signals, &before)
        for index in range(min(threads, THREADS_MAX)):
            if pthread_create(&self._threads[index], NULL, work, &self._shared) != 0:
                break
            self._count += 1
        pthread_sigmask(SIG_SETMASK, &before, NULL)
        if self._count == 0:
            raise OSError("no thread could be started")

    def write(self, int fd, list buffers, off_t position, bint sync, object done):
        """Queue a write; `take` reports it together with `done`."""
        cdef Job* job = make_job(fd, buffers, position, sync, done)
        pthread_mutex_lock(&self._shared.lock)
        push(&self._shared.waiting, job)
        pthread_mutex_unlock(&self._shared.lock)
        # After the unlock: a thread that wakes up earlier would have to wait for the lock.
        pthread_cond_signal(&self._shared.work)

    def take(self):
        """All finished jobs as (done, errno), in the order in which they ended; errno 0 is success."""
        cdef Job* job
        cdef Queue finished
        cdef list reported = []
        pthread_mutex_lock(&self._shared.lock)
        finished = self._shared.finished
        self._shared.finished.first = self._shared.finished.last = NULL
        self._shared.signalled = False
        pthread_mutex_unlock(&self._shared.lock)
        job = pop(&finished)
        while job != NULL:
            reported.append((<object>job.done, job.error))
            free_job(job)
            job = pop(&finished)
        return reported

    def close(self):
        """Let the threads finish what is queued, and end them."""
        cdef int index, count = self._count
        self._count = 0
        pthread_mutex_lock(&self._shared.lock)
        self._shared.closing = True
        pthread_cond_broadcast(&self._shared.work)
        pthread_mutex_unlock(&self._shared.lock)
        with nogil:
            for index in range(count):
                pthread_join(self._threads[index], NULL)

    def __dealloc__(self):
        self.close()
        self.take()
