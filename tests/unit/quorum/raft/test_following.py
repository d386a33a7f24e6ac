"""A follower: what a response of the leader changes, and what it does not."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.quorum.raft.messages import (
    Committed,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    OffsetAndEpoch,
    Request,
    SnapshotInstalled,
    Vote,
)
from ottla.quorum.raft.roles import Role
from ottla.testing.cores.memory_log import Image, pack
from tests.unit.quorum.raft.test_core import Node, batches, elected, following, key

WANTED = OffsetAndEpoch(40, 4)


def respond(node: Node, response: FetchResponse) -> None:
    """The leader responds to the fetch that was just sent to it."""
    ((_, fetch),) = node.sent()
    node.core.responded(node.now, 1, fetch, response)


def part(position: int, *, snapshot: OffsetAndEpoch = WANTED, size: int = 2) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(ErrorCode.NONE, 5, 1, snapshot, size, position, b"a")


def test_a_diverging_epoch_commits_nothing() -> None:
    """What is left after the truncation may differ from the log of the leader, too."""
    node = following(Image(None, batches(1, 2, 3)))
    respond(node, FetchResponse(ErrorCode.NONE, 5, 1, 3, diverging=OffsetAndEpoch(2, 2)))
    assert node.core.log_end == OffsetAndEpoch(2, 2)
    assert node.core.high_watermark == -1
    assert not [each for each in node.take() if isinstance(each, Committed)]


def test_a_replica_that_needs_a_snapshot_commits_nothing_before_it_is_installed() -> None:
    node = following(Image(None, batches(1, 2, 3)))
    respond(node, FetchResponse(ErrorCode.NONE, 5, 1, 50, snapshot=WANTED))
    assert node.core.high_watermark == -1
    assert not [each for each in node.take() if isinstance(each, Committed)]


def test_the_high_watermark_of_a_follower_moves_with_that_of_the_leader_and_never_back() -> None:
    node = following(Image(None, batches(1, 2, 3)))
    respond(node, FetchResponse(ErrorCode.NONE, 5, 1, 2))
    ((_, fetch),) = node.sent()
    assert Committed(2) in node.effects
    assert fetch == Fetch(key(0), 5, 3, 3, 2, 500)
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 1))
    assert node.core.high_watermark == 2
    assert not [each for each in node.take() if isinstance(each, Committed)]


def test_a_new_leader_that_does_not_know_the_high_watermark_yet_changes_nothing() -> None:
    node = following(Image(None, batches(1, 2, 3)))
    respond(node, FetchResponse(ErrorCode.NONE, 5, 1, 2))
    respond(node, FetchResponse(ErrorCode.NONE, 5, 1, -1))
    assert node.core.high_watermark == 2


def test_a_follower_that_has_truncated_fetches_again_when_that_is_durable() -> None:
    node = following(Image(None, batches(1, 2, 3)))
    respond(node, FetchResponse(ErrorCode.NONE, 5, 1, 0, diverging=OffsetAndEpoch(2, 2)))
    node.flush()
    assert node.sent() == [(1, Fetch(key(0), 5, 2, 2, -1, 500))]


def test_each_response_of_the_leader_starts_the_fetch_timeout_again() -> None:
    node = following()
    for _ in range(3):
        node.pass_time(1500)
        respond(node, FetchResponse(ErrorCode.NONE, 5, 1, 0))
    assert node.core.role is Role.FOLLOWER
    assert node.core.wake_at_ms() == 6500


def test_each_part_of_a_snapshot_starts_the_fetch_timeout_again() -> None:
    node = following()
    respond(node, FetchResponse(ErrorCode.NONE, 5, 1, 50, snapshot=WANTED))
    for position in range(3):
        node.pass_time(1500)
        ((_, request),) = node.sent()
        assert request == FetchSnapshot(key(0), 5, WANTED, position)
        node.core.responded(node.now, 1, request, part(position, size=9))
    assert node.core.role is Role.FOLLOWER
    assert node.core.wake_at_ms() == 6500


def test_a_part_with_an_error_does_not_start_the_fetch_timeout_again() -> None:
    node = following()
    respond(node, FetchResponse(ErrorCode.NONE, 5, 1, 50, snapshot=WANTED))
    ((_, request),) = node.sent()
    node.pass_time(1500)
    refusal = FetchSnapshotResponse(ErrorCode.SNAPSHOT_NOT_FOUND, 5, 1)
    node.core.responded(node.now, 1, request, refusal)
    node.pass_time(500)
    assert node.core.role is Role.PROSPECTIVE


def test_a_snapshot_does_not_move_the_high_watermark_back() -> None:
    node = following(Image(None, batches(1, 2, 3)))
    respond(node, FetchResponse(ErrorCode.NONE, 5, 1, 3))
    older = OffsetAndEpoch(2, 2)
    respond(node, FetchResponse(ErrorCode.NONE, 5, 1, 3, snapshot=older))
    ((_, request),) = node.sent()
    node.core.responded(node.now, 1, request, part(0, snapshot=older, size=1))
    assert node.core.high_watermark == 3


def test_a_snapshot_of_one_part_is_installed_at_once_and_the_log_continues_behind_it() -> None:
    node = following(Image(None, batches(1, 2, 3)))
    respond(node, FetchResponse(ErrorCode.NONE, 5, 1, 50, snapshot=WANTED))
    ((_, request),) = node.sent()
    node.core.responded(node.now, 1, request, part(0, size=1))
    assert SnapshotInstalled(WANTED) in node.take()
    node.flush()
    assert node.sent() == [(1, Fetch(key(0), 5, 40, 4, 40, 500))]


def test_a_vote_is_refused_to_a_log_without_the_records_that_are_not_durable_yet() -> None:
    node = following()
    respond(node, FetchResponse(ErrorCode.NONE, 5, 1, 0, pack(batches(5, 5))))
    assert not node.ask(Vote(key(2), key(0), 6, OffsetAndEpoch(1, 5), False)).granted  # type: ignore[union-attr]
    assert node.ask(Vote(key(2), key(0), 6, OffsetAndEpoch(2, 5), False)).granted  # type: ignore[union-attr]


# The leader's side


def test_a_leader_wakes_for_notifications_and_for_the_fetches_that_wait() -> None:
    node = elected()
    node.flush()
    assert node.core.wake_at_ms() == node.now + 1000
    node.core.receive(node.now, "moves", Fetch(key(1), 1, 1, 1, -1, 0))
    node.core.receive(node.now, "waits", Fetch(key(1), 1, 1, 1, 1, 400))
    assert node.core.wake_at_ms() == node.now + 400


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (FetchSnapshot(key(1), 1, OffsetAndEpoch(1, 1), 0), ErrorCode.NONE),
        (FetchSnapshot(key(1), 1, OffsetAndEpoch(2, 1), 0), ErrorCode.SNAPSHOT_NOT_FOUND),
        (FetchSnapshot(key(1), 1, OffsetAndEpoch(1, 1), 2), ErrorCode.POSITION_OUT_OF_RANGE),
        (FetchSnapshot(key(1), 0, OffsetAndEpoch(1, 1), 0), ErrorCode.FENCED_LEADER_EPOCH),
        (FetchSnapshot(key(1), 2, OffsetAndEpoch(1, 1), 0), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_leader_sends_parts_of_its_snapshot(request_: FetchSnapshot, error: ErrorCode) -> None:
    node = elected()
    node.flush()
    node.log.take_snapshot(1)
    node.take()
    response = node.ask(request_)
    assert isinstance(response, FetchSnapshotResponse)
    assert (response.error, response.epoch, response.leader_id) == (error, 1, 0)
    assert response.data == (b"" if error else b"x")


def test_a_leader_that_a_majority_fetches_a_snapshot_from_stays() -> None:
    node = elected()
    node.flush()
    node.log.take_snapshot(1)
    for _ in range(10):
        node.pass_time(1000)
        node.core.receive(node.now, "token", FetchSnapshot(key(2), 1, OffsetAndEpoch(1, 1), 0))
    assert node.core.role is Role.LEADER


@pytest.mark.parametrize(
    "request_",
    [
        FetchSnapshot(key(2), 1, OffsetAndEpoch(2, 1), 0),
        FetchSnapshot(key(9), 1, OffsetAndEpoch(1, 1), 0),
        Fetch(key(-1), 1, 0, 0, -1, 0),
    ],
    ids=["another snapshot", "not a voter", "no replica"],
)
def test_a_leader_that_no_voter_fetches_from_resigns(request_: Request) -> None:
    node = elected()
    node.flush()
    node.log.take_snapshot(1)
    for _ in range(10):
        node.pass_time(1000)
        node.core.receive(node.now, "token", request_)
    assert node.core.role is not Role.LEADER


def test_a_follower_sends_no_snapshot() -> None:
    node = following(Image(WANTED, ()))
    node.take()
    response = node.ask(FetchSnapshot(key(2), 5, WANTED, 0))
    assert response == FetchSnapshotResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, 1)


def test_a_leader_completes_the_fetches_that_wait_for_the_high_watermark() -> None:
    node = elected()
    node.flush()
    node.core.receive(node.now, "waits", Fetch(key(9), 1, 1, 1, -1, 500))
    assert not [each for each in node.take() if getattr(each, "token", None) == "waits"]
    node.core.receive(node.now, "moves", Fetch(key(1), 1, 1, 1, -1, 0))
    (response,) = [each.response for each in node.take() if getattr(each, "token", None) == "waits"]  # type: ignore[union-attr]
    assert response.high_watermark == 1  # type: ignore[union-attr]


def test_a_fetch_does_not_wait_if_the_replica_does_not_know_the_high_watermark() -> None:
    node = elected()
    node.flush()
    node.core.receive(node.now, "moves", Fetch(key(1), 1, 1, 1, -1, 0))
    node.take()
    response = node.ask(Fetch(key(9), 1, 1, 1, 0, 500))
    assert response == FetchResponse(ErrorCode.NONE, 1, 0, 1)
