"""The disk as a port: the storage layer reads and writes through `Disk` and `File` only.

Two adapters exist: `OsDisk` here, and `SimDisk` in `ottla.testing.disk`, which loses unsynced writes, tears
them and fails on demand. One contract suite tests that both behave the same.

Rules of the port:

- Paths are plain strings; a directory listing is sorted, so that nothing depends on the order a file system
  has.
- Positions are explicit: a `File` has no cursor, so that readers and the writer never disturb each other.
- What `pwritev` wrote is durable after `datasync`, not before. A created, renamed or removed *name* is
  durable after `sync_dir` of its directory, not before. `replace` does all of it and is atomic.
- `release` and `reserve` are hints for the page cache and the file system: they change neither the content of a file
  nor its size nor what is durable.
- Failures are `OSError`. Nothing here retries a failed sync: the kernel marks the pages clean when it reports
  the error, so that a second sync would succeed without the data.

Concurrency: `pwritev`, `datasync`, `pread`, `release` and `reserve` of one file may run in a worker thread beside each
other; everything else belongs to the owner of the path.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

from ottla.base.errors import LocalError

Buffer = bytes | bytearray | memoryview

_IOV_MAX = 1024
# Records and metadata are readable by the user of the broker only, whatever the umask.
_FILE_MODE: Final = 0o600
_DIRECTORY_MODE: Final = 0o700
_READ_BYTES = 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)
_SYNC_FILE_RANGE_WRITE: Final = 2
_KEEP_SIZE: Final = 1  # FALLOC_FL_KEEP_SIZE
_NO_WAIT_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
_HINT_UNSUPPORTED = _NO_WAIT_UNSUPPORTED | {errno.EPERM, errno.ESPIPE}


class File(Protocol):
    """One open file."""

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes at `position`; fewer only at the end of the file."""
        ...

    def pread_into(self, buffer: memoryview, position: int, *, wait: bool = True) -> int:
        """Fill `buffer` from `position` and return how many bytes were read.

        -1 if `wait` is False and it would block.
        """
        ...

    def pwritev(self, buffers: Sequence[Buffer], position: int, *, sync: bool = False) -> None:
        """Write all of `buffers` one after the other from `position`.

        With `sync`, what was written is durable.
        """
        ...

    def datasync(self) -> None:
        """Make the content written so far durable, and the size with it."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros, to `size` bytes; durable after `datasync`."""
        ...

    def release(self, kept_from: int, end: int) -> None:
        """Start to write the bytes before `end` to the disk, and drop those before `kept_from` from the page cache.

        Only what is on the disk already is dropped. May block while the disk has too much to write. An error means
        that bytes could not be written; the next sync may succeed without them.
        """
        ...

    def reserve(self, start: int, end: int) -> None:
        """Allocate space on the disk for bytes that will be written from `start` to `end`, if the file system can."""
        ...

    def duplicate(self) -> File:
        """Another handle of the file, which stays usable after this one is closed or the file is removed."""
        ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class Lock(Protocol):
    """An acquired lock; the operating system also releases it when the process ends."""

    def release(self) -> None: ...


