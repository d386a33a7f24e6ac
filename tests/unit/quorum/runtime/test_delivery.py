"""What a replica delivers and reports: committed batches, leadership, failures and its description."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest

from ottla.base.errors import ErrorCode, RemoteProtocolError
from ottla.quorum.quorum import CommittedBatch, ListenerAddress, NotLeader, ReplicaStatus
from ottla.quorum.raft.messages import (
    BeginEpoch,
    Fetch,
    FetchResponse,
    OffsetAndEpoch,
)
from ottla.quorum.raft.voters import ReplicaKey
from ottla.quorum.runtime.translation import decode_response
from ottla.records.builder import NewRecord, build_batch
from tests.support.raft_log import fetched
from tests.support.raft_replica import WALL_MS, Replica

# Leadership


def test_leadership_is_reported_after_the_first_batch_of_the_epoch() -> None:
    replica = Replica().start()
    epoch = replica.elect()
    assert replica.quorum.leader_id == 0
    assert replica.seen.events == [], "no majority has the batch"
    with pytest.raises(NotLeader):
        replica.quorum.append(epoch, [b"early"])
    replica.fetch(0)
    assert replica.seen.events == []
    replica.fetch(1)
    assert replica.seen.events == [("committed", 0), ("leading", epoch)]


def test_leadership_waits_for_the_batch_of_its_own_epoch() -> None:
    """Records of earlier epochs are delivered before it, with it."""
    replica = Replica().start()
    replica.follow()
    replica.respond(1, fetched(0, 5, b"a", b"b") + fetched(2, 5, b"c"))
    replica.run()
    assert replica.seen.events == []
    replica.sent.clear()
    epoch = replica.elect()
    replica.fetch(3, node_id=2)
    assert replica.seen.events == []
    replica.fetch(4)
    assert replica.seen.events == [("committed", 3), ("leading", epoch)]
    assert [batch.last_offset for batch in replica.seen.batches] == [1, 2, 3]


def test_the_only_voter_leads_when_its_batch_is_durable() -> None:
    replica = Replica(voters=1)
    replica.quorum.start(replica.seen, replica.seen)
    while replica.log.durable_offset == 0:
        assert replica.seen.events == []
        assert replica.executor.step()
    replica.run()
    assert replica.seen.events == [("committed", 0), ("leading", 1)]


def test_leadership_ends_with_another_leader() -> None:
    replica = Replica().start()
    epoch = replica.lead()
    replica.ask(BeginEpoch(2, ReplicaKey(0), epoch + 1))
    assert replica.seen.events[-1] == ("resigned", epoch)
    with pytest.raises(NotLeader):
        replica.quorum.append(epoch, [b"late"])
    with pytest.raises(NotLeader):
        replica.quorum.append(epoch + 1, [b"late"])
    replica.ask(BeginEpoch(1, ReplicaKey(0), epoch + 2))
    assert replica.seen.events.count(("resigned", epoch)) == 1


def test_an_election_whose_batch_is_not_committed_is_not_reported() -> None:
    replica = Replica().start()
    epoch = replica.elect()
    replica.ask(BeginEpoch(1, ReplicaKey(0), epoch + 1))
    replica.respond(1, epoch=epoch + 1)
    replica.run()
    assert replica.seen.events == [("committed", 0)]


# Appends


def test_an_append_returns_its_offset_and_is_delivered_when_it_is_committed() -> None:
    replica = Replica().start()
    epoch = replica.lead()
    now_ms = replica.now_ms()
    assert replica.quorum.append(epoch, [b"a", b"b"]) == 2
    assert replica.quorum.append(epoch, [b"c"]) == 3
    assert replica.quorum.log_end_offset == 4
    replica.run()
    assert replica.seen.values() == []
    replica.fetch(3)
    replica.fetch(4)
    replica.fetch(4, node_id=2)
    assert replica.seen.batches == [
        CommittedBatch(0, epoch, replica.seen.batches[0].timestamp_ms, []),
        CommittedBatch(2, epoch, now_ms, [b"a", b"b"]),
        CommittedBatch(3, epoch, now_ms, [b"c"]),
    ]
    assert all(isinstance(value, bytes) for value in replica.seen.values())


def test_an_append_of_another_epoch_is_refused() -> None:
    replica = Replica().start()
    epoch = replica.lead()
    for other in (epoch - 1, epoch + 1):
        with pytest.raises(NotLeader):
            replica.quorum.append(other, [b"a"])
    assert replica.quorum.log_end_offset == 1


def test_an_append_calls_no_listener_before_it_returns() -> None:
    replica = Replica().start()
    epoch = replica.lead()
    waiting = replica.fetch(1, wait_ms=500, high_watermark=1)
    replica.run()
    replica.quorum.append(epoch, [b"a"])
    assert not waiting.done
    for callback in replica.soon:
        callback()
    response = decode_response(waiting.result())
    assert isinstance(response, FetchResponse)
    assert response.records == replica.log.read(1)


def test_an_own_record_counts_when_it_is_durable() -> None:
    replica = Replica().start()
    epoch = replica.lead()
    replica.quorum.append(epoch, [b"a"])
    replica.fetch(2)
    assert replica.seen.values() == []
    replica.executor.step()
    assert replica.seen.values() == [b"a"]


# Followers


def test_a_follower_delivers_what_is_committed_and_in_its_log() -> None:
    replica = Replica().start()
    replica.follow()
    replica.respond(9, fetched(0, 5, b"a") + fetched(1, 5, b"b"))
    assert replica.seen.values() == [], "the batches are not written"
    replica.run()
    assert replica.seen.values() == [b"a", b"b"]
    replica.respond(3, fetched(2, 5, b"c") + fetched(3, 5, b"d"))
    replica.run()
    assert replica.seen.values() == [b"a", b"b", b"c"]
    replica.respond(4)
    assert replica.seen.values() == [b"a", b"b", b"c", b"d"]
    assert [batch.last_offset for batch in replica.seen.batches] == [0, 1, 2, 3]


def test_a_record_without_a_value_is_delivered_as_empty() -> None:
    replica = Replica().start()
    replica.follow()
    null = build_batch([NewRecord(None, None, (), 5)], base_offset=0, leader_epoch=5)
    replica.respond(1, null)
    replica.run()
    assert replica.seen.values() == [b""]


def test_the_listener_is_not_called_while_it_applies_records() -> None:
    replica = Replica().start()
    epoch = replica.lead()
    for value in (b"a", b"b"):
        replica.quorum.append(epoch, [value])
        replica.run()
    applied: list[str] = []

    def apply(batches: Sequence[CommittedBatch]) -> None:
        applied.append(f"begin {batches[-1].last_offset}")
        replica.fetch(3)  # commits the next batch
        applied.append(f"end {batches[-1].last_offset}")

    replica.seen.committed = apply  # type: ignore[method-assign]
    replica.fetch(2)
    replica.fetch(3)
    assert applied == ["begin 1", "end 1", "begin 2", "end 2"]


def test_the_log_knows_what_is_committed() -> None:
    """Otherwise a snapshot could not delete the log below it."""
    replica = Replica(interval=1).start()
    replica.follow()
    replica.respond(2, fetched(0, 5, b"a") + fetched(1, 5, b"b"))
    replica.run()
    for last_offset in (0, 1):
        replica.quorum.write_snapshot(last_offset, 5, [b"state"])
        replica.run()
    assert replica.log.start_offset == 1
    assert replica.seen.events == [("committed", 1)]


# Failures


def test_a_truncation_that_fails_ends_the_replica() -> None:
    replica = Replica().start()
    replica.follow()
    replica.respond(0, fetched(0, 4, b"a") + fetched(1, 5, b"b"))
    replica.run()
    replica.advance(0.1)
    replica.disk.fail_at(0)
    replica.answer(1, FetchResponse(ErrorCode.NONE, 5, 1, 0, diverging=OffsetAndEpoch(1, 4)))
    assert [event for event, _ in replica.seen.events] == ["failed"]
    assert replica.armed == []


def test_a_vote_that_cannot_be_stored_ends_the_replica() -> None:
    replica = Replica().start()
    response = replica.receive(BeginEpoch(1, ReplicaKey(0), 5))
    replica.disk.fail_at(0)
    replica.run()
    assert isinstance(response.error, RemoteProtocolError)
    assert [event for event, _ in replica.seen.events] == ["failed"]
    assert replica.armed == []
    assert all(one.request.epoch != 5 for one in replica.sent)


def test_a_leader_whose_log_fails_reports_it_and_leads_no_longer() -> None:
    replica = Replica().start()
    epoch = replica.lead()
    replica.quorum.append(epoch, [b"a"])
    replica.disk.fail_at(0)
    replica.run()
    assert [event for event, _ in replica.seen.events] == ["committed", "leading", "failed", "resigned"]
    assert replica.seen.events[-1] == ("resigned", epoch)
    with pytest.raises(NotLeader):
        replica.quorum.append(epoch, [b"b"])
    replica.receive(BeginEpoch(1, ReplicaKey(0), 5))
    replica.advance(10)
    assert len(replica.seen.events) == 4


def test_a_failure_is_reported_once() -> None:
    replica = Replica().start()
    epoch = replica.lead()
    replica.quorum.append(epoch, [b"a"])
    replica.quorum.write_snapshot(0, epoch, [])
    replica.disk.fail_at(0)
    replica.run()
    replica.log.on_fault(OSError())
    assert [event for event, _ in replica.seen.events].count("failed") == 1


def test_records_that_cannot_be_applied_end_the_replica() -> None:
    replica = Replica().start()
    error = ValueError("unknown record")

    def refuse(_: object) -> None:
        raise error

    replica.seen.committed = refuse  # type: ignore[method-assign]
    replica.elect()
    replica.fetch(1)
    replica.run()
    assert replica.seen.events == [("failed", error)], "it never led"
    assert replica.armed == []


# Description


def test_the_leader_describes_the_progress_of_the_replicas() -> None:
    replica = Replica().start()
    epoch = replica.elect()
    replica.fetch(0)
    replica.advance(0.25)
    replica.receive(Fetch(ReplicaKey(1, uuid.UUID(int=7)), epoch, 1, epoch, 0, 0))
    fetched_ms = replica.now_ms()
    replica.fetch(0, node_id=9)
    replica.fetch(0, node_id=0)  # a request with a wrong node id
    replica.advance(0.5)
    status = replica.quorum.describe()
    zero = ReplicaKey(0).directory_id
    assert (status.leader_id, status.leader_epoch, status.high_watermark) == (0, epoch, 1)
    now_ms = replica.now_ms()
    local, first, second = status.voters
    assert local == ReplicaStatus(0, zero, 1, now_ms, now_ms, ())
    assert first[:3] == (1, zero, 1)
    assert abs(first.last_fetch_ms - fetched_ms) <= 1
    assert abs(first.last_caught_up_ms - fetched_ms) <= 1
    assert second == ReplicaStatus(2, zero, -1, -1, -1, ())
    (observer,) = status.observers
    assert observer[:3] == (9, zero, 0)
    assert abs(observer.last_fetch_ms - fetched_ms) <= 1
    assert observer.last_caught_up_ms == -1
    assert isinstance(status.voters, tuple)
    assert isinstance(status.observers, tuple)
    assert isinstance(first.last_fetch_ms, int)
    assert first.last_fetch_ms > WALL_MS


def test_a_follower_describes_the_voters_it_knows() -> None:
    replica = Replica(listeners=(ListenerAddress("CONTROLLER", "localhost", 9093),)).start()
    replica.follow()
    status = replica.quorum.describe()
    assert (status.leader_id, status.leader_epoch, status.observers) == (1, 5, ())
    assert [one.node_id for one in status.voters] == [0, 1, 2]
    assert [one.listeners[0].port for one in status.voters] == [9093] * 3
