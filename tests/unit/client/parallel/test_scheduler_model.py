"""Model test of the scheduler: order per key, safe commits, few repeated records, with crashes and rebalances.

The model is one partition with holes in its offsets, a cluster that keeps the last commit, and handlers that end
in any order, also after their assignment did. A run is made from a seed; a failing one is repeated by it.
"""

from __future__ import annotations

from random import Random

from confluent_kafka import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.ids import TopicPartition
from ottla.client.parallel.assignment import Work
from ottla.client.parallel.offset_metadata import decode
from ottla.client.parallel.options import Options, Order, RetryPolicy
from ottla.client.parallel.scheduler import FailureAction, Scheduler

P = TopicPartition("t", 0)
STEPS = 150


class OffsetRange:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        dead_letters = self.rng.random() < 0.5
        self.options = Options(
            order=self.rng.choice(list(Order)),
            records_max=20,
            retry=RetryPolicy(attempts_max=2 if dead_letters else None, delay_first_s=1, delay_max_s=4),
            dead_letter_topic="dead" if dead_letters else None,
            metadata_bytes_max=self.rng.choice([0, 20, 40, 4096]),
        )
        self.log: dict[int, bytes | None] = {}
        offset = -1
        for _ in range(self.rng.randint(20, 80)):
            offset += self.rng.choice([1, 1, 1, 2, 9])  # above one: a hole
            self.log[offset] = self.rng.choice([b"a", b"b", b"c", None])
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
        self.covered = self.committed_finished()
        self.known = set(self.covered)

    def committed_finished(self) -> set[int]:
        """What the cluster's commit claims to be finished."""
        if self.cluster is None:
            return set()
        base, metadata = self.cluster
        claimed = decode(base, metadata)
        return {o for o in self.log if o < base or any(start <= o < end for start, end in claimed)}

    def ordering_key(self, offset: int) -> object:
        order = self.options.order
        return self.log[offset] if order is Order.KEY else True if order is Order.PARTITION else None

    # What can happen.

    def deliver(self) -> bool:
        coming = next((offset for offset in self.log if offset >= self.position), None)
        if coming is None:
            self.scheduler.advance(P, self.log_end)
            return False
        self.scheduler.add(P, coming, self.log[coming], Message(*P, coming))
        self.position = coming + 1
        return True

    def take(self) -> None:
        work = self.scheduler.take(self.now)
        if work is None:
            return
        assert work.offset not in self.covered, "the cluster knows it to be finished"
        ordering_key = self.ordering_key(work.offset)
        if ordering_key is not None:
            under_way = [
                other
                for other in self.running + self.letters
                if self.ordering_key(other.offset) == ordering_key
            ]
            assert under_way == [], "two of one ordering_key at the same time"
            earlier = {
                offset
                for offset in self.log
                if offset < work.offset and self.ordering_key(offset) == ordering_key
            }
            assert earlier <= self.finished, "handled before one that comes earlier"
        self.running.append(work)

    def finish(self) -> None:
        if self.running:
            work = self.running.pop(self.rng.randrange(len(self.running)))
            self.note_finished(work)
            self.scheduler.finish(work)

    def fail(self) -> None:
        if self.running:
            work = self.running.pop(self.rng.randrange(len(self.running)))
            retriable = self.options.dead_letter_topic is None or self.rng.random() < 0.7
            if self.scheduler.fail(work, self.now, retriable=retriable) is FailureAction.DEAD_LETTER:
                self.letters.append(work)

    def letter_acknowledged(self) -> None:
        if self.letters:
            work = self.letters.pop(self.rng.randrange(len(self.letters)))
            self.note_finished(work)
            self.scheduler.finish(work, dead_lettered=True)

    def note_finished(self, work: Work) -> None:
        self.finished.add(work.offset)
        if work.assignment.current:
            self.known.add(work.offset)

    def time_passes(self) -> None:
        self.now += self.rng.uniform(0.1, 3)

    def commit(self, *, reliably: bool = False) -> None:
        for commit in self.scheduler.commits():
            arrives = reliably or self.rng.random() < 0.8
            if arrives:
                self.cluster = (commit.offset, commit.metadata)
                assert self.options.metadata_bytes_max < 4096 or self.committed_finished() == self.known
            if arrives and (reliably or self.rng.random() < 0.8):
                self.scheduler.committed(commit)
            else:
                self.scheduler.commit_failed(P)

    def crash(self) -> None:
        self.scheduler = Scheduler(self.options)
        self.running, self.letters = [], []
        self.assign()

    def revoke(self) -> None:
        self.scheduler.close([P])
        for _ in range(self.rng.randint(0, 3)):
            self.finish()
        assert self.scheduler.take(self.now) is None, "a partition that leaves gives out nothing"
        self.commit(reliably=True)
        self.lose()

    def lose(self) -> None:
        self.scheduler.drop([P])
        self.assign()

    def pause_or_resume(self) -> None:
        self.scheduler.decide_pauses(waited=self.rng.random() < 0.5)

    def step(self) -> None:
        weights = {
            self.deliver: 30,
            self.take: 30,
            self.finish: 20,
            self.fail: 4,
            self.letter_acknowledged: 3,
            self.time_passes: 3,
            self.commit: 8,
            self.pause_or_resume: 3,
            self.crash: 1,
            self.revoke: 1,
            self.lose: 1,
        }
        self.rng.choices(list(weights), list(weights.values()))[0]()

    # What must hold.

    def check(self) -> None:
        assert self.committed_finished() <= self.finished, "something unfinished is committed"
        if self.cluster is not None:
            assert len(self.cluster[1]) <= self.options.metadata_bytes_max
        progress = self.scheduler.progress()
        assert progress.in_flight == self.scheduler.in_flight
        assert min(progress.running, progress.waiting, progress.retrying) >= 0

    def end(self) -> None:
        """Everything that was begun ends: no record is left, and all is committed up to the very end."""
        while self.deliver():
            pass
        for _ in range(4 * len(self.log)):
            self.now += 100
            self.take()
            self.finish()
            self.letter_acknowledged()
        assert self.finished == set(self.log), "a record is lost"
        assert self.scheduler.in_flight == 0, "a record is stuck"
        self.commit(reliably=True)
        assert self.cluster == (self.log_end, "")
        self.pause_or_resume()
        assert not self.scheduler.has_paused()


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_the_guarantees_hold_for_all_sequences_of_events(seed: int) -> None:
    run = OffsetRange(seed)
    for _ in range(STEPS):
        run.step()
        run.check()
    run.end()