class Disk(Protocol):
    """The part of a file system that the storage layer needs."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; `create` makes the file if there is none, else FileNotFoundError."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def listdir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def makedirs(self, path: str) -> None:
        """Make the directory and those above it; the new names are durable on return."""
        ...

    def mkdir(self, path: str) -> None:
        """Make one directory; its name is durable once the directory above is synced."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name, replacing a file of that name."""
        ...

    def remove(self, path: str) -> None: ...

    def rmtree(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None:
        """Make the names in the directory durable."""
        ...

    def sync_all(self, path: str) -> None:
        """Make all contents and names durable that were written so far on the file system of `path`.

        One call instead of a sync of each of thousands of files.
        """
        ...

    def read(self, path: str) -> bytes:
        """A whole (small) file."""
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Set the whole content of a file, durably.

        After a crash it is the old content or the new, nothing between.
        """
        ...

    def file_size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written, in milliseconds since 1970."""
        ...

    def lock(self, path: str) -> Lock:
        """Lock the file at `path`; LocalError if this or another process has locked it."""
        ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...


class OsFile:
    """A file of the operating system, written through the page cache."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def fileno(self) -> int:
        """The descriptor, for edges that hand bytes to the kernel themselves."""
        return self._fd

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) in (size, 0):
            return data
        parts = [data]
        got = len(data)
        while got < size and (data := os.pread(self._fd, size - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pread_into(self, buffer: memoryview, position: int, *, wait: bool = True) -> int:
        if not wait:
            try:
                return os.preadv(self._fd, [buffer], position, os.RWF_NOWAIT)
            except BlockingIOError:
                return -1
            except OSError as error:
                if error.errno not in _NO_WAIT_UNSUPPORTED:
                    raise
        got = 0
        while got < len(buffer) and (count := os.preadv(self._fd, [buffer[got:]], position + got)):
            got += count
        return got

    def pwritev(self, buffers: Sequence[Buffer], position: int, *, sync: bool = False) -> None:
        flags = os.RWF_DSYNC if sync else 0
        if len(buffers) <= _IOV_MAX:
            wanted = sum(map(len, buffers))
            written = os.pwritev(self._fd, buffers, position, flags)
            if written == wanted:
                return
        else:
            written = 0
        self._write_rest(buffers, position, written, flags)

    def _write_rest(self, buffers: Sequence[Buffer], position: int, written: int, flags: int) -> None:
        """Continue after a short write; a full disk reports its error on the next attempt."""
        left = [memoryview(buffer) for buffer in buffers]
        position += written
        while left:
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if not left:
                return
            left[0] = left[0][written:]
            written = os.pwritev(self._fd, left[:_IOV_MAX], position, flags)
            if written == 0:
                raise OSError(errno.EIO, "nothing could be written", self.path)
            position += written

    def datasync(self) -> None:
        os.fdatasync(self._fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def release(self, kept_from: int, end: int) -> None:
        # A length of 0 would mean the whole file.
        if end > 0 and _libc.sync_file_range(
            self._fd, ctypes.c_int64(0), ctypes.c_int64(end), _SYNC_FILE_RANGE_WRITE
        ):
            code = ctypes.get_errno()
            if code not in _HINT_UNSUPPORTED:
                raise OSError(code, os.strerror(code), self.path)
        if kept_from > 0:
            with suppress(OSError):  # nothing was to be written any more
                os.posix_fadvise(self._fd, 0, kept_from, os.POSIX_FADV_DONTNEED)

    def reserve(self, start: int, end: int) -> None:
        # Without the flag, or with `os.posix_fallocate`, the size of the file would change.
        if _libc.fallocate(self._fd, _KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(end - start)):
            code = ctypes.get_errno()
            if code == errno.EBADF:
                raise OSError(code, os.strerror(code), self.path)

    def duplicate(self) -> OsFile:
        return OsFile(self.path, os.dup(self._fd))

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class OsLock:
    """Two locks on one file.

    `flock` also excludes a second holder in this process, `lockf` is the kind the JVM takes.
    """

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise LocalError(f"{path} is locked: another broker uses this directory") from error
            raise

    def release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class OsDisk:
    """The machine's file system."""

    def open(self, path: str, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(path, os.open(path, flags, _FILE_MODE))

    def exists(self, path: str) -> bool:
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_dir(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(os.stat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def makedirs(self, path: str) -> None:
        missing = []
        walk = os.path.abspath(path)
        while not os.path.exists(walk):
            missing.append(walk)
            walk = os.path.dirname(walk)
        for directory in reversed(missing):
            try:
                os.mkdir(directory, _DIRECTORY_MODE)
            except FileExistsError:
                if not self.is_dir(directory):
                    raise
            self.sync_dir(os.path.dirname(directory))

    def mkdir(self, path: str) -> None:
        os.mkdir(path, _DIRECTORY_MODE)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def rmtree(self, path: str) -> None:
        import shutil  # with it the compression modules, which a broker does not use otherwise

        shutil.rmtree(path)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _libc.syncfs(fd):
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), path)
        finally:
            os.close(fd)

    def read(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while part := os.read(fd, _READ_BYTES):
                parts.append(part)
            return b"".join(parts)
        finally:
            os.close(fd)

    def replace(self, path: str, data: bytes) -> None:
        temporary = f"{path}.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
        self.sync_dir(os.path.dirname(path))

    def file_size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def lock(self, path: str) -> OsLock:
        return OsLock(path)

    def free_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def total_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize


def drop_page_cache(directory: str) -> None:
    """Discard what the kernel has cached of the files below a directory, so that the next read is from the disk.

    After a failed sync the cache may contain data that is not on the disk. Data that is not written yet stays.
    """
    for folder, _, names in os.walk(directory):
        for name in names:
            descriptor = os.open(os.path.join(folder, name), os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
