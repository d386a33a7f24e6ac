"""What the storage layer relies on, held against the machine's file system and the simulated disk alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.base.files import Disk, OsDisk
from ottla.base.rng import Random
from ottla.testing.disk import SimDisk


def sim_disk(root: str) -> Disk:
    disk = SimDisk(Random(1))
    disk.makedirs(root)
    return disk


@pytest.fixture(params=[lambda root: OsDisk(), sim_disk], ids=["os", "sim"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    make: Callable[[str], Disk] = request.param
    return make(str(tmp_path))


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path)


def test_what_was_written_is_read(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.pwritev([b"one", bytearray(b"two"), memoryview(b"three")], 0)
    file.pwritev([b"X"], 3, sync=True)
    assert file.pread(100, 0) == b"oneXwothree"
    assert file.pread(3, 4) == b"wot"
    assert file.size() == 11
    file.close()
    assert disk.read(f"{root}/a") == b"oneXwothree"
    assert disk.file_size(f"{root}/a") == 11


def test_a_read_is_short_only_at_the_end(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.pwritev([b"x" * 100], 0)
    assert len(file.pread(60, 60)) == 40
    assert file.pread(10, 100) == b""
    assert file.pread(10, 5000) == b""
    file.close()


@pytest.mark.parametrize("wait", [True, False])
def test_reading_into_a_buffer(disk: Disk, root: str, wait: bool) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.pwritev([b"abcdef"], 0)
    buffer = bytearray(10)
    assert file.pread_into(memoryview(buffer), 2, wait=wait) == 4
    assert bytes(buffer) == b"cdef" + bytes(6)
    file.close()


def test_more_buffers_than_one_call_takes(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    pieces = [bytes([number % 251]) * (number % 7) for number in range(5000)]
    file.pwritev(pieces, 10)
    assert file.pread(100_000, 10) == b"".join(pieces)
    assert file.pread(10, 0) == bytes(10)
    file.close()


def test_truncation_cuts_and_extends(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.pwritev([b"abcdef"], 0)
    file.truncate(3)
    assert file.pread(10, 0) == b"abc"
    file.truncate(5)
    assert file.pread(10, 0) == b"abc\0\0"
    file.datasync()
    file.close()


def test_a_closed_file_is_closed(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.close()
    file.close()
    with pytest.raises(OSError, match=r".*"):
        file.pread(1, 0)


def test_releasing_changes_neither_content_nor_size(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    content = bytes(range(256)) * 64
    file.pwritev([content], 0, sync=True)
    file.pwritev([b"unsynced"], 4096)
    for kept_from, end in ((0, 8192), (8192, 16384), (16384, 16384), (20_000, 30_000), (0, 0)):
        file.release(kept_from, end)
    assert file.pread(20_000, 0) == content[:4096] + b"unsynced" + content[4104:]
    assert file.size() == len(content)
    file.close()
    with pytest.raises(OSError, match=r".*"):
        file.release(4096, 8192)


def test_reserving_changes_neither_content_nor_size(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.pwritev([b"some content"], 0)
    for start, end in ((4096, 1 << 20), (0, 8192), (12, 13), (8192, 4096), (4096, 4096), (4096, 1 << 62)):
        file.reserve(start, end)
    assert file.size() == 12
    assert file.pread(100, 0) == b"some content"
    file.pwritev([b"more"], 4096)
    assert file.pread(5000, 0) == b"some content" + bytes(4084) + b"more"
    file.close()
    with pytest.raises(OSError, match=r".*"):
        file.reserve(0, 4096)


def test_a_duplicate_outlives_the_file_and_its_name(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.pwritev([b"here"], 0)
    other = file.duplicate()
    file.close()
    disk.remove(f"{root}/a")
    assert other.pread(4, 0) == b"here"
    other.release(4, 4)
    other.close()
    with pytest.raises(OSError, match=r".*"):
        other.duplicate()


def test_opening_what_is_not_there(disk: Disk, root: str) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/none")
    with pytest.raises(FileNotFoundError):
        disk.read(f"{root}/none")
    with pytest.raises(FileNotFoundError):
        disk.remove(f"{root}/none")
    with pytest.raises(FileNotFoundError):
        disk.listdir(f"{root}/none")


def test_opening_again_keeps_the_content(disk: Disk, root: str) -> None:
    disk.replace(f"{root}/a", b"kept")
    file = disk.open(f"{root}/a", create=True)
    assert file.pread(10, 0) == b"kept"
    file.close()


def test_directories(disk: Disk, root: str) -> None:
    disk.makedirs(f"{root}/d/e")
    disk.makedirs(f"{root}/d/e")
    disk.mkdir(f"{root}/d/f")
    with pytest.raises(FileExistsError):
        disk.mkdir(f"{root}/d/f")
    disk.replace(f"{root}/d/b", b"")
    disk.replace(f"{root}/d/a", b"")
    assert disk.listdir(f"{root}/d") == ["a", "b", "e", "f"]
    assert disk.is_dir(f"{root}/d/e")
    assert not disk.is_dir(f"{root}/d/a")
    disk.sync_dir(f"{root}/d")
    disk.rmtree(f"{root}/d")
    assert not disk.exists(f"{root}/d")


def test_renaming_replaces(disk: Disk, root: str) -> None:
    disk.replace(f"{root}/a", b"new")
    disk.replace(f"{root}/b", b"old")
    disk.rename(f"{root}/a", f"{root}/b")
    assert disk.listdir(root) == ["b"]
    assert disk.read(f"{root}/b") == b"new"


def test_an_open_file_outlives_its_name(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.pwritev([b"here"], 0)
    disk.rename(f"{root}/a", f"{root}/b")
    assert file.pread(4, 0) == b"here"
    disk.remove(f"{root}/b")
    assert file.pread(4, 0) == b"here"
    file.close()


def test_replacing_leaves_no_trace(disk: Disk, root: str) -> None:
    disk.replace(f"{root}/a", b"a longer first content")
    disk.replace(f"{root}/a", b"second")
    assert disk.read(f"{root}/a") == b"second"
    assert disk.listdir(root) == ["a"]


def test_a_lock_has_one_holder(disk: Disk, root: str) -> None:
    lock = disk.lock(f"{root}/.lock")
    with pytest.raises(LocalError, match="another broker"):
        disk.lock(f"{root}/.lock")
    lock.release()
    lock.release()
    disk.lock(f"{root}/.lock").release()


def test_room(disk: Disk, root: str) -> None:
    assert 0 < disk.free_bytes(root) <= disk.total_bytes(root)
    assert disk.modified_ms(root) >= 0 if isinstance(disk, OsDisk) else True


def test_syncing_everything(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/file", create=True)
    file.pwritev([b"content"], 0)
    disk.sync_all(root)
    assert disk.read(f"{root}/file") == b"content"
    with pytest.raises(FileNotFoundError):
        disk.sync_all(f"{root}/missing")
