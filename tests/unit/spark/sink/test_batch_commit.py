"""Every step at which a driver can die, twice in a row, with and without the cluster's timeouts; and two at once."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator

import pytest

from ottla.client.raw import ClusterUnreachable, TransactionEnd
from ottla.spark.sink.batch_commit import (
    DuplicateSinkName,
    PartialCommit,
    SinkError,
    Superseded,
    TransactionLost,
)
from ottla.spark.sink.commit_log import CommitEntry, CommitRecord, PreparedTransaction, State
from tests.unit.spark.sink.commit_model import (
    ABORTED,
    COMMITTED,
    OPEN,
    Killed,
    ModelTransactions,
    Step,
    World,
)

TASKS = 3
STEPS_MAX = 16


def dying_at(step: int) -> Step:
    """Dies at that step; never if it is beyond the last."""
    counter = itertools.count()

    def count(_: str) -> None:
        if next(counter) == step:
            raise Killed

    return count


def is_whole(world: World, *attempts: list[PreparedTransaction]) -> bool:
    """Whether exactly one attempt at the batch is committed, all of it, and nothing is open."""
    committed = set(world.having(COMMITTED))
    return not world.having(OPEN) and any(committed == set(attempt) for attempt in attempts)


def test_a_batch_is_committed() -> None:
    world = World()
    written = world.write(1, TASKS)
    world.driver(1).commit(0, written)
    assert is_whole(world, written)
    assert [record.entry.state for record in world.log] == [State.PREPARED, State.DONE]


@pytest.mark.parametrize("first_death", range(STEPS_MAX))
@pytest.mark.parametrize("second_death", range(STEPS_MAX))
def test_a_driver_may_die_at_every_step(first_death: int, second_death: int) -> None:
    world = World()
    attempts = []
    for run, step in enumerate([dying_at(first_death), dying_at(second_death), dying_at(STEPS_MAX)]):
        attempts.append(world.write(run, TASKS))
        try:
            world.driver(run, step).commit(0, attempts[-1])
        except Killed:
            continue
    assert is_whole(world, *attempts)
    following = world.write(9, TASKS)
    world.driver(9).commit(1, following)
    assert set(following) <= set(world.having(COMMITTED))


@pytest.mark.parametrize("death", range(STEPS_MAX))
def test_timeouts_are_repaired_or_reported(death: int) -> None:
    world = World()
    first = world.write(1, TASKS)
    try:
        world.driver(1, dying_at(death)).commit(0, first)
    except Killed:
        world.time_out()
    torn = 0 < len(world.having(COMMITTED)) < TASKS
    second = world.write(2, TASKS)
    if torn:
        with pytest.raises(PartialCommit, match="deliveryGuarantee=at-least-once"):
            world.driver(2).commit(0, second)
        world.driver(2).abort(second)
        assert not world.having(OPEN)
    else:
        world.driver(2).commit(0, second)
        assert is_whole(world, first, second)


def test_every_kind_of_timeout_was_seen() -> None:
    """The test above has torn batches and whole ones: otherwise it shows nothing."""
    kinds = set()
    for death in range(STEPS_MAX):
        world = World()
        try:
            world.driver(1, dying_at(death)).commit(0, world.write(1, TASKS))
        except Killed:
            world.time_out()
        kinds.add(len(world.having(COMMITTED)))
    assert kinds == {0, 1, 2, 3}


def test_a_timeout_before_the_commit_is_reported_and_nothing_is_committed() -> None:
    world = World()
    written = world.write(1, TASKS)
    world.states[written[1]] = ABORTED
    with pytest.raises(TransactionLost, match=r"nothing of batch 0 was committed.*transaction\.timeout\.ms"):
        world.driver(1).commit(0, written)
    assert world.having(COMMITTED) == []
    assert world.log == []


def test_a_single_transaction_that_timed_out_is_reported_and_repeated() -> None:
    """It is not asked for beforehand: nothing else of its batch could have been committed."""
    world = World()
    steps: list[str] = []
    driver = world.driver(1, steps.append)
    driver.commit(0, world.write(1, 1))
    lost = world.write(1, 1)
    world.time_out()
    with pytest.raises(TransactionLost, match=r"nothing of batch 1 was committed.*transaction\.timeout\.ms"):
        driver.commit(1, lost)
    driver.abort(lost)
    assert "before listing" not in steps
    again = world.write(2, 1)
    world.driver(2).commit(1, again)
    assert world.states[lost[0]] == ABORTED
    assert world.states[again[0]] == COMMITTED


def test_transactions_that_cannot_expire_are_not_listed() -> None:
    world = World()
    steps: list[str] = []
    written = world.write(1, TASKS)
    world.driver(1, steps.append).commit(0, written, can_expire=False)
    assert is_whole(world, written)
    assert "before listing" not in steps


def test_a_driver_detects_another_one_without_an_additional_read() -> None:
    world = World()
    steps: list[str] = []
    slow = world.driver(1, steps.append)
    slow.commit(0, world.write(1, TASKS))
    slow.commit(1, world.write(1, TASKS))
    assert steps.count("before reading the commit log") == 1
    late, counted = world.write(1, TASKS), world.write(2, TASKS)
    world.driver(2).commit(2, counted)
    world.states |= dict.fromkeys(late, OPEN)
    with pytest.raises(Superseded, match="another driver was faster"):
        slow.commit(2, late)
    slow.abort(late)
    assert {world.states[one] for one in late} == {ABORTED}
    assert {world.states[one] for one in counted} == {COMMITTED}


def test_a_batch_whose_tasks_saw_a_later_one_is_refused() -> None:
    """They have written nothing, so nothing is recorded: it has to be looked for who has decided more."""
    world = World()
    slow = world.driver(1)
    slow.commit(0, world.write(1, TASKS))
    for batch in (1, 2):
        world.driver(2).commit(batch, world.write(2, TASKS))
    with pytest.raises(Superseded, match="rolled back"):
        slow.commit(1, [])


def test_any_process_of_a_run_may_commit_its_next_batch() -> None:
    """As Spark has it where several queries share its Python processes."""
    world = World()
    processes = [world.driver(1) for _ in range(3)]
    written = []
    for batch, turn in enumerate([0, 1, 1, 2, 0, 0, 1, 2, 1]):
        written += world.write(1, TASKS)
        processes[turn].commit(batch, written[-TASKS:])
    assert world.having(COMMITTED) == written


def test_an_exception_inside_commit_makes_spark_abort_what_is_not_decided() -> None:
    for death in range(STEPS_MAX):
        world = World()
        written = world.write(1, TASKS)
        step = dying_at(death)
        try:
            world.driver(1, step).commit(0, written)
        except Killed:
            world.driver(1).abort(written)
        decided = any(record.entry.state is State.PREPARED for record in world.log)
        assert decided or not world.having(COMMITTED)
        assert not decided or not world.having(ABORTED)
        again = world.write(2, TASKS)
        world.driver(2).commit(0, again)
        assert is_whole(world, written, again)


def test_losers_are_aborted_with_the_batch() -> None:
    world = World()
    loser = world.write(1, 1)
    winners = world.write(1, TASKS)
    later_run = world.write(2, 1)
    world.driver(1).commit(0, winners)
    assert world.states[loser[0]] == ABORTED
    assert world.states[later_run[0]] == OPEN, "a run that began later may be the one that counts"


def test_a_batch_does_not_depend_on_what_is_swept_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> list[PreparedTransaction]:
        raise ClusterUnreachable("no broker responds")

    world = World()
    written = world.write(1, TASKS)
    monkeypatch.setattr(ModelTransactions, "abandoned", fail)
    world.driver(1).commit(0, written)
    assert is_whole(world, written)


def test_a_second_sink_of_the_same_name_is_refused() -> None:
    """Not taken for a repetition, which would drop its records in silence: a run never repeats a batch."""
    world = World()
    first, second = world.write(1, TASKS), world.write(1, TASKS)
    driver = world.driver(1)
    driver.commit(0, first)
    with pytest.raises(DuplicateSinkName, match="sinkName"):
        driver.commit(0, second)
    assert is_whole(world, first)
    again = world.write(2, TASKS)
    world.driver(2).commit(0, again)
    assert is_whole(world, first), "another run may repeat it"


@pytest.mark.parametrize("state", [State.PREPARED, State.DONE])
@pytest.mark.parametrize("task_count", [0, TASKS])
def test_a_checkpoint_that_went_back_is_refused(state: State, task_count: int) -> None:
    """Its batches would be taken for those that are done, whatever is in them. Tasks that found that out wrote none."""
    world = World()
    later = world.write(1, TASKS)
    if state is State.DONE:
        world.driver(1).commit(6, later)
    else:
        world.log.append(CommitRecord(0, "1", -1, CommitEntry(6, state, tuple(later))))
    before = dict(world.states)
    written = world.write(2, task_count)
    driver = world.driver(2)
    with pytest.raises(Superseded, match=r"rolled back, restored or copied.*transactionalIdPrefix"):
        driver.commit(5, written)
    driver.abort(written)
    assert {one: world.states[one] for one in before} == before, "what was decided is left to who decided it"
    assert all(world.states[one] == ABORTED for one in written)


@pytest.mark.parametrize("death", range(STEPS_MAX))
def test_a_driver_that_is_a_batch_behind_changes_nothing(death: int) -> None:
    """Given up for dead in batch 0, it wakes up when another has done that and is anywhere in batch 1."""
    world = World()
    slow, first = world.write(9, TASKS), world.write(2, TASKS)
    world.driver(2).commit(0, first)
    second = world.write(2, TASKS)
    with contextlib.suppress(Killed):
        world.driver(2, dying_at(death)).commit(1, second)
    decided = any(record.entry.batch == 1 for record in world.log)
    driver = world.driver(9)
    if decided:
        with pytest.raises(Superseded):
            driver.commit(0, slow)
        driver.abort(slow)
        again = world.write(10, TASKS)
        world.driver(10).commit(1, again)
        assert set(world.having(COMMITTED)) in ({*first, *second}, {*first, *again})
    else:
        driver.commit(0, slow)
        assert world.having(COMMITTED) == first


def test_a_batch_without_records_costs_nothing() -> None:
    world = World()
    world.driver(1).commit(0, [])
    assert world.log == []


def test_an_abandoned_batch_is_aborted() -> None:
    """Prepared, then written again at least once, then exactly once again: the old transactions must not appear."""
    world = World()
    old = world.write(1, TASKS)
    world.log.append(CommitRecord(0, "1", -1, CommitEntry(0, State.PREPARED, tuple(old))))
    new = world.write(2, TASKS)
    world.driver(2).commit(5, new)
    assert is_whole(world, new)


def test_a_transaction_with_an_unknown_result_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    old = world.write(1, TASKS)
    world.log.append(CommitRecord(0, "1", -1, CommitEntry(0, State.PREPARED, tuple(old))))
    monkeypatch.setattr(ModelTransactions, "end", lambda *_, **__: [TransactionEnd.UNKNOWN])
    with pytest.raises(PartialCommit, match="it is unknown"):
        world.driver(2).commit(0, world.write(2, TASKS))


class _Turns:
    """Lets two threads take their steps in a given order; who is done no longer takes part."""

    def __init__(self, order: Iterator[int]) -> None:
        self._order = order
        self._condition = threading.Condition()
        self._done: set[int] = set()
        self._turn = next(order)

    def step(self, who: int) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._turn == who)
            self._pass_on()

    def finish(self, who: int) -> None:
        with self._condition:
            self._done.add(who)
            self._pass_on()

    def _pass_on(self) -> None:
        self._turn = next(self._order, -1)
        if self._turn in self._done or self._turn == -1:
            self._turn = next(iter({0, 1} - self._done), -1)
        self._condition.notify_all()


def run_in_turns(
    world: World, order: tuple[int, ...], tasks: int = 2, *, can_expire: bool = True, goes_on: bool = False
) -> tuple[list[list[PreparedTransaction]], list[SinkError | None]]:
    """Two drivers commit the same batch; the first, if it `goes_on`, then another one under the same ids."""
    turns = _Turns(iter(order))
    attempts = [world.write(0, tasks), world.write(1, tasks)]
    errors: list[SinkError | None] = [None, None]

    def drive(who: int) -> None:
        driver = world.driver(who, lambda _: turns.step(who))
        try:
            driver.commit(0, attempts[who], can_expire=can_expire)
            if goes_on and who == 0:
                driver.commit(1, world.write_again(attempts[0]), can_expire=can_expire)
        except SinkError as error:
            errors[who] = error
            driver.abort(attempts[who])
        finally:
            turns.finish(who)

    threads = [threading.Thread(target=drive, args=(who,)) for who in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    return attempts, errors


ORDERS = sorted(
    {
        order
        for zeros in itertools.combinations(range(12), 6)
        for order in [tuple(int(at not in zeros) for at in range(12))]
    }
)


@pytest.mark.parametrize(("tasks", "can_expire"), [(2, True), (2, False), (1, True)])
@pytest.mark.parametrize("part", range(6))
def test_a_driver_that_was_presumed_dead_changes_nothing(part: int, tasks: int, can_expire: bool) -> None:
    """Two drivers commit the same batch, in every order of their first steps: one attempt becomes visible, whole."""
    for order in ORDERS[part::6]:
        world = World()
        attempts, errors = run_in_turns(world, order, tasks, can_expire=can_expire)
        committed = set(world.having(COMMITTED))
        assert committed in (set(attempts[0]), set(attempts[1])), order
        assert not all(errors), order
        for error in filter(None, errors):
            assert isinstance(error, Superseded | TransactionLost), order


@pytest.mark.parametrize(("tasks", "can_expire"), [(2, True), (2, False), (1, True)])
@pytest.mark.parametrize("part", range(6))
def test_a_driver_that_was_presumed_dead_and_continues_changes_nothing(
    part: int, tasks: int, can_expire: bool
) -> None:
    """Its ids are in use again, so the other driver cannot read their results: that must not count as aborted."""
    for order in ORDERS[part::6]:
        world = World()
        attempts, _ = run_in_turns(world, order, tasks, can_expire=can_expire, goes_on=True)
        committed = set(world.having(COMMITTED))
        first = {one for attempt in attempts for one in attempt} & committed
        assert first in (set(attempts[0]), set(attempts[1])), order
