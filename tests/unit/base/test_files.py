"""What only the machine's file system can show; what it shares with the simulated one is in tests/contract."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from ottla.base import files
from ottla.base.errors import LocalError
from ottla.base.files import Buffer, OsDisk, OsFile, drop_page_cache

HOLD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "w")
{call}(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev
    calls = []

    def short(fd: int, buffers: Sequence[Buffer], position: int, flags: int = 0) -> int:
        calls.append(position)
        return real(fd, [memoryview(b"".join(buffers))[:7]], position, flags)

    monkeypatch.setattr(os, "pwritev", short)
    file = OsDisk().open(str(tmp_path / "a"), create=True)
    file.pwritev([b"0123456789", b"", b"abcdefghij", b"XY"], 5)
    assert file.pread(100, 5) == b"0123456789abcdefghijXY"
    assert calls == [5, 12, 19, 26]
    file.close()


def test_a_write_that_gets_nowhere_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwritev", lambda *_: 0)
    file = OsDisk().open(str(tmp_path / "a"), create=True)
    with pytest.raises(OSError, match="nothing could be written") as caught:
        file.pwritev([b"x"], 0)
    assert caught.value.errno == errno.EIO
    file.close()


def test_a_read_in_pieces_is_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsDisk().open(str(tmp_path / "a"), create=True)
    file.pwritev([b"0123456789"], 0)
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, position: real(fd, min(size, 3), position))
    assert file.pread(8, 1) == b"12345678"
    assert file.pread(20, 1) == b"123456789"
    file.close()


def test_a_read_that_would_block_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsDisk().open(str(tmp_path / "a"), create=True)
    file.pwritev([b"abc"], 0)
    real = os.preadv
    answers: list[OSError] = [
        BlockingIOError(),
        OSError(errno.EOPNOTSUPP, "no"),
        OSError(errno.EIO, "broken"),
    ]

    def fail_at_first(fd: int, buffers: list[memoryview], position: int, flags: int = 0) -> int:
        if flags:
            raise answers.pop(0)
        return real(fd, buffers, position)

    monkeypatch.setattr(os, "preadv", fail_at_first)
    buffer = memoryview(bytearray(3))
    assert file.pread_into(buffer, 0, wait=False) == -1
    assert file.pread_into(buffer, 0, wait=False) == 3
    with pytest.raises(OSError, match="broken"):
        file.pread_into(buffer, 0, wait=False)
    file.close()


@pytest.mark.parametrize("call", ["fcntl.lockf", "fcntl.flock"])
def test_a_lock_of_another_process_is_respected(tmp_path: Path, call: str) -> None:
    path = str(tmp_path / ".lock")
    command = [sys.executable, "-c", HOLD_LOCK.format(call=call), path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LocalError, match="another broker"):
            OsDisk().lock(path)
        holder.communicate()
    OsDisk().lock(path).release()


def test_a_lock_that_cannot_be_made_is_an_error_of_the_disk(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        OsDisk().lock(str(tmp_path / "none" / ".lock"))


def test_the_time_of_the_last_write(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"")
    os.utime(path, ns=(0, 1_234_567_890_123_456_789))
    assert OsDisk().modified_ms(str(path)) == 1_234_567_890_123


def test_files_and_directories_are_accessible_by_their_owner_only(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        disk = OsDisk()
        disk.makedirs(str(tmp_path / "a" / "b"))
        disk.mkdir(str(tmp_path / "c"))
        disk.open(str(tmp_path / "a" / "file"), create=True).close()
        disk.replace(str(tmp_path / "a" / "replaced"), b"x")
        disk.lock(str(tmp_path / "a" / "lock")).release()
    finally:
        os.umask(previous)
    for path in tmp_path.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_what_is_released_is_not_cached_any_more(tmp_path: Path) -> None:
    """What is kept is cached, and the content is the same."""
    size = 4 << 20  # more than the largest folio, which leaves the cache as a whole
    content = os.urandom(2 * size)
    file = synced_file(tmp_path / "control", content)
    drop_page_cache(str(tmp_path))
    if file.pread_into(memoryview(bytearray(1)), 0, wait=False) == 1:
        file.close()
        pytest.skip("this file system does not drop cached pages")
    file.close()
    file = synced_file(tmp_path / "a", content)
    byte = memoryview(bytearray(1))
    assert file.pread_into(byte, 0, wait=False) == 1
    file.release(size, 2 * size)
    assert file.pread_into(byte, size, wait=False) == 1
    assert file.pread_into(byte, 0, wait=False) == -1
    assert file.pread(2 * size, 0) == content
    file.close()


@pytest.mark.parametrize(("code", "fails"), [(errno.EIO, True), (errno.ENOSPC, True), (errno.ENOSYS, False)])
def test_a_write_that_cannot_be_started_is_an_error(
    code: int, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system without the call is none: the pages are written later."""

    class Library:
        @staticmethod
        def sync_file_range(*_: object) -> int:
            ctypes.set_errno(code)
            return -1

    monkeypatch.setattr(files, "_libc", Library)
    file = synced_file(tmp_path / "a", b"content")
    with pytest.raises(OSError, match=os.strerror(code)) if fails else nullcontext():
        file.release(0, 7)
    file.close()


def synced_file(path: Path, content: bytes) -> OsFile:
    file = OsDisk().open(str(path), create=True)
    file.pwritev([content], 0, sync=True)
    return file
