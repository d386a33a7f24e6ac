"""Fetches as a leader answers them: snapshots, waiting fetches, notifications."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.quorum.raft.leader import Leadership, leader_change, snapshot_part
from ottla.quorum.raft.messages import Fetch, FetchSnapshot, FetchSnapshotResponse, OffsetAndEpoch
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.testing.cores.memory_log import Batch, Image, MemoryLog

VOTERS = VoterSet(Voter(ReplicaKey(node_id)) for node_id in range(3))
SNAPSHOT = OffsetAndEpoch(40, 4)


def leading(snapshot: OffsetAndEpoch | None = SNAPSHOT) -> Leadership:
    """Node 0 leads epoch 5; its log has three records behind the snapshot, of the epochs 4, 5 and 5."""
    start = 0 if snapshot is None else snapshot.offset
    batches = tuple(Batch(at, at + 1, epoch, (b"value",)) for at, epoch in enumerate((4, 5, 5), start))
    return Leadership(ReplicaKey(0), 5, MemoryLog(Image(snapshot, batches)), -1, 0.0, 2000.0)


def fetch(offset: int, last_epoch: int, wait_ms: int = 0, high_watermark: int = -1) -> Fetch:
    return Fetch(ReplicaKey(1), 5, offset, last_epoch, high_watermark, wait_ms)


@pytest.mark.parametrize(
    ("offset", "last_epoch", "needs"),
    [
        (0, 0, True),
        (39, 4, True),
        (41, 3, True),
        (40, 4, False),
        (40, 5, True),
        (41, 4, False),
        (43, 5, False),
    ],
)
def test_a_replica_whose_end_is_not_in_the_log_needs_the_snapshot(
    offset: int, last_epoch: int, needs: bool
) -> None:
    response = leading().fetch(0.0, "token", fetch(offset, last_epoch), VOTERS)
    assert response is not None
    assert response.snapshot == (SNAPSHOT if needs else None)
    assert not (response.snapshot and response.records)


@pytest.mark.parametrize("snapshot", [None, OffsetAndEpoch(0, 0)])
def test_without_a_snapshot_the_log_starts_at_its_first_record(snapshot: OffsetAndEpoch | None) -> None:
    response = leading(snapshot).fetch(0.0, "token", fetch(0, 0), VOTERS)
    assert response is not None
    assert (response.snapshot, response.diverging) == (None, None)
    assert response.records


@pytest.mark.parametrize(
    ("offset", "last_epoch", "diverging"),
    [
        (43, 5, None),
        (44, 5, OffsetAndEpoch(43, 5)),
        (42, 4, OffsetAndEpoch(41, 4)),
        (41, 4, None),
    ],
)
def test_a_replica_whose_end_is_not_in_its_epoch_has_diverged(
    offset: int, last_epoch: int, diverging: OffsetAndEpoch | None
) -> None:
    leadership = leading()
    response = leadership.fetch(0.0, "token", fetch(offset, last_epoch), VOTERS)
    assert response is not None
    assert response.diverging == diverging
    known = [one.end_offset for one in leadership.progress.replicas]
    assert known == ([] if diverging else [offset])


def test_a_replica_with_an_epoch_that_the_leader_does_not_have_has_diverged() -> None:
    """Its end is below the end of the epoch before, but its last record is another one."""
    batches = tuple(Batch(at, at + 1, epoch, (b"value",)) for at, epoch in enumerate((2, 2, 2, 5)))
    leadership = Leadership(ReplicaKey(0), 5, MemoryLog(Image(None, batches)), -1, 0.0, 2000.0)
    response = leadership.fetch(0.0, "token", fetch(2, 3), VOTERS)
    assert response is not None
    assert (response.diverging, response.records) == (OffsetAndEpoch(3, 2), b"")
    assert leadership.progress.replicas == []


@pytest.mark.parametrize(("offset", "last_epoch"), [(41, 4), (44, 5), (0, 0)])
def test_a_fetch_with_a_result_does_not_wait(offset: int, last_epoch: int) -> None:
    """Records, a diverging epoch, or a snapshot."""
    leadership = leading()
    response = leadership.fetch(0.0, "token", fetch(offset, last_epoch, 500), VOTERS)
    assert response is not None
    assert [bool(response.records), bool(response.diverging), bool(response.snapshot)].count(True) == 1
    assert leadership.waiting() == []


@pytest.mark.parametrize(("offset", "last_epoch"), [(41, 4), (44, 5), (0, 0)])
def test_each_response_has_the_high_watermark(offset: int, last_epoch: int) -> None:
    leadership = leading()
    leadership.high_watermark = 42
    response = leadership.fetch(0.0, "token", fetch(offset, last_epoch), VOTERS)
    assert response is not None
    assert response.high_watermark == 42


def test_all_fetches_that_wait_for_the_high_watermark_are_completed() -> None:
    leadership = leading()
    assert leadership.fetch(0.0, "first", fetch(43, 5, 500), VOTERS) is None
    assert leadership.fetch(0.0, "second", fetch(43, 5, 500, high_watermark=-1), VOTERS) is None
    leadership.high_watermark = 42
    responses = dict(leadership.completed(10.0, VOTERS))
    assert list(responses) == ["first", "second"]
    assert [one.high_watermark for one in responses.values()] == [42, 42]
    assert leadership.waiting() == []


def test_a_waiting_fetch_gets_one_response() -> None:
    leadership = leading()
    assert leadership.fetch(0.0, "token", fetch(43, 5, 500), VOTERS) is None
    assert list(leadership.completed(10.0, VOTERS)) == []
    assert list(leadership.expired(499.0, VOTERS)) == []
    assert [token for token, _ in leadership.expired(500.0, VOTERS)] == ["token"]
    assert list(leadership.expired(501.0, VOTERS)) == []
    assert leadership.waiting() == []


def test_voters_that_fetch_are_not_notified() -> None:
    leadership = leading()
    assert leadership.unnotified(0.0, VOTERS) == [1, 2]
    assert leadership.unnotified(999.0, VOTERS) == []
    leadership.fetch(500.0, "token", fetch(43, 5), VOTERS)
    assert leadership.unnotified(1000.0, VOTERS) == [2]
    assert leadership.wake_at_ms() == 2000
    assert leadership.unnotified(2000.0, VOTERS) == [1, 2]


@pytest.mark.parametrize(
    ("snapshot", "position", "error"),
    [
        (SNAPSHOT, 0, ErrorCode.NONE),
        (SNAPSHOT, 1, ErrorCode.NONE),
        (SNAPSHOT, 2, ErrorCode.POSITION_OUT_OF_RANGE),
        (SNAPSHOT, -1, ErrorCode.POSITION_OUT_OF_RANGE),
        (OffsetAndEpoch(41, 4), 0, ErrorCode.SNAPSHOT_NOT_FOUND),
    ],
)
def test_a_part_of_a_snapshot(snapshot: OffsetAndEpoch, position: int, error: ErrorCode) -> None:
    log = MemoryLog(Image(SNAPSHOT, ()))
    request = FetchSnapshot(ReplicaKey(1), 5, snapshot, position)
    response = snapshot_part(log, request, FetchSnapshotResponse(ErrorCode.NONE, 5, 0))
    assert response.error is error
    if not error:
        assert (response.snapshot, response.position, response.size) == (snapshot, position, 2)


def test_a_voter_is_notified_when_it_has_not_fetched_for_half_of_the_fetch_timeout() -> None:
    leadership = leading()
    leadership.unnotified(0.0, VOTERS)
    leadership.progress.fetched(ReplicaKey(1), 0.0, 43, 43)
    leadership.progress.fetched(ReplicaKey(2), 1.0, 43, 43)
    assert leadership.unnotified(1000.0, VOTERS) == [1]


def test_the_first_record_of_an_epoch_names_the_leader_the_voters_and_who_voted_for_it() -> None:
    change = leader_change(2, VOTERS, [0, 2])
    assert change.leader_id == 2
    assert [each.voter_id for each in change.voters] == [0, 1, 2]
    assert [each.voter_id for each in change.granting_voters] == [0, 2]
