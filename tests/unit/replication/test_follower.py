"""The follower's state machine: single steps, and random histories of three replicas with elections and crashes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from ottla.base.errors import ErrorCode, InvariantViolation
from ottla.replication.follower import (
    Action,
    Fetched,
    FetchPosition,
    FollowerState,
    Phase,
    Step,
)

LEADER, EPOCH = 1, 7


@dataclass
class ModelLog:
    """A log as a list of leader epochs and values, one per offset from `start` on; `synced` is its durable end."""

    records: list[tuple[int, int]] = field(default_factory=list)
    start: int = 0
    synced: int = 0
    watermark: int = 0

    @property
    def log_start_offset(self) -> int:
        return self.start

    @property
    def log_end_offset(self) -> int:
        return self.start + len(self.records)

    @property
    def committable_offset(self) -> int:
        return self.synced

    @property
    def high_watermark(self) -> int:
        return self.watermark

    @property
    def latest_epoch(self) -> int:
        return self.records[-1][0] if self.records else -1

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        known = [one for one, _ in self.records]
        if epoch < 0 or not known or epoch > known[-1]:
            return -1, -1
        below = [one for one in known if one <= epoch]
        return below[-1] if below else epoch, self.start + len(below)

    def divergence(self, position: FetchPosition) -> tuple[int, int] | None:
        """What a leader with this log responds."""
        if position.last_epoch < 0:
            return None
        epoch, end = self.end_offset_for_epoch(position.last_epoch)
        return (epoch, end) if epoch < position.last_epoch or end < position.offset else None

    def truncate(self, offset: int) -> None:
        del self.records[max(0, offset - self.start) :]
        self.start = min(self.start, offset)
        self.synced = min(self.synced, offset)
        self.watermark = min(self.watermark, offset)


def log_of(*epochs: int, start: int = 0, watermark: int = 0) -> ModelLog:
    made = ModelLog([(epoch, 0) for epoch in epochs], start, watermark=watermark)
    made.synced = made.log_end_offset
    return made


def respond(state: FollowerState, log: ModelLog, response: Fetched) -> Step:
    position = state.position(log)
    assert position is not None
    return state.fetched(position, response, log)


def test_the_position_is_the_synced_end_of_the_log() -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of(3, 3, 5)
    assert state.position(log) == FetchPosition(LEADER, EPOCH, 3, 5, 0)
    log.records.append((5, 0))
    assert state.position(log) is None
    log.synced = 4
    assert state.position(log) == FetchPosition(LEADER, EPOCH, 4, 5, 0)


@pytest.mark.parametrize(
    "stale",
    [
        FetchPosition(LEADER, EPOCH - 1, 3, 5, 0),
        FetchPosition(LEADER + 1, EPOCH, 3, 5, 0),
        FetchPosition(LEADER, EPOCH, 2, 5, 0),
    ],
    ids=["epoch", "leader", "offset"],
)
def test_a_response_to_another_fetch_has_no_effect(stale: FetchPosition) -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of(3, 3, 5)
    responses = (
        Fetched(0, 9, 0),
        Fetched(0, 9, 0, diverging=(3, 1)),
        Fetched(ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1),
        Fetched(ErrorCode.FENCED_LEADER_EPOCH, -1, -1),
    )
    for response in responses:
        assert state.fetched(stale, response, log).action is Action.NONE
        assert state.phase is Phase.FETCHING
        assert state.high_watermark(log) == 0


def test_a_response_for_records_that_were_replaced_has_no_effect() -> None:
    """Seed 5108 of the simulation: a late response to a fetch that a truncation and an append followed."""
    state, log = FollowerState(LEADER, EPOCH), ModelLog([(1, 1), (2, 2)], synced=2)
    late = state.position(log)
    assert late is not None
    log.truncate(1)
    log.records.append((EPOCH, 3))
    log.synced = 2
    assert state.fetched(late, Fetched(0, 9, 0, diverging=(1, 1)), log).action is Action.NONE


def test_a_response_during_a_write_or_a_truncation_has_no_effect() -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of(3, 3, 5)
    position = state.position(log)
    assert position is not None
    log.records.append((5, 0))
    assert state.fetched(position, Fetched(0, 9, 0), log).action is Action.NONE
    log.records.pop()
    assert state.fetched(position, Fetched(0, 9, 0, diverging=(3, 2)), log).action is Action.TRUNCATE
    assert state.fetched(position, Fetched(0, 9, 0), log).action is Action.NONE


@pytest.mark.parametrize(
    ("epochs", "diverging", "offset"),
    [
        ([3, 3, 5, 5], (5, 3), 3),  # the leader has less of the last epoch
        ([3, 3, 5, 5], (3, 7), 2),  # the leader does not know the last epoch
        ([3, 3, 5, 5], (3, 1), 1),  # ... and has less of the one before
        ([3, 3, 5, 5], (4, 9), 2),  # it knows an epoch that this log lacks
        ([5, 5], (4, 9), 0),  # no epoch in common
    ],
)
def test_divergence(epochs: list[int], diverging: tuple[int, int], offset: int) -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of(*epochs)
    assert respond(state, log, Fetched(0, 9, 0, diverging)) == Step(Action.TRUNCATE, offset)
    assert state.position(log) is None
    assert state.high_watermark(log) == 0, "offsets of a diverging leader are not taken over"
    log.truncate(offset)
    state.truncated()
    position = state.position(log)
    assert position is not None
    assert position.offset == offset


def test_a_truncation_below_the_log_start_restarts_the_log() -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of(5, 5, start=100)
    assert respond(state, log, Fetched(0, 9, 0, (5, 40))) == Step(Action.RESTART, 40)


def test_a_divergence_that_removes_nothing_is_not_repeated_at_once() -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of(3, 3)
    assert respond(state, log, Fetched(0, 9, 0, (3, 2))).action is Action.DELAY


def test_an_offset_out_of_range() -> None:
    for start, end, expected in ((0, 1, Step(Action.TRUNCATE, 1)), (5, 9, Step(Action.RESTART, 5))):
        state, log = FollowerState(LEADER, EPOCH), log_of(3, 3)
        refused = Fetched(ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1)
        assert respond(state, log, refused).action is Action.LOOK_UP
        assert state.position(log) is None
        assert state.found_offsets(start, end, log) == expected
        assert state.position(log) is None
        state.truncated()
        assert state.phase is Phase.FETCHING
    state, log = FollowerState(LEADER, EPOCH), log_of(3, 3)
    respond(state, log, refused)
    assert state.found_offsets(1, 4, log).action is Action.NONE
    assert state.phase is Phase.FETCHING
    with pytest.raises(InvariantViolation):
        state.found_offsets(1, 4, log)


@pytest.mark.parametrize(("start", "end"), [(0, 2), (2, 2), (2, 9)])
def test_a_log_that_ends_at_an_end_of_the_leaders_log_is_kept(start: int, end: int) -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of(3, 3)
    respond(state, log, Fetched(ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1))
    assert state.found_offsets(start, end, log).action is Action.NONE
    assert state.phase is Phase.FETCHING


def test_nothing_is_fetched_after_a_stop() -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of(3)
    state.stop()
    state.resume()
    assert state.position(log) is None


@pytest.mark.parametrize(("watermark", "behind"), [(0, False), (1, False), (2, False), (3, True)])
def test_a_follower_is_behind_if_the_leader_has_committed_more(watermark: int, behind: bool) -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of(3, 3)
    assert state.is_behind(log), "it may be, before the first response"
    respond(state, log, Fetched(0, watermark, 0))
    assert state.is_behind(log) is behind


def test_an_empty_log_is_not_behind_an_empty_leader() -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of()
    respond(state, log, Fetched(0, 0, 0))
    assert not state.is_behind(log)


def test_no_log_start_is_taken_over_before_the_first_response() -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of(3, 3, watermark=1)
    assert state.log_start(log) == -1


def test_a_log_start_within_a_batch() -> None:
    state, log = FollowerState(LEADER, EPOCH), ModelLog(start=5, synced=5)
    assert state.begins_below(2, 9, log) == Step(Action.RESTART, 2)
    assert FollowerState(LEADER, EPOCH).begins_below(2, 5, log) == Step(Action.RESTART, 2)
    state = FollowerState(LEADER, EPOCH)
    assert state.begins_below(2, 4, log).action is Action.DELAY
    assert FollowerState(LEADER, EPOCH).begins_below(0, 9, log_of(1, 1)).action is Action.DELAY


def test_a_fenced_follower_waits_for_the_metadata() -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of(3)
    assert respond(state, log, Fetched(ErrorCode.FENCED_LEADER_EPOCH, -1, -1)).action is Action.NONE
    state.resume()
    state.truncated()
    assert state.failed().action is Action.NONE
    assert state.phase is Phase.STOPPED
    assert state.position(log) is None


def test_the_back_off_doubles_until_a_fetch_succeeds() -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of(3)
    delays = []
    for _ in range(8):
        assert respond(state, log, Fetched(ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)).action is Action.DELAY
        assert state.position(log) is None
        delays.append(state.backoff_s(1.0))
        state.resume()
    assert delays == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0]
    assert respond(state, log, Fetched(0, 1, 0)).action is Action.APPEND
    respond(state, log, Fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1))
    assert state.backoff_s(1.0) == 0.02


def test_the_high_watermark_is_limited_to_the_synced_end_and_does_not_move_back() -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of(3, 3, watermark=1)
    respond(state, log, Fetched(0, 9, 4))
    log.records += [(3, 0)] * 4
    assert state.high_watermark(log) == 2
    log.synced = 6
    assert state.high_watermark(log) == 6
    assert state.log_start(log) == 1, "not above the high watermark"
    log.watermark = 6
    assert state.log_start(log) == 4
    respond(state, log, Fetched(0, 2, 0))
    assert state.high_watermark(log) == 6


# Random histories


class Replica:
    def __init__(self) -> None:
        self.log = ModelLog()
        self.alive = True
        self.state: FollowerState | None = None


class History:
    """Three replicas and an omniscient controller. Elections are clean: the leader is in the ISR."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.replicas = [Replica() for _ in range(3)]
        self.epoch, self.leader = 0, 0
        self.isr = {0, 1, 2}
        self.ends: dict[int, int] = {}
        self.epoch_start = 0
        self.committed: list[tuple[int, int]] = []
        self.values = 0
        self.truncations = 0
        self.in_flight: list[tuple[int, FetchPosition, Fetched, list[tuple[int, int]]]] = []
        self.elect(0)

    def elect(self, leader: int) -> None:
        self.epoch += 1
        self.leader = leader
        self.ends = {}
        self.epoch_start = self.replicas[leader].log.log_end_offset
        for number, replica in enumerate(self.replicas):
            replica.state = None if number == leader else FollowerState(leader, self.epoch)

    def step(self) -> None:
        moves = [self.append, self.append, self.fetch, self.deliver, self.sync]
        faults = [self.crash, self.restart, self.move_leader]
        self.rng.choice([*moves * 3, *faults])()

    def append(self) -> None:
        leader = self.replicas[self.leader]
        if leader.alive:
            self.values += 1
            leader.log.records += [(self.epoch, self.values)] * self.rng.randint(1, 3)

    def fetch(self) -> None:
        number = self.rng.randrange(3)
        replica, leader = self.replicas[number], self.replicas[self.leader]
        if not replica.alive or not leader.alive or replica.state is None:
            return
        position = replica.state.position(replica.log)
        if position is None:
            return
        log = leader.log
        diverging = log.divergence(position)
        if diverging is None:
            self.count(number, position.offset)
        records = [] if diverging else log.records[position.offset : position.offset + self.rng.randint(1, 4)]
        self.in_flight.append((number, position, Fetched(0, log.watermark, 0, diverging), records))

    def count(self, number: int, offset: int) -> None:
        """The leader counts what a follower has, as `replication.leader` does."""
        leader = self.replicas[self.leader].log
        self.ends[number] = offset
        if offset >= max(leader.watermark, self.epoch_start):
            self.isr.add(number)
        self.advance()

    def advance(self) -> None:
        leader = self.replicas[self.leader].log
        ends = [leader.synced, *(self.ends.get(one, 0) for one in self.isr if one != self.leader)]
        if len(self.isr) >= 2 and min(ends) > leader.watermark:
            leader.watermark = min(ends)
            assert leader.records[: len(self.committed)] == self.committed[: leader.watermark]
            self.committed = leader.records[: max(leader.watermark, len(self.committed))]

    def deliver(self) -> None:
        """Deliver a response, perhaps late, perhaps twice."""
        if not self.in_flight:
            return
        at = self.rng.randrange(len(self.in_flight))
        number, position, response, records = self.in_flight[at]
        if self.rng.random() < 0.8:
            del self.in_flight[at]
        replica = self.replicas[number]
        state, log = replica.state, replica.log
        if not replica.alive or state is None:
            return
        step = state.fetched(position, response, log)
        if step.action is Action.APPEND:
            log.records += records
            log.watermark = state.high_watermark(log)
        elif step.action is Action.TRUNCATE:
            assert step.offset >= log.watermark, "a committed record is truncated"
            log.truncate(step.offset)
            self.truncations += 1
            state.truncated()

    def sync(self) -> None:
        replica = self.rng.choice(self.replicas)
        log = replica.log
        log.synced = log.log_end_offset
        if replica.state is not None:
            log.watermark = state_watermark(replica)
        elif replica.alive:
            self.advance()

    def crash(self) -> None:
        number = self.rng.randrange(3)
        replica = self.replicas[number]
        if not replica.alive or sum(one.alive for one in self.replicas) < 2:
            return
        replica.alive = False
        replica.log.truncate(self.rng.randint(replica.log.synced, replica.log.log_end_offset))
        replica.log.synced = replica.log.log_end_offset
        if len(self.isr) > 1:
            self.isr.discard(number)
        if number == self.leader:
            self.elect_any()
        else:
            self.advance()

    def restart(self) -> None:
        for number, replica in enumerate(self.replicas):
            if not replica.alive:
                replica.alive = True
                if number != self.leader:
                    replica.state = FollowerState(self.leader, self.epoch)
                if not self.replicas[self.leader].alive:
                    self.elect_any()
                return

    def move_leader(self) -> None:
        self.elect_any()

    def elect_any(self) -> None:
        able = [one for one in sorted(self.isr) if self.replicas[one].alive]
        if able:
            self.elect(self.rng.choice(able))

    def converge(self) -> None:
        """End all faults; every follower must catch up within a few rounds."""
        for _ in range(3):
            self.restart()
        self.elect_any()
        self.append()
        for _ in range(2000):
            for step in (self.fetch, self.deliver, self.sync):
                step()
        leader = self.replicas[self.leader].log
        assert leader.records[: len(self.committed)] == self.committed
        assert all(replica.log.records == leader.records for replica in self.replicas)
        assert leader.watermark == leader.log_end_offset


