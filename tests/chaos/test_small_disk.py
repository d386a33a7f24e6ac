"""Tests of the small file systems."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.chaos.small_disk import SmallDisk, unavailable


@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
def test_a_disk_is_filled_and_emptied(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "data")
    try:
        (disk.path / "before").write_bytes(b"kept")
        disk.fill()
        assert disk.free == 0
        with pytest.raises(OSError, match="No space") as refused:
            (disk.path / "more").write_bytes(b"x")
        assert refused.value.errno == errno.ENOSPC
        disk.empty()
        (disk.path / "more").write_bytes(b"x")
        disk.fill()
    finally:
        disk.unmount(keep=True)
    assert {path.name: path.read_bytes() for path in disk.path.iterdir()} == {"before": b"kept", "more": b"x"}
