"""A cluster as small as it can be: a commit log's log, transactions with their states, and drivers that stop anywhere.

Every call of a port is a step. A driver is killed before or after its k-th step, or runs in turns with another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.client.raw import TransactionEnd
from ottla.spark.sink.batch_commit import BatchCommit, Superseded
from ottla.spark.sink.commit_log import CommitEntry, CommitLogState, CommitRecord, PreparedTransaction

OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"


class Killed(BaseException):
    """kill -9: nothing of the driver runs after it."""


Step = Callable[[str], None]


def no_step(_: str) -> None:
    """Nothing happens between steps."""


@dataclass
class World:
    """What survives drivers."""

    log: list[CommitRecord] = field(default_factory=list)
    states: dict[PreparedTransaction, str] = field(default_factory=dict)
    runs: dict[PreparedTransaction, int] = field(default_factory=dict)

    def write(self, run: int, count: int) -> list[PreparedTransaction]:
        """What the tasks of a batch leave behind: open transactions."""
        written = [
            PreparedTransaction(f"run-{run}.{index}.{len(self.states)}", index, 0) for index in range(count)
        ]
        for one in written:
            self.states[one] = OPEN
            self.runs[one] = run
        return written

    def write_again(self, before: Sequence[PreparedTransaction]) -> list[PreparedTransaction]:
        """What the same tasks leave behind with the next batch, under the same ids."""
        written = [one._replace(epoch=one.epoch + 1) for one in before]
        for earlier, one in zip(before, written, strict=True):
            self.states[one] = OPEN
            self.runs[one] = self.runs[earlier]
        return written

    def is_fenced(self, one: PreparedTransaction) -> bool:
        """Whether its id is used by a later transaction: then the result of the earlier one is unknown."""
        return one._replace(epoch=one.epoch + 1) in self.states

    def time_out(self) -> None:
        """What a cluster without two-phase commit does to open transactions sooner or later."""
        for one, state in self.states.items():
            if state == OPEN:
                self.states[one] = ABORTED

    def having(self, state: str) -> list[PreparedTransaction]:
        return [one for one, found in self.states.items() if found == state]

    def driver(self, run: int, step: Step = no_step) -> BatchCommit:
        return BatchCommit(ModelCommitLog(self, str(run), step), ModelTransactions(self, run, step))


class ModelCommitLog:
    def __init__(self, world: World, run: str, step: Step) -> None:
        self._world, self._run, self._step = world, run, step
        self._state = CommitLogState()
        self._read = 0
        self._is_writer = False

    def entry(self) -> CommitEntry | None:
        self._step("before reading the commit log")
        self._read_new()
        return self._state.entry

    def expected(self, batch: int) -> CommitEntry | None:
        known = self._state.entry
        if self._is_writer and known is not None and known.batch == batch - 1:
            return known
        return self.entry()

    def is_own(self) -> bool:
        present = self._state.current
        return present is not None and present.run == self._run

    def record(self, entry: CommitEntry) -> None:
        self._step(f"before recording {entry.state.value}")
        before = self._state.end
        self._is_writer = False
        self._world.log.append(CommitRecord(len(self._world.log), self._run, before, entry))
        self._step(f"after recording {entry.state.value}")
        self._read_new()
        if not self._state.has(self._run, before, entry):
            raise Superseded("another driver was faster")
        self._is_writer = True

    def _read_new(self) -> None:
        for record in self._world.log[self._read :]:
            self._state.apply(record)
        self._read = len(self._world.log)


class ModelTransactions:
    def __init__(self, world: World, run: int, step: Step) -> None:
        self._world, self._run, self._step = world, run, step

    def end(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> list[TransactionEnd]:
        outcomes = []
        for one in transactions:
            self._step(f"before ending {one.transactional_id}")
            state = self._world.states[one]
            wanted = COMMITTED if commit else ABORTED
            if state == OPEN and not self._world.is_fenced(one):
                state = self._world.states[one] = wanted
            is_ended = state == wanted and not self._world.is_fenced(one)
            outcomes.append(TransactionEnd.ENDED if is_ended else TransactionEnd.FENCED)
        return outcomes

    def are_open(self, transactions: Collection[PreparedTransaction]) -> Mapping[PreparedTransaction, bool]:
        self._step("before listing")
        return {one: self._world.states[one] == OPEN for one in transactions}

    def abandoned(self, keep: Collection[PreparedTransaction]) -> list[PreparedTransaction]:
        """Runs are numbered in the order in which they began."""
        self._step("before sweeping")
        return [
            one for one in self._world.having(OPEN) if one not in keep and self._world.runs[one] <= self._run
        ]
