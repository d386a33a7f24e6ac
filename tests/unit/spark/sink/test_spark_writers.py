"""The sink's side of a task, with Spark's context and the cluster replaced."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import cast

import pytest

from ottla.base.clock import SystemClock
from ottla.base.errors import LocalError
from ottla.spark.sink import spark_writers as sink
from ottla.spark.sink.commit_log import CommitEntry, PreparedTransaction, State
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.transactions import Task, TaskCommitMessage, run_prefix

RUN = "b1106fbd-9444-4e28-933d-95c719b6f013"


def options(**given: str) -> SinkOptions:
    return SinkOptions.parse({"kafka.bootstrap.servers": "h:1", "topic": "t", **given}, streaming=True)


@pytest.fixture
def properties() -> dict[str, str]:
    """What Spark tells a task of a streaming query."""
    return {"sql.streaming.queryId": "query", "spark.jobGroup.id": RUN, "streaming.sql.batchId": "7"}


def test_sinks_of_one_query_share_neither_commit_log_nor_transactions(properties: dict[str, str]) -> None:
    one, two = (sink._streaming_task(options(topic=topic), properties.get, 3, 1) for topic in ("a", "b"))
    assert (one.run, one.batch, one.partition, one.attempt) == (RUN, 7, 3, 1)
    assert one.query.startswith("query.")
    prefixes = {run_prefix("sink", task.query, task.run) for task in (one, two)}
    ledgers = {sink._COMMIT_LOGS.of(options(), task)._query for task in (one, two)}
    assert len(prefixes) == len(ledgers) == 2


def test_a_job_group_that_is_not_the_run_is_refused(properties: dict[str, str]) -> None:
    """Two runs under one name could both decide a batch."""
    properties["spark.jobGroup.id"] = "mine"
    with pytest.raises(LocalError, match="setJobGroup"):
        sink._streaming_task(options(), properties.get)
    task = sink._streaming_task(options(deliveryGuarantee="at-least-once"), properties.get)
    assert isinstance(task, Task)


def test_a_job_that_is_no_query_is_refused(properties: dict[str, str]) -> None:
    del properties["streaming.sql.batchId"]
    with pytest.raises(LocalError, match="is this a streaming query"):
        sink._streaming_task(options(), properties.get)


class Attempts:
    """Attempts at the tasks of a query in one process, each with a transaction that it leaves open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]) -> None:
        self.entry = CommitEntry(0, State.DONE)
        self.looks = 0
        self.aborted: list[PreparedTransaction] = []
        self.takes_ms = 0
        self._properties = properties
        self._number = 0
        self._writer = sink.OttlaStreamWriter(options())
        monkeypatch.setattr(sink, "_COMMIT_LOGS", sink._CommitLogs())
        monkeypatch.setattr(sink._CommitLogs, "of", lambda *_: SimpleNamespace(entry=self._look))
        monkeypatch.setattr(sink, "cluster_for", lambda _: None)
        monkeypatch.setattr(sink, "end_transactions", lambda _, ended, commit: self.aborted.extend(ended))
        monkeypatch.setattr(sink, "_write", self._write)
        monkeypatch.setattr(sink.TaskContext, "get", lambda: self._context)

    def _look(self) -> CommitEntry:
        self.looks += 1
        return self.entry

    def _write(self, _: SinkOptions, task: Task, __: object) -> TaskCommitMessage:
        began_ms = SystemClock().now_ms() - self.takes_ms
        return TaskCommitMessage(task, began_ms, 1, PreparedTransaction(f"id-{self._number}", 1, 0))

    def run(self, batch: int, *, number: int = 0) -> TaskCommitMessage:
        self._properties["streaming.sql.batchId"] = str(batch)
        self._context = SimpleNamespace(
            getLocalProperty=self._properties.get, partitionId=lambda: 0, attemptNumber=lambda: number
        )
        self._number += 1
        return cast(TaskCommitMessage, self._writer.write(iter(())))


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]) -> Attempts:
    return Attempts(monkeypatch, properties)


def test_first_attempts_at_new_batches_do_not_read_the_commit_log(attempts: Attempts) -> None:
    for batch in range(1, 6):
        assert attempts.run(batch).transaction is not None
    assert attempts.looks == 1, "with the first batch of a run, which may be a repeated one"


