"""Parts of a snapshot that do not continue what was fetched: nothing of them is installed."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.quorum.raft.messages import (
    Fetch,
    FetchResponse,
    FetchSnapshotResponse,
    OffsetAndEpoch,
    SnapshotInstalled,
)
from tests.unit.quorum.raft.test_core import following

WANTED = OffsetAndEpoch(40, 4)


@pytest.mark.parametrize(
    "part",
    [
        FetchSnapshotResponse(ErrorCode.NONE, 5, 1, WANTED, 2, 1, b"b"),
        FetchSnapshotResponse(ErrorCode.NONE, 5, 1, OffsetAndEpoch(50, 4), 2, 0, b"a"),
        FetchSnapshotResponse(ErrorCode.SNAPSHOT_NOT_FOUND, 5, 1),
    ],
)
def test_a_part_of_another_position_or_snapshot_is_not_used(part: FetchSnapshotResponse) -> None:
    node = following()
    ((_, fetch),) = node.sent()
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 50, snapshot=WANTED))
    ((_, first),) = node.sent()
    node.core.responded(node.now, 1, first, part)
    node.flush()
    node.pass_time(100)

    effects = node.take()
    assert not [effect for effect in effects if isinstance(effect, SnapshotInstalled)]
    assert node.core.log_end == OffsetAndEpoch(0, 0)
    assert [type(getattr(effect, "request", None)) for effect in effects].count(Fetch) == 1
