from __future__ import annotations

from pathlib import Path

from ottla.base.files import OsDisk
from ottla.quorum.formatting import format_quorum, read_bootstrap
from ottla.quorum.snapshots import SnapshotId, SnapshotStore
from tests.support.quorum import voter

DISK = OsDisk()


def test_no_bootstrap_file(tmp_path: Path) -> None:
    assert read_bootstrap(DISK, str(tmp_path)) is None


def test_format_can_be_repeated_and_keeps_what_was_chosen(tmp_path: Path) -> None:
    directory = str(tmp_path / "__cluster_metadata-0")
    for values in ([b"a", b"b"], [b"other"]):
        format_quorum(DISK, str(tmp_path), directory, voter=voter(), bootstrap=values, now_ms=4)
    assert read_bootstrap(DISK, str(tmp_path)) == [b"a", b"b"]
    (controls,) = [SnapshotStore(DISK, directory).read(SnapshotId(0, 0)).controls]
    assert controls[1] == voter().record()
