"""The sink's side of a task, with Spark's context and the cluster replaced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from ottla.base.clock import SystemClock
from ottla.base.errors import LocalError
from ottla.spark import sink
from ottla.spark.ledger import Entry, Prepared, State
from ottla.spark.sink_options import SinkOptions
from ottla.spark.transactions import Task, Written, run_prefix

RUN = "b1106fbd-9444-4e28-933d-95c719b6f013"


def options(**given: str) -> SinkOptions:
    return SinkOptions.parse({"kafka.bootstrap.servers": "h:1", "topic": "t", **given}, streaming=True)


@pytest.fixture
def properties(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What Spark tells a task of a streaming query."""
    told = {"sql.streaming.queryId": "query", "spark.jobGroup.id": RUN, "streaming.sql.batchId": "7"}
    context = SimpleNamespace(getLocalProperty=told.get, partitionId=lambda: 3, attemptNumber=lambda: 1)
    monkeypatch.setattr(sink.TaskContext, "get", lambda: context)
    return told


@pytest.mark.usefixtures("properties")
def test_sinks_of_one_query_share_neither_ledger_nor_transactions() -> None:
    one, two = (sink._streaming_task(options(topic=topic)) for topic in ("a", "b"))
    assert (one.run, one.batch, one.partition, one.attempt) == (RUN, 7, 3, 1)
    assert one.query.startswith("query.")
    prefixes = {run_prefix("sink", task.query, task.run) for task in (one, two)}
    ledgers = {sink._LEDGERS.of(options(), task)._query for task in (one, two)}
    assert len(prefixes) == len(ledgers) == 2


def test_a_job_group_that_is_not_the_run_is_refused(properties: dict[str, str]) -> None:
    """Two runs under one name could both decide a batch."""
    properties["spark.jobGroup.id"] = "mine"
    with pytest.raises(LocalError, match="setJobGroup"):
        sink._streaming_task(options())
    task = sink._streaming_task(options(deliveryGuarantee="at-least-once"))
    assert isinstance(task, Task)


def test_a_job_that_is_no_query_is_refused(properties: dict[str, str]) -> None:
    del properties["streaming.sql.batchId"]
    with pytest.raises(LocalError, match="is this a streaming query"):
        sink._streaming_task(options())


class Attempts:
    """Attempts at the tasks of a query in one process, each with a transaction that it leaves open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, told: dict[str, str]) -> None:
        self.entry = Entry(0, State.DONE)
        self.looks = 0
        self.aborted: list[Prepared] = []
        self._told = told
        self._number = 0
        self._writer = sink.OttlaStreamWriter(options())
        monkeypatch.setattr(sink, "_LEDGERS", sink._Ledgers())
        monkeypatch.setattr(sink._Ledgers, "of", lambda *_: SimpleNamespace(entry=self._look))
        monkeypatch.setattr(sink, "cluster_for", lambda _: None)
        monkeypatch.setattr(sink, "end_transactions", lambda _, ended, commit: self.aborted.extend(ended))
        monkeypatch.setattr(sink, "_write", self._write)
        monkeypatch.setattr(sink.TaskContext, "get", lambda: self._context)

    def _look(self) -> Entry:
        self.looks += 1
        return self.entry

    def _write(self, _: SinkOptions, task: Task, __: object) -> Written:
        return Written(task, SystemClock().now_ms(), 1, Prepared(f"id-{self._number}", 1, 0))

    def run(self, batch: int, *, number: int = 0) -> Written:
        self._told["streaming.sql.batchId"] = str(batch)
        self._context = SimpleNamespace(
            getLocalProperty=self._told.get, partitionId=lambda: 0, attemptNumber=lambda: number
        )
        self._number += 1
        return cast(Written, self._writer.write(iter(())))


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]) -> Attempts:
    return Attempts(monkeypatch, properties)


def test_first_attempts_at_new_batches_do_not_look_at_the_ledger(attempts: Attempts) -> None:
    for batch in range(1, 6):
        assert attempts.run(batch).transaction is not None
    assert attempts.looks == 1, "with the first batch of a run, which may be a repeated one"


@pytest.mark.parametrize(("batch", "number"), [(3, 1), (3, 0), (2, 0)])
def test_a_late_attempt_takes_its_transaction_back(attempts: Attempts, batch: int, number: int) -> None:
    """A second attempt, or one at a batch that this process has seen before, begun when the batch was committed."""
    attempts.run(1)
    attempts.run(3 if number == 0 else 2)
    attempts.entry = Entry(3, State.DONE)
    late = attempts.run(batch, number=number)
    assert late.transaction is None
    assert [one.transactional_id for one in attempts.aborted] == ["id-3"]


def test_a_second_attempt_that_counts_keeps_its_transaction(attempts: Attempts) -> None:
    attempts.run(1)
    attempts.entry = Entry(2, State.PREPARED)
    assert attempts.run(2, number=1).transaction is not None
    assert attempts.aborted == []
