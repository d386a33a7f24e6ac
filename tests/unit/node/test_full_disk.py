"""Whether a directory failed because of a full disk, and whether it has space again."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.base.errors import StorageFault
from ottla.base.files import OsDisk, drop_page_cache
from ottla.node.full_disk import FREE_BYTES_MAX, has_space, is_full, required_bytes

GIB = 1 << 30


class SizedDisk(OsDisk):
    """A disk with a given size."""

    def __init__(self, free: int, total: int, *, fails: bool = False) -> None:
        self.free, self.total, self.fails = free, total, fails

    def free_bytes(self, path: str) -> int:
        return self.free

    def total_bytes(self, path: str) -> int:
        return self.total

    def open(self, path: str, *, create: bool = False) -> object:  # type: ignore[override]
        if self.fails:
            raise OSError(errno.EDQUOT, "quota")
        return super().open(path, create=create)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_errors_of_a_full_disk(code: int) -> None:
    assert is_full(OSError(code, "full"))
    assert is_full(StorageFault("/d", StorageFault("/d", OSError(code, "full"))))


@pytest.mark.parametrize(
    "error", [None, OSError(errno.EIO, "broken"), ValueError(), StorageFault("/d", OSError())]
)
def test_other_errors(error: BaseException | None) -> None:
    assert not is_full(error)


def test_a_part_of_the_disk_must_be_free() -> None:
    assert required_bytes(SizedDisk(0, 2 * GIB), "/") == 2 * GIB // 20
    assert required_bytes(SizedDisk(0, 1000 * GIB), "/") == FREE_BYTES_MAX


@pytest.mark.parametrize(
    ("disk", "has"),
    [
        (SizedDisk(GIB, 10 * GIB), True),
        (SizedDisk(1000, 10 * GIB), False),
        (SizedDisk(GIB, 10 * GIB, fails=True), False),
    ],
)
def test_space_is_proved_by_a_write(tmp_path: Path, disk: SizedDisk, has: bool) -> None:
    paths: Sequence[str] = [str(tmp_path)]
    assert has_space(disk, paths) is has
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_has_no_space(tmp_path: Path) -> None:
    assert not has_space(OsDisk(), [str(tmp_path / "missing")])


def test_dropping_the_cache_keeps_the_content(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"content")
    drop_page_cache(str(tmp_path))
    assert (tmp_path / "a" / "file").read_bytes() == b"content"
