"""When a voter that has lost its log may vote again."""

from __future__ import annotations

import pytest

from ottla.quorum.raft.messages import OffsetAndEpoch
from ottla.quorum.raft.recovery import Recovery
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.testing.cores.memory_log import Batch, Image, MemoryLog

VOTERS = VoterSet(Voter(ReplicaKey(node_id)) for node_id in range(3))


def reported() -> Recovery:
    recovery = Recovery()
    recovery.reported(1)
    recovery.reported(2)
    return recovery


def log(snapshot: OffsetAndEpoch | None, *epochs: int) -> MemoryLog:
    start = 0 if snapshot is None else snapshot.offset
    batches = tuple(Batch(at, at + 1, epoch, (b"value",)) for at, epoch in enumerate(epochs, start))
    return MemoryLog(Image(snapshot, batches))


def test_voters_that_have_reported_are_not_asked_again() -> None:
    recovery = Recovery()
    recovery.reported(2)
    assert recovery.missing([1, 2]) == [1]


def test_the_log_must_be_durable() -> None:
    made = log(None, 4, 5)
    made.append(5, [b"value"])
    assert not reported().is_complete(VOTERS, made, 5, 3)
    made.finish_write()
    assert reported().is_complete(VOTERS, made, 5, 3)


def test_the_log_must_have_a_record_of_the_epoch() -> None:
    assert not reported().is_complete(VOTERS, log(None, 4, 4), 5, 3)


@pytest.mark.parametrize(
    ("snapshot", "epochs", "high_watermark", "complete"),
    [
        (None, (4, 5), 1, False),
        (None, (4, 5), 2, True),
        (OffsetAndEpoch(40, 5), (), 39, False),
        (OffsetAndEpoch(40, 5), (), 40, True),
        (OffsetAndEpoch(40, 5), (5,), 40, True),
        (OffsetAndEpoch(40, 4), (5,), 40, False),
        (OffsetAndEpoch(40, 4), (5,), 41, True),
    ],
)
def test_a_record_of_the_epoch_must_be_committed(
    snapshot: OffsetAndEpoch | None, epochs: tuple[int, ...], high_watermark: int, complete: bool
) -> None:
    assert reported().is_complete(VOTERS, log(snapshot, *epochs), 5, high_watermark) is complete


def test_the_high_watermark_of_the_leader_must_be_reached() -> None:
    """The voter may have acknowledged the records up to it before it lost them."""
    recovery = reported()
    recovery.leader_committed(3)
    recovery.leader_committed(2)
    assert not recovery.is_complete(VOTERS, log(None, 5, 5), 5, 2)
    assert recovery.is_complete(VOTERS, log(None, 5, 5, 5), 5, 3)
