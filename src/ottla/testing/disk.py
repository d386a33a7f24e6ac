"""Simulated disk in memory: unsynced changes may be lost by a crash, completely or in part.

The model. A file has durable content and a list of changes since its last sync. A directory has durable names and a
list of unsynced changes. `crash` creates a new disk on which each unsynced change is kept or lost independently of the
others; a write may also be torn: only its first part is kept. This is what the durability rules of POSIX allow, and
more than most file systems do. Syncing a file does not make its name durable. A lost write before one
that was kept leaves zeros.

Faults. `fail_at(n, code)` makes the n-th change from now on raise that errno. A sync that fails loses what it was to
make durable: a later sync succeeds and does not restore it, as with Linux's page cache.

Traces. Every change is recorded as a `Change` in `trace`. `SimDisk.apply` repeats a change on another disk, so that a
recorded run can be replayed change by change, with a crash after each of them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from ottla.base.errors import LocalError
from ottla.base.files import Buffer
from ottla.base.rng import Random

_SIZE_BYTES = 1 << 40


class Change(NamedTuple):
    """One primitive change of a disk."""

    kind: str
    path: str = ""
    target: str = ""
    inode: int = 0
    position: int = 0
    data: bytes = b""
    sync: bool = False


class Survival(Enum):
    """Which of the unsynced changes survive a crash."""

    NONE = "none"
    ALL = "all"
    SOME = "some"


class _Unsynced:
    """A change that is not durable yet, or that is (`durable`) but waits behind one that is not."""

    __slots__ = ("change", "durable", "node")

    def __init__(self, change: Change, node: _Inode | _Dir | None = None, durable: bool = False) -> None:
        self.change = change
        self.node = node
        self.durable = durable


class _Inode:
    __slots__ = ("data", "durable", "modified_ms", "number", "unsynced")

    def __init__(self, number: int, data: bytes = b"") -> None:
        self.number = number
        self.data = bytearray(data)
        self.durable = bytearray(data)
        self.unsynced: list[_Unsynced] = []
        self.modified_ms = 0


class _Dir:
    __slots__ = ("durable", "names", "unsynced")

    def __init__(self) -> None:
        self.names: dict[str, _Inode | _Dir] = {}
        self.durable: dict[str, _Inode | _Dir] = {}
        self.unsynced: list[_Unsynced] = []


class SimFile:
    """An open file of a `SimDisk`."""

    def __init__(self, disk: SimDisk, inode: _Inode, path: str) -> None:
        self._disk = disk
        self._inode: _Inode | None = inode
        self.path = path

    @property
    def _open_inode(self) -> _Inode:
        if self._inode is None:
            raise OSError(errno.EBADF, "the file is closed", self.path)
        return self._inode

    def pread(self, size: int, position: int) -> bytes:
        self._disk.reading(size)
        return bytes(self._open_inode.data[position : position + size])

    def pread_into(self, buffer: memoryview, position: int, *, wait: bool = True) -> int:
        data = self.pread(len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def pwritev(self, buffers: Sequence[Buffer], position: int, *, sync: bool = False) -> None:
        data = b"".join(buffers)
        self._disk.apply(
            Change("write", self.path, inode=self._open_inode.number, position=position, data=data, sync=sync)
        )

    def datasync(self) -> None:
        self._disk.apply(Change("datasync", self.path, inode=self._open_inode.number))

    def truncate(self, size: int) -> None:
        self._disk.apply(Change("truncate", self.path, inode=self._open_inode.number, position=size))

    def release(self, kept_from: int, end: int) -> None:
        """Do nothing: the simulated disk has no page cache."""
        self._open_inode  # noqa: B018 - the file must be open

    def reserve(self, start: int, end: int) -> None:
        """Do nothing: the simulated disk has no blocks."""
        self._open_inode  # noqa: B018 - the file must be open

    def duplicate(self) -> SimFile:
        return SimFile(self._disk, self._open_inode, self.path)

    def size(self) -> int:
        return len(self._open_inode.data)

    def close(self) -> None:
        self._inode = None


class SimLock:
    """A locked file of a `SimDisk`."""

    def __init__(self, disk: SimDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locked_paths.discard(self._path)


class SimDisk:
    """A disk that records its changes and can crash."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._root = _Dir()
        self._inodes: dict[int, _Inode] = {}
        self._next_inode = 1
        self._fail_in = -1
        self._fail_code = 0
        self.trace: list[Change] = []
        self.locked_paths: set[str] = set()
        self.now_ms = 0
        self.bytes_read = 0

    # --- the port ---

    def open(self, path: str, *, create: bool = False) -> SimFile:
        node = self._find(path)
        if node is None and create:
            self.apply(Change("create", path, inode=self._next_inode))
            node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if isinstance(node, _Dir):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return SimFile(self, node, path)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._find(path), _Dir)

    def listdir(self, path: str) -> list[str]:
        return sorted(self._dir(path).names)

    def makedirs(self, path: str) -> None:
        at = ""
        for name in _parts(path):
            parent, at = at, f"{at}/{name}"
            if self._find(at) is None:
                self.mkdir(at)
                self.sync_dir(parent or "/")

    def mkdir(self, path: str) -> None:
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, "exists", path)
        self.apply(Change("mkdir", path))

    def rename(self, source: str, target: str) -> None:
        if self._find(source) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        self.apply(Change("rename", source, target))

    def remove(self, path: str) -> None:
        if self._find(path) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self.apply(Change("remove", path))

    def rmtree(self, path: str) -> None:
        for name in self.listdir(path):
            inner = f"{path}/{name}"
            if self.is_dir(inner):
                self.rmtree(inner)
            else:
                self.remove(inner)
        self.apply(Change("remove", path))

    def sync_dir(self, path: str) -> None:
        self._dir(path)
        self.apply(Change("sync_dir", path))

    def sync_all(self, path: str) -> None:
        self._dir(path)
        self.apply(Change("sync_all", path))

    def read(self, path: str) -> bytes:
        file = self.open(path)
        return file.pread(file.size(), 0)

    def replace(self, path: str, data: bytes) -> None:
        temporary = f"{path}.tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.pwritev([data], 0)
        file.datasync()
        self.rename(temporary, path)
        self.sync_dir(path.rpartition("/")[0] or "/")

    def file_size(self, path: str) -> int:
        return self.open(path).size()

    def modified_ms(self, path: str) -> int:
        return self.open(path)._open_inode.modified_ms

    def lock(self, path: str) -> SimLock:
        if path in self.locked_paths:
            raise LocalError(f"{path} is locked: another broker uses this directory")
        self.open(path, create=True)
        self.locked_paths.add(path)
        return SimLock(self, path)

    def free_bytes(self, path: str) -> int:
        return _SIZE_BYTES - sum(len(inode.data) for inode in self._inodes.values())

    def total_bytes(self, path: str) -> int:
        return _SIZE_BYTES

    # --- changes ---

    def apply(self, change: Change) -> None:
        """Apply a change and record it in the trace, or fail if it is the one that `fail_at` has chosen."""
        self._maybe_fail(change)
        _APPLY[change.kind](self, change)
        self.trace.append(change)

    def fail_at(self, changes: int, code: int = errno.EIO) -> None:
        """Fail at that change, counted from now; -1: do not fail."""
        self._fail_in = changes
        self._fail_code = code

    def reading(self, size: int) -> None:
        self.bytes_read += size

    def _maybe_fail(self, change: Change) -> None:
        if self._fail_in < 0:
            return
        self._fail_in -= 1
        if self._fail_in >= 0:
            return
        inode = self._inodes.get(change.inode)
        lost = [inode] if inode is not None and (change.kind == "datasync" or change.sync) else []
        for each in self._inodes.values() if change.kind == "sync_all" else lost:
            # What could not be synced is lost at a crash, although reads still return it.
            each.unsynced = [one for one in each.unsynced if one.durable]
        raise OSError(self._fail_code, os.strerror(self._fail_code), change.path)

    def _apply_create(self, change: Change) -> None:
        inode = _Inode(change.inode)
        inode.modified_ms = self.now_ms
        self._next_inode = max(self._next_inode, change.inode + 1)
        self._inodes[change.inode] = inode
        self._link(change, change.path, inode)

    def _apply_mkdir(self, change: Change) -> None:
        self._link(change, change.path, _Dir())

    def _link(self, change: Change, path: str, node: _Inode | _Dir) -> None:
        parent, name = self._parent(path)
        parent.names[name] = node
        parent.unsynced.append(_Unsynced(change, node))

    def _apply_rename(self, change: Change) -> None:
        old_parent, old_name = self._parent(change.path)
        new_parent, new_name = self._parent(change.target)
        node = old_parent.names.pop(old_name)
        new_parent.names[new_name] = node
        old_parent.unsynced.append(_Unsynced(change, node))
        if new_parent is not old_parent:
            new_parent.unsynced.append(_Unsynced(change, node))

    def _apply_remove(self, change: Change) -> None:
        parent, name = self._parent(change.path)
        del parent.names[name]
        parent.unsynced.append(_Unsynced(change))

    def _apply_sync_dir(self, change: Change) -> None:
        directory = self._dir(change.path)
        directory.durable = dict(directory.names)
        directory.unsynced.clear()

    def _apply_write(self, change: Change) -> None:
        inode = self._inodes[change.inode]
        _change_data(inode.data, change, len(change.data))
        inode.modified_ms = self.now_ms
        if change.sync and not inode.unsynced:
            _change_data(inode.durable, change, len(change.data))
        else:
            inode.unsynced.append(_Unsynced(change, durable=change.sync))

    def _apply_truncate(self, change: Change) -> None:
        inode = self._inodes[change.inode]
        _change_data(inode.data, change, 0)
        inode.modified_ms = self.now_ms
        inode.unsynced.append(_Unsynced(change))

    def _apply_sync_all(self, change: Change) -> None:
        for inode in self._inodes.values():
            if inode.unsynced:
                self._sync_inode(inode)
        waiting = [self._root]
        for directory in waiting:
            directory.durable = dict(directory.names)
            directory.unsynced.clear()
            waiting += [node for node in directory.names.values() if isinstance(node, _Dir)]

    def _apply_datasync(self, change: Change) -> None:
        self._sync_inode(self._inodes[change.inode])

    def _sync_inode(self, inode: _Inode) -> None:
        for each in inode.unsynced:
            each.durable = True
        inode.durable = self._image(inode, Survival.NONE)
        inode.unsynced.clear()

    def durable_data(self, path: str) -> bytes | None:
        """What a crash leaves of a file at least; None if not even its name is durable."""
        node: _Inode | _Dir | None = self._root
        for name in _parts(path):
            node = node.durable.get(name) if isinstance(node, _Dir) else None
        return bytes(self._image(node, Survival.NONE)) if isinstance(node, _Inode) else None

    # --- crashes ---

    def crash(self, survival: Survival = Survival.SOME) -> SimDisk:
        """The disk as it may be after a power failure: everything on it is durable, and no file is open."""
        found = type(self)(self._rng)
        found.now_ms = self.now_ms
        copies: dict[int, _Inode] = {}
        found._root = self._crashed_dir(self._root, survival, copies)
        found._inodes = copies
        found._next_inode = self._next_inode
        return found

    def _crashed_dir(self, directory: _Dir, survival: Survival, copies: dict[int, _Inode]) -> _Dir:
        names = dict(directory.durable)
        for each in directory.unsynced:
            if self._survives(survival):
                _change_names(names, each)
        copy = _Dir()
        for name, node in sorted(names.items()):
            if isinstance(node, _Dir):
                copy.names[name] = self._crashed_dir(node, survival, copies)
                continue
            if node.number not in copies:
                copies[node.number] = _Inode(node.number, bytes(self._image(node, survival)))
                copies[node.number].modified_ms = node.modified_ms
            copy.names[name] = copies[node.number]
        copy.durable = dict(copy.names)
        return copy

    def _image(self, inode: _Inode, survival: Survival) -> bytearray:
        data = bytearray(inode.durable)
        for each in inode.unsynced:
            if each.durable or self._survives(survival):
                size = len(each.change.data)
                torn = survival is Survival.SOME and not each.durable and self._rng.random() < 0.3
                _change_data(data, each.change, self._rng.randrange(size) if torn and size else size)
        return data

    def _survives(self, survival: Survival) -> bool:
        if survival is Survival.SOME:
            return self._rng.random() < 0.5
        return survival is Survival.ALL

    def corrupt(self, path: str, position: int) -> None:
        """Flip the bits of one byte, durably."""
        inode = self.open(path)._open_inode
        inode.data[position] ^= 0xFF
        self._make_durable(inode)

    def tear(self, path: str, size: int) -> None:
        """Remove everything of a file from that size on, durably."""
        inode = self.open(path)._open_inode
        del inode.data[size:]
        self._make_durable(inode)

    @staticmethod
    def _make_durable(inode: _Inode) -> None:
        inode.durable = bytearray(inode.data)
        inode.unsynced.clear()

    # --- paths ---

    def _find(self, path: str) -> _Inode | _Dir | None:
        node: _Inode | _Dir | None = self._root
        for name in _parts(path):
            if not isinstance(node, _Dir):
                return None
            node = node.names.get(name)
        return node

    def _dir(self, path: str) -> _Dir:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        if not isinstance(node, _Dir):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return node

    def _parent(self, path: str) -> tuple[_Dir, str]:
        above, _, name = path.rpartition("/")
        return self._dir(above or "/"), name


