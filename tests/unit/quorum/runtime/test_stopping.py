"""How a replica stops: a leader resigns first, and no write is left in flight."""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.quorum.raft.messages import BeginEpoch, EndEpoch, EndEpochResponse, OffsetAndEpoch, Vote
from ottla.quorum.raft.voters import ReplicaKey
from tests.support.raft_replica import Replica


def pass_time(replica: Replica, seconds: float) -> None:
    """Call the timers that are due; work in the executor waits."""
    replica.now += seconds
    for timer in [one for one in replica.armed if one.at <= replica.now]:
        timer.cancelled = True
        timer.callback()


def test_a_replica_that_does_not_lead_stops_at_once() -> None:
    replica = Replica().start()
    replica.follow()
    assert replica.quorum.stop().done
    assert replica.armed == []
    assert replica.receive(BeginEpoch(1, ReplicaKey(0), 9)).error is not None


def test_a_leader_stops_when_the_voters_know_its_resignation() -> None:
    replica = Replica().start()
    epoch = replica.lead()
    stopping = replica.quorum.stop()
    assert len(replica.kinds(EndEpoch)) == 2
    assert replica.seen.events[-1] == ("resigned", epoch)
    replica.answer(1, EndEpochResponse(ErrorCode.NONE, epoch, -1))
    replica.advance(0.02)
    assert not stopping.done
    replica.answer(2, EndEpochResponse(ErrorCode.NONE, epoch, -1))
    replica.advance(0.006)
    assert stopping.done
    assert replica.armed == []


def test_a_leader_does_not_wait_for_voters_longer_than_half_a_second() -> None:
    replica = Replica().start()
    replica.lead()
    stopping = replica.quorum.stop()
    replica.advance(0.49)
    assert not stopping.done
    replica.advance(0.02)
    assert stopping.done


def test_a_leader_that_was_replaced_does_not_wait_for_voters() -> None:
    replica = Replica().start()
    epoch = replica.lead()
    stopping = replica.quorum.stop()
    replica.ask(BeginEpoch(1, ReplicaKey(0), epoch + 1))
    replica.advance(0.006)
    assert stopping.done


def test_a_replica_that_has_failed_does_not_wait_for_voters() -> None:
    replica = Replica().start()
    replica.lead()
    stopping = replica.quorum.stop()
    replica.quorum.close()
    replica.advance(0.006)
    assert stopping.done


def check_stop_waits(replica: Replica) -> None:
    """A stop ends after the work that waits in the executor, not before."""
    stopping = replica.quorum.stop()
    pass_time(replica, 0.01)
    assert not stopping.done
    replica.executor.run_all()
    pass_time(replica, 0.01)
    assert stopping.done


def test_a_stop_waits_for_the_election_state() -> None:
    replica = Replica().start()
    replica.receive(Vote(ReplicaKey(1), ReplicaKey(0), 7, OffsetAndEpoch(0, 0), False))
    check_stop_waits(replica)


def test_a_stop_waits_for_a_snapshot() -> None:
    replica = Replica().start()
    replica.quorum.write_snapshot(-1, 0, [])
    check_stop_waits(replica)


def test_a_stop_waits_for_the_log() -> None:
    replica = Replica(voters=1).start()
    epoch = replica.quorum.epoch
    replica.quorum.append(epoch, [b"a"])
    check_stop_waits(replica)
    assert replica.log.durable_offset == 2
