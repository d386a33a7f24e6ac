"""Formats an empty directory as the metadata directory of a quorum of one.

It writes two files, as Apache Kafka's storage tool does for a standalone voter: `bootstrap.checkpoint` in the
log directory, with the initial feature levels, and the snapshot `0-0` beside the log, with this node as the
only voter. Formatting can be repeated: the next start completes a format that was interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.base.files import Disk
from ottla.quorum.snapshots import (
    BOOTSTRAP_FILE,
    SnapshotId,
    SnapshotStore,
    decode_snapshot,
    encode_snapshot,
)
from ottla.quorum.voter import KRAFT_VERSION_MAX, LocalVoter
from ottla.wire.messages.control import KRaftVersionRecord


def format_quorum(
    disk: Disk, log_dir: str, directory: str, *, voter: LocalVoter, bootstrap: Iterable[bytes], now_ms: int
) -> None:
    """Format `directory` (inside `log_dir`) as the metadata directory of a new quorum of one."""
    disk.makedirs(directory)
    path = f"{log_dir}/{BOOTSTRAP_FILE}"
    if not disk.exists(path):
        disk.replace(
            path, encode_snapshot(bootstrap, epoch=0, last_timestamp_ms=0, controls=(), now_ms=now_ms)
        )
    controls = [KRaftVersionRecord(kraft_version=KRAFT_VERSION_MAX), voter.record()]
    data = encode_snapshot((), epoch=0, last_timestamp_ms=now_ms, controls=controls, now_ms=now_ms)
    SnapshotStore(disk, directory).write(SnapshotId(0, 0), data)


def read_bootstrap(disk: Disk, log_dir: str) -> list[bytes] | None:
    """Read the initial record values of a new cluster; None if the directory has no bootstrap file."""
    path = f"{log_dir}/{BOOTSTRAP_FILE}"
    if not disk.exists(path):
        return None
    return [value for values in decode_snapshot(disk.read(path), path).batches for value in values]
