from __future__ import annotations

import errno

import pytest

from ottla.base.rng import Random
from ottla.testing.disk import SimDisk, Survival


def disk_with(content: bytes) -> SimDisk:
    disk = SimDisk(Random(7))
    disk.makedirs("/d")
    disk.replace("/d/a", content)
    return disk


def test_synced_content_survives() -> None:
    disk = disk_with(b"abc")
    file = disk.open("/d/a")
    file.pwritev([b"def"], 3)
    file.datasync()
    file.pwritev([b"ghi"], 6)
    assert disk.crash(Survival.NONE).read("/d/a") == b"abcdef"
    assert disk.crash(Survival.ALL).read("/d/a") == b"abcdefghi"


def test_a_synced_write_is_durable_beside_one_that_is_not() -> None:
    disk = disk_with(b"")
    file = disk.open("/d/a")
    file.pwritev([b"abc"], 0)
    file.pwritev([b"def"], 3, sync=True)
    assert disk.crash(Survival.NONE).read("/d/a") == b"\0\0\0def"


def test_unsynced_writes_are_kept_lost_and_torn() -> None:
    disk = disk_with(b"")
    file = disk.open("/d/a")
    file.pwritev([b"aaaa"], 0)
    file.pwritev([b"bbbb"], 4)
    images = {disk.crash().read("/d/a") for _ in range(200)}
    assert {b"", b"aaaa", b"\0\0\0\0bbbb", b"aaaabbbb"} <= images
    assert any(0 < len(image) < 4 for image in images)


def test_a_name_is_durable_after_the_sync_of_its_directory() -> None:
    disk = disk_with(b"abc")
    file = disk.open("/d/new", create=True)
    file.pwritev([b"x"], 0)
    file.datasync()
    assert disk.crash(Survival.NONE).listdir("/d") == ["a"]
    disk.sync_dir("/d")
    assert disk.crash(Survival.NONE).listdir("/d") == ["a", "new"]


def test_a_removed_or_renamed_file_may_reappear_after_a_crash() -> None:
    disk = disk_with(b"abc")
    disk.rename("/d/a", "/d/b")
    assert disk.crash(Survival.NONE).listdir("/d") == ["a"]
    assert disk.crash(Survival.ALL).listdir("/d") == ["b"]
    disk.sync_dir("/d")
    disk.remove("/d/b")
    assert disk.crash(Survival.NONE).listdir("/d") == ["b"]
    assert disk.crash(Survival.ALL).listdir("/d") == []


def test_an_unsynced_truncation_may_be_undone() -> None:
    disk = disk_with(b"abc")
    disk.open("/d/a").truncate(1)
    assert disk.crash(Survival.NONE).read("/d/a") == b"abc"
    assert disk.crash(Survival.ALL).read("/d/a") == b"a"


def test_a_crash_during_replace_leaves_the_old_or_the_new_content() -> None:
    disk = disk_with(b"old")
    before = len(disk.trace)
    disk.replace("/d/a", b"new")
    found = set()
    for end in range(before, len(disk.trace) + 1):
        copy = SimDisk(Random(end))
        for change in disk.trace[:end]:
            copy.apply(change)
        found |= {copy.crash().read("/d/a") for _ in range(20)}
    assert found == {b"old", b"new"}


def test_a_trace_repeats_a_disk() -> None:
    disk = disk_with(b"abc")
    disk.open("/d/b", create=True).pwritev([b"xyz"], 2)
    disk.rename("/d/b", "/d/c")
    copy = SimDisk(Random(1))
    for change in disk.trace:
        copy.apply(change)
    assert copy.listdir("/d") == ["a", "c"]
    assert copy.read("/d/c") == b"\0\0xyz"
    assert copy.crash(Survival.NONE).listdir("/d") == ["a"]


def test_the_nth_change_fails() -> None:
    disk = disk_with(b"abc")
    file = disk.open("/d/a")
    disk.fail_at(1, errno.ENOSPC)
    file.pwritev([b"x"], 0)
    with pytest.raises(OSError, match="No space") as caught:
        file.pwritev([b"y"], 0)
    assert caught.value.errno == errno.ENOSPC
    file.pwritev([b"z"], 0)
    assert file.pread(3, 0) == b"zbc"


def test_a_failed_sync_loses_the_data() -> None:
    disk = disk_with(b"abc")
    file = disk.open("/d/a")
    file.pwritev([b"def"], 3)
    disk.fail_at(0, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        file.datasync()
    file.datasync()
    assert file.pread(10, 0) == b"abcdef"
    assert disk.crash(Survival.ALL).read("/d/a") == b"abc"


def test_corruption_and_reads_are_recorded() -> None:
    disk = disk_with(b"abc")
    disk.corrupt("/d/a", 1)
    assert disk.crash(Survival.NONE).read("/d/a") == b"a\x9dc"
    assert disk.bytes_read == 0
    disk.read("/d/a")
    assert disk.bytes_read == 3