def state_watermark(replica: Replica) -> int:
    assert replica.state is not None
    return replica.state.high_watermark(replica.log)


def test_replicas_converge_and_no_committed_record_is_lost() -> None:
    truncations = elections = committed = 0
    for seed in range(60):
        history = History(seed)
        for _ in range(400):
            history.step()
        history.converge()
        truncations += history.truncations
        elections += history.epoch
        committed += len(history.committed)
    assert truncations > 50
    assert min(elections, committed) > 500


def test_a_first_batch_that_begins_below_an_empty_log_restarts_it() -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of(start=10)
    step = state.begins_below(8, 12, log)
    assert (step, state.phase) == (Step(Action.RESTART, 8), Phase.TRUNCATING)
    for base, last in ((10, 12), (5, 9)):
        assert FollowerState(LEADER, EPOCH).begins_below(base, last, log).action is Action.DELAY
    assert FollowerState(LEADER, EPOCH).begins_below(8, 12, log_of(3, start=10)).action is Action.DELAY


@pytest.mark.parametrize(
    ("diverging", "offset"),
    [((5, 1), 1), ((4, 9), 2), ((3, 1), 1), ((3, 9), 2), ((9, 2), 2)],
)
def test_a_follower_keeps_what_both_logs_have(diverging: tuple[int, int], offset: int) -> None:
    state, log = FollowerState(LEADER, EPOCH), log_of(3, 3, 5, 5)
    assert respond(state, log, Fetched(0, 9, 0, diverging=diverging)) == Step(Action.TRUNCATE, offset)