def _parts(path: str) -> Iterator[str]:
    return (part for part in path.split("/") if part)


def _change_data(data: bytearray, change: Change, size: int) -> None:
    """Apply a write, or a first part of it, or a truncation."""
    if change.kind == "truncate":
        del data[change.position :]
        data.extend(bytes(change.position - len(data)))
        return
    data.extend(bytes(max(0, change.position - len(data))))
    data[change.position : change.position + size] = change.data[:size]


def _change_names(names: dict[str, _Inode | _Dir], each: _Unsynced) -> None:
    """Apply a change of a directory that survived. A rename within one directory is atomic."""
    change = each.change
    name = change.path.rpartition("/")[2]
    if change.kind == "remove":
        names.pop(name, None)
    elif each.node is not None:
        if change.kind == "rename":
            if names.get(name) is each.node:
                del names[name]
            name = change.target.rpartition("/")[2]
        names[name] = each.node


_APPLY: dict[str, Callable[[SimDisk, Change], None]] = {
    "create": SimDisk._apply_create,
    "mkdir": SimDisk._apply_mkdir,
    "rename": SimDisk._apply_rename,
    "remove": SimDisk._apply_remove,
    "sync_dir": SimDisk._apply_sync_dir,
    "write": SimDisk._apply_write,
    "truncate": SimDisk._apply_truncate,
    "datasync": SimDisk._apply_datasync,
    "sync_all": SimDisk._apply_sync_all,
}
