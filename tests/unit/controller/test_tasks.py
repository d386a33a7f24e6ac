"""Work of the active controller: timeouts, lost brokers, preferred leaders, unclean elections."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from ottla.controller.partitions import elections
from ottla.controller.security import tokens
from ottla.controller.tasks import ControllerTasks
from ottla.metadata.image import NO_LEADER
from ottla.metadata.records import ConfigRecord, DelegationTokenRecord
from tests.support.controller import ControllerBench, cluster
from tests.unit.controller.brokers.test_liveness import Watch


class Handle:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Timers:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Handle]] = []
        self._numbers = count()

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Handle:
        handle = Handle(callback)
        heapq.heappush(self._queue, (self.now + delay, next(self._numbers), handle))
        return handle

    def call_soon(self, callback: Callable[[], None], /) -> Handle:
        return self.call_later(0.0, callback)

    @property
    def pending(self) -> int:
        return sum(handle.callback is not None for _, _, handle in self._queue)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._queue and self._queue[0][0] <= end:
            due, _, handle = heapq.heappop(self._queue)
            self.now = max(self.now, due)
            if handle.callback is not None:
                handle.callback()
        self.now = end

    def stall(self, seconds: float) -> None:
        """Time passes in which nothing runs."""
        self.now += seconds


class Bench:
    def __init__(self, bench: ControllerBench, elapsed: float = 0.0) -> None:
        self.cluster = bench
        self.timers = Timers()
        self.decisions = 0
        self.tasks = ControllerTasks(
            bench.controller, lambda: self.timers, lambda: int(self.timers.now * 1000)
        )
        self.tasks.start(self.submit, elapsed)

    def submit(self, decide: Any, respond: Any, refuse: Any) -> None:
        self.decisions += 1
        respond(self.cluster.apply(decide(self.cluster.image)))

    def fenced(self) -> list[int]:
        return [each.broker_id for each in self.cluster.image.brokers.values() if each.fenced]

    def heartbeat(self, *broker_ids: int) -> None:
        self.cluster.now = self.timers.now
        for broker_id in broker_ids:
            self.cluster.heartbeat(broker_id)


def test_brokers_without_heartbeats_are_fenced_together() -> None:
    bench = Bench(cluster())
    bench.timers.run(2.0)
    bench.heartbeat(1)
    bench.timers.run(0.3)
    assert bench.fenced() == []
    bench.timers.run(0.2)
    assert bench.fenced() == [2, 3]
    assert bench.decisions == 1
    assert bench.cluster.partition().isr == (1,)
    bench.heartbeat(2)
    assert bench.fenced() == [3]


def test_time_in_which_no_heartbeat_was_acknowledged_counts() -> None:
    bench = Bench(cluster(), elapsed=1.0)
    bench.timers.run(1.3)
    assert bench.fenced() == []
    bench.timers.run(0.2)
    assert bench.fenced() == [1, 2, 3]


def test_a_broker_that_is_unfenced_later_is_fenced_without_heartbeats() -> None:
    bench = Bench(cluster())
    bench.tasks.brokers_lost([1, 2, 3])
    bench.timers.run(2.5)
    bench.heartbeat(2)
    assert bench.fenced() == [1, 3]
    bench.timers.run(2.9)
    assert bench.fenced() == [1, 3]
    bench.timers.run(0.2)
    assert bench.fenced() == [1, 2, 3]


def test_a_stalled_controller_does_not_fence() -> None:
    bench = Bench(cluster())
    bench.heartbeat(1, 2, 3)
    bench.timers.stall(8.0)
    bench.timers.run(0.1)
    assert bench.fenced() == []
    bench.timers.run(4.0)
    assert bench.fenced() == [1, 2, 3]


def test_lost_brokers_are_fenced_at_once() -> None:
    bench = Bench(cluster())
    bench.heartbeat(1, 2, 3)
    bench.tasks.brokers_lost([2, 3])
    assert bench.fenced() == [2, 3]
    assert bench.decisions == 1
    bench.heartbeat(2)
    assert bench.fenced() == [3], "evidence may be wrong: a heartbeat unfences"


def test_a_lost_broker_can_be_replaced_at_once() -> None:
    bench = Bench(cluster())
    bench.heartbeat(1, 2)
    bench.tasks.brokers_lost([2])
    sessions, now = bench.cluster.sessions, bench.timers.now
    assert not sessions.is_alive(2, 2, now, is_same_place=False)
    assert sessions.is_alive(1, 1, now, is_same_place=False)


def test_a_session_ends_on_time_although_others_ended_earlier() -> None:
    bench = Bench(cluster())
    bench.timers.run(0.5)
    bench.heartbeat(1, 2, 3)
    bench.timers.run(2.9)
    assert bench.fenced() == []
    bench.timers.run(0.2)
    assert bench.fenced() == [1, 2, 3]


def test_registered_brokers_are_watched_from_the_start_of_a_leadership() -> None:
    bench, watch = Bench(cluster()), Watch()
    bench.cluster.register(4)
    bench.tasks.stop()
    bench.tasks.liveness.attach(watch)
    assert watch.calls == []
    bench.tasks.start(bench.submit, 0.0)
    assert watch.calls == [(4, "h", 9004)]


def test_new_brokers_are_watched_until_leadership_ends() -> None:
    bench, watch = Bench(cluster()), Watch()
    bench.tasks.liveness.attach(watch)
    bench.cluster.register(4)
    assert watch.calls == [(4, "h", 9004)]
    bench.tasks.stop()
    assert watch.calls[1:] == [4]


def test_sessions_end_with_leadership() -> None:
    bench = Bench(cluster())
    bench.heartbeat(1, 2, 3)
    bench.tasks.stop()
    assert bench.cluster.sessions.next_deadline(bench.cluster.image) is None
    assert not bench.cluster.sessions.is_alive(1, 1, bench.timers.now, is_same_place=False)


def test_nothing_happens_without_leadership() -> None:
    bench = Bench(cluster())
    bench.tasks.stop()
    assert bench.timers.pending == 0
    bench.tasks.brokers_lost([2])
    bench.timers.run(1000.0)
    assert bench.decisions == 0


def settled(bench: ControllerBench) -> Bench:
    made = Bench(bench)
    made.tasks._session_timeout = 1e9  # the brokers of these tests send no heartbeats
    made.cluster.sessions.extend(1e9)
    return made


def test_preferred_leaders_return() -> None:
    bench = cluster(assignments=[[1, 2, 3], [2, 3, 1], [1, 3, 2]])
    bench.fence(1)
    bench.heartbeat(1)
    for index in (0, 2):
        bench.alter_partition([1, 2, 3], index=index)
    tasks = settled(bench)
    tasks.timers.run(299.0)
    assert [bench.partition(index=each).leader for each in range(3)] == [2, 2, 3]
    tasks.timers.run(2.0)
    assert [bench.partition(index=each).leader for each in range(3)] == [1, 2, 1]


def test_many_elections_follow_each_other_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elections, "ELECTIONS_MAX", 1)
    bench = cluster(assignments=[[1, 2], [1, 3], [2, 1]])
    bench.fence(1)
    bench.heartbeat(1)
    for index in (0, 1):
        bench.alter_partition([1, 2 + index], index=index)
    tasks = settled(bench)
    tasks.timers.run(301.0)
    assert [bench.partition(index=each).leader for each in range(3)] == [1, 1, 2]


def test_many_unclean_elections_follow_each_other_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elections, "ELECTIONS_MAX", 1)
    bench = cluster(assignments=[[1, 2], [1, 2], [1, 2]])
    bench.fence(1)
    bench.fence(2)
    bench.heartbeat(1)
    tasks = settled(bench)
    bench.replay(
        ConfigRecord(resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true")
    )
    tasks.timers.run(301.0)
    assert [bench.partition(index=each).leader for each in range(3)] == [1, 1, 1]


def test_preferred_leaders_do_not_return_if_it_is_switched_off() -> None:
    bench = cluster(auto_leader_rebalance_enable="false")
    bench.fence(1)
    bench.heartbeat(1)
    bench.alter_partition([1, 2, 3])
    settled(bench).timers.run(1000.0)
    assert bench.partition().leader == 2


def test_unclean_elections_are_periodic() -> None:
    bench = cluster(assignments=[[1, 2]])
    bench.fence(1)
    bench.fence(2)
    bench.heartbeat(1)
    tasks = settled(bench)
    tasks.timers.run(301.0)
    assert bench.partition().leader == NO_LEADER
    bench.replay(
        ConfigRecord(resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true")
    )
    tasks.timers.run(301.0)
    assert (bench.partition().leader, bench.partition().leader_recovery_state) == (1, 1)


def test_many_expired_tokens_are_removed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_REMOVED_MAX", 1)
    settings = {"delegation_token_secret_key": "k", "delegation_token_expiry_check_interval_ms": "1000"}
    bench = Bench(cluster(**settings))  # type: ignore[arg-type] - not its other arguments
    bench.cluster.replay(*(DelegationTokenRecord(token_id=f"t{n}", max_timestamp=10**15) for n in range(3)))
    bench.timers.run(1.5)
    assert not bench.cluster.image.tokens


def test_expired_tokens_are_removed() -> None:
    settings = {"delegation_token_secret_key": "k", "delegation_token_expiry_check_interval_ms": "1000"}
    bench = Bench(cluster(**settings))  # type: ignore[arg-type] - not its other arguments
    records = [
        DelegationTokenRecord(token_id=f"t{n}", max_timestamp=10**15, expiration_timestamp=n * 1000)
        for n in (2, 5)
    ]
    bench.cluster.replay(*records)
    bench.timers.run(1.5)
    assert list(bench.cluster.image.tokens) == ["t2", "t5"]
    bench.timers.run(2.0)
    assert list(bench.cluster.image.tokens) == ["t5"]
    bench.timers.run(3.0)
    assert not bench.cluster.image.tokens
