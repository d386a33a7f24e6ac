"""Any order of events, crashes and rebalances included: order per key, safe commits, little repeated, none stuck.

The model is one partition with holes in its offsets, a cluster that keeps the last commit, and handlers that end
in any order, also after their assignment did.
"""

from __future__ import annotations

from confluent_kafka import Message
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.base.ids import TopicPartition
from ottla.client.parallel.assigned import Work
from ottla.client.parallel.offset_metadata import decode
from ottla.client.parallel.options import Options, Order, RetryPolicy
from ottla.client.parallel.scheduler import Scheduler, Verdict

P = TopicPartition("t", 0)
KEYS = st.sampled_from([b"a", b"b", b"c", None])
PICK = st.integers(0, 1_000)


class Consuming(RuleBasedStateMachine):
    @initialize(
        order=st.sampled_from(list(Order)),
        metadata_bytes_max=st.sampled_from([0, 20, 40, 4096]),
        records=st.lists(st.tuples(st.integers(1, 3), KEYS), min_size=1, max_size=60),
        dead_letters=st.booleans(),
    )
    def begin(
        self,
        order: Order,
        metadata_bytes_max: int,
        records: list[tuple[int, bytes | None]],
        dead_letters: bool,
    ) -> None:
        self.options = Options(
            order=order,
            records_max=20,
            retry=RetryPolicy(attempts_max=2 if dead_letters else None, delay_first_s=1, delay_max_s=4),
            dead_letter_topic="dead" if dead_letters else None,
            metadata_bytes_max=metadata_bytes_max,
        )
        offset = -1
        self.log: dict[int, bytes | None] = {}
        for step, key in records:  # a step above one leaves a hole
            offset += step
            self.log[offset] = key
        self.log_end = offset + 2  # a marker at the end, never delivered
        self.now = 0.0
        self.cluster: tuple[int, str] | None = None
        self.finished: set[int] = set()
        self.running: list[Work] = []
        self.letters: list[Work] = []
        self.scheduler = Scheduler(self.options)
        self.assign()

    def assign(self) -> None:
        offset, metadata = self.cluster or (None, None)
        self.scheduler.assign(P, offset, metadata)
        self.position = offset or 0
        self.covered = set() if offset is None else self.told_finished()

    def told_finished(self) -> set[int]:
        """What the cluster's commit claims to be finished."""
        if self.cluster is None:
            return set()
        base, metadata = self.cluster
        claimed = decode(base, metadata)
        return {o for o in self.log if o < base or any(start <= o < end for start, end in claimed)}

    def deliver_one(self) -> bool:
        coming = [offset for offset in self.log if offset >= self.position]
        if not coming:
            self.scheduler.advance(P, self.log_end)
            return False
        self.scheduler.add(P, coming[0], self.log[coming[0]], Message(*P, coming[0]))
        self.position = coming[0] + 1
        return True

    def lane(self, offset: int) -> object:
        order = self.options.order
        return self.log[offset] if order is Order.KEY else True if order is Order.PARTITION else None

    @rule(count=st.integers(1, 15))
    def deliver(self, count: int) -> None:
        for _ in range(count):
            self.deliver_one()

    @rule(count=st.integers(1, 10))
    def take(self, count: int) -> None:
        for _ in range(count):
            work = self.scheduler.take(self.now)
            if work is None:
                return
            assert work.offset not in self.covered, "the cluster knows it to be finished"
            lane = self.lane(work.offset)
            if lane is not None:
                under_way = [
                    other for other in self.running + self.letters if self.lane(other.offset) == lane
                ]
                assert under_way == [], "two of one lane at the same time"
                earlier = [o for o in self.log if o < work.offset and self.lane(o) == lane]
                assert self.finished.issuperset(earlier), "handled before one that comes earlier"
            self.running.append(work)

    @precondition(lambda self: self.running)
    @rule(picks=st.lists(PICK, min_size=1, max_size=5))
    def finish(self, picks: list[int]) -> None:
        for pick in picks[: len(self.running)]:
            work = self.running.pop(pick % len(self.running))
            self.finished.add(work.offset)
            self.scheduler.finish(work)

    @precondition(lambda self: self.running)
    @rule(pick=PICK, retriable=st.booleans())
    def fail(self, pick: int, retriable: bool) -> None:
        work = self.running.pop(pick % len(self.running))
        retriable = retriable or self.options.dead_letter_topic is None
        if self.scheduler.fail(work, self.now, retriable=retriable) is Verdict.DEAD_LETTER:
            self.letters.append(work)

    @precondition(lambda self: self.letters)
    @rule(pick=PICK)
    def letter_acknowledged(self, pick: int) -> None:
        work = self.letters.pop(pick % len(self.letters))
        self.finished.add(work.offset)
        self.scheduler.finish(work, dead_lettered=True)

    @rule(seconds=st.floats(0.1, 5))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(arrives=st.sampled_from([True, True, False]), answered=st.booleans())
    def commit(self, arrives: bool, answered: bool) -> None:
        for commit in self.scheduler.commits():
            if arrives:
                self.cluster = (commit.offset, commit.metadata)
            if arrives and answered:
                self.scheduler.committed(commit)
            else:
                self.scheduler.commit_failed(P)

    @rule(how=st.sampled_from(["crash", "revoke", "lose"]), ending=st.integers(0, 3))
    def begin_again(self, how: str, ending: int) -> None:
        """The partition goes, and comes back: to a new process, or to this one with handlers that still run."""
        if how == "crash":
            self.scheduler = Scheduler(self.options)
            self.running, self.letters = [], []
        elif how == "revoke":
            self.scheduler.close([P])
            self.finish([0] * ending)
            self.commit(arrives=True, answered=True)
            self.scheduler.drop([P])
        else:
            self.scheduler.drop([P])
        self.assign()

    @rule(waited=st.booleans())
    def pause_or_resume(self, waited: bool) -> None:
        self.scheduler.decide_pauses(waited=waited)

    @invariant()
    def nothing_unfinished_is_committed(self) -> None:
        if hasattr(self, "log"):
            assert self.told_finished() <= self.finished
            if self.cluster is not None:
                assert len(self.cluster[1]) <= self.options.metadata_bytes_max

    def teardown(self) -> None:
        """Let everything end: no record is left, and all is committed up to the very end."""
        if not hasattr(self, "log"):
            return
        while self.deliver_one():
            pass
        for _ in range(20 * len(self.log)):
            if not self.scheduler.in_flight and not self.running:
                break
            self.now += 100
            self.take(1)
            if self.running:
                self.finish([0])
            if self.letters:
                self.letter_acknowledged(0)
        assert self.finished == set(self.log)
        assert self.scheduler.in_flight == 0
        self.commit(arrives=True, answered=True)
        assert self.cluster == (self.log_end, "")
        assert self.scheduler.decide_pauses(waited=True)[0] == []
        assert not self.scheduler.has_paused()


Consuming.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestConsuming = Consuming.TestCase