@pytest.mark.parametrize(("batch", "number"), [(3, 1), (3, 0), (2, 0)])
def test_a_late_attempt_takes_its_transaction_back(attempts: Attempts, batch: int, number: int) -> None:
    """A second attempt, or one at a batch that this process has seen before, begun when the batch was committed."""
    attempts.run(1)
    attempts.run(3 if number == 0 else 2)
    attempts.entry = CommitEntry(3, State.DONE)
    late = attempts.run(batch, number=number)
    assert late.transaction is None
    assert [one.transactional_id for one in attempts.aborted] == ["id-3"]


def test_a_second_attempt_that_counts_keeps_its_transaction(attempts: Attempts) -> None:
    attempts.run(1)
    attempts.entry = CommitEntry(2, State.PREPARED)
    assert attempts.run(2, number=1).transaction is not None
    assert attempts.aborted == []


def test_an_attempt_that_took_long_looks_whether_it_is_late(attempts: Attempts) -> None:
    """Its batch may have been committed meanwhile, with another attempt that was begun because this one was slow."""
    attempts.run(1)
    attempts.entry = CommitEntry(2, State.DONE)
    attempts.takes_ms = 10_000
    assert attempts.run(2).transaction is None
    assert [one.transactional_id for one in attempts.aborted] == ["id-2"]


def test_a_batch_began_with_its_first_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other runs have begun before that is given up; what they began later may be the batch that counts."""
    began: list[int] = []

    def decisions(_: object, __: Task, began_ms: int) -> SimpleNamespace:
        began.append(began_ms)
        return SimpleNamespace(commit=lambda *_, can_expire: None, abort=lambda _: None)

    monkeypatch.setattr(sink.OttlaStreamWriter, "_batch_commit", decisions)
    writer = sink.OttlaStreamWriter(options())
    written = [
        TaskCommitMessage(Task("q", RUN, 1, at, 0), began_ms, 1, None)
        for at, began_ms in enumerate([7, 5, 6])
    ]
    writer.commit(written, 1)
    writer.abort(written, 1)
    assert began == [5, 5]


class Sweeps:
    """Both ports of a commit, which find nothing; and the seconds that had passed at each look for what is open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at_s: list[float] = []
        self._now_s = 0.0
        monkeypatch.setattr(sink, "sleep", self._pause)
        monkeypatch.setattr(sink.OttlaWriter, "_transactions", lambda _: self)
        decisions = sink.BatchCommit(self, self)  # type: ignore[arg-type]
        monkeypatch.setattr(sink.OttlaStreamWriter, "_batch_commit", lambda *_: decisions)

    def _pause(self, seconds: float) -> None:
        self._now_s += seconds

    def entry(self) -> None: ...

    def end(self, *_: object, commit: bool) -> None: ...

    def abandoned(self, _: object) -> list[PreparedTransaction]:
        self.at_s.append(self._now_s)
        return []


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    return Sweeps(monkeypatch)


@pytest.mark.parametrize(("missing", "at_s"), [(0, [0.0]), (1, [0.0]), (2, [0.0, 1.0, 3.0])])
def test_what_stragglers_of_a_failed_job_leave_is_aborted(
    sweeps: Sweeps, missing: int, at_s: list[float]
) -> None:
    """Tasks that Spark is stopping may still begin a transaction, unless only the failed one is missing."""
    written = TaskCommitMessage(Task("q", RUN, 1, 0, 0), 0, 1, PreparedTransaction("id", 1, 0))
    sink.OttlaWriter(options(), "name").abort([written, *[None] * missing])
    assert sweeps.at_s == at_s
    sweeps.at_s.clear()
    sweeps._now_s = 0.0
    sink.OttlaStreamWriter(options()).abort([written, *[None] * missing], 1)
    assert sweeps.at_s == at_s


def test_a_failed_batch_without_reports_is_aborted_until_its_tasks_have_ended(
    sweeps: Sweeps, properties: dict[str, str]
) -> None:
    sink.OttlaStreamWriter(options()).abort_without_messages(properties.get, began_ms=5)
    assert sweeps.at_s == [0.0, 1.0, 3.0]


def test_a_forked_process_does_not_know_what_its_parent_has_read(properties: dict[str, str]) -> None:
    task = sink._streaming_task(options(), properties.get)
    ours = sink._COMMIT_LOGS.of(options(), task)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        is_new = sink._COMMIT_LOGS.of(options(), task) is not ours
        os.write(writing, b"new" if is_new else b"old")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 3) == b"new"
    assert sink._COMMIT_LOGS.of(options(), task) is ours
    os.close(reading)
    os.close(writing)
