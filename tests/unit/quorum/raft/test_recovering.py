"""A core that recovers a lost log: what it must have before it votes again."""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.quorum.raft.messages import FetchResponse
from ottla.testing.cores.memory_log import pack
from tests.unit.quorum.raft.test_core import batches, fetched, recovering


def test_recovering_voter_waits_for_all_that_the_leader_has_committed() -> None:
    """It may have been half of the majority that has the last records (seed 47 of the simulation)."""
    node = recovering()
    requests = dict(node.sent())
    node.core.responded(node.now, 2, requests[2], FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, 1))
    part = FetchResponse(ErrorCode.NONE, 5, 1, 3, pack(batches(5, 5)))
    node.core.responded(node.now, 1, requests[1], part)
    node.flush()
    assert node.core.high_watermark == 2
    assert not node.core.can_vote
    fetched(node, 1, FetchResponse(ErrorCode.NONE, 5, 1, 3, pack(batches(5, 5, 5)[2:])))
    node.flush()
    assert node.core.can_vote
