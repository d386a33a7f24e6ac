"""The sink as Spark sees it: writers for batches and streams.

`write` runs in a task on an executor, `commit` and `abort` in one Python process on the driver's side, which Spark
keeps for the batches of its queries. At least once, a task's records are there when `write` returns. Exactly once, they
lie in a transaction that the driver ends (`committing`); a batch job has no batch that Spark would repeat, so there
the driver just ends all transactions, and keeps no commit log.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.base.clock import SystemClock
from ottla.base.errors import LocalError
from ottla.client.raw import TransactionEnd, cluster_for, end_transactions
from ottla.client.raw.retry import sleep
from ottla.spark.sink.batch_commit import BatchCommit, TransactionLost, sweep
from ottla.spark.sink.commit_log import PreparedTransaction, State
from ottla.spark.sink.commit_log_topic import TopicCommitLog
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.producer_cache import PRODUCERS
from ottla.spark.sink.row_encoder import RowEncoder, check_schema
from ottla.spark.sink.task_transaction import TaskTransaction
from ottla.spark.sink.transactions import QueryTransactions, Task, TaskCommitMessage
from ottla.spark.workers import freeze_imports

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

Properties = Callable[[str], str | None]
"""What Spark tells of a job, by name."""
_QUERY_ID = "sql.streaming.queryId"
_RUN_ID = "spark.jobGroup.id"
_BATCH_ID = "streaming.sql.batchId"
_ONLY_BATCH = 0
_LATE_MS = 500
"""From this age on a task asks whether its batch was committed without it: one request, which most are spared."""
_STRAGGLERS_S = (1.0, 2.0)
"""The pauses after which a failed job is aborted again. Spark tells its other tasks to stop and does not wait for them;
what does not stop is killed after 2 s (`spark.python.task.killTimeout`), and may have begun a transaction until then.
"""


def make_batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> OttlaWriter:
    if overwrite:
        raise LocalError(
            "Save mode Overwrite not allowed for Kafka. Allowed save modes are Append and ErrorIfExists (default)."
        )
    parsed = SinkOptions.parse(options, streaming=False)
    check_schema(schema, parsed.topic)
    return OttlaWriter(parsed, f"batch-{uuid.uuid4()}")


def make_stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> OttlaStreamWriter:
    """`overwrite` tells of the output mode complete: every batch is appended all the same, as in the connector."""
    freeze_imports()
    return stream_writer(options, schema)


def stream_writer(options: Mapping[str, str], schema: StructType) -> OttlaStreamWriter:
    """The same in a process that is not Spark's own."""
    parsed = SinkOptions.parse(options, streaming=True)
    check_schema(schema, parsed.topic)
    return OttlaStreamWriter(parsed)


class OttlaWriter(DataSourceArrowWriter):
    """`df.write.format("ottla")`."""

    def __init__(self, options: SinkOptions, name: str) -> None:
        self._options = options
        self._name = name

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        task = Task(self._name, self._name, _ONLY_BATCH, context.partitionId(), context.attemptNumber())
        return _write(self._options, task, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if not self._options.exactly_once:
            return
        prepared = _prepared(_written(messages))
        transactions = self._transactions()
        lost = [one for one, is_open in transactions.are_open(prepared).items() if not is_open]
        if not lost:
            outcomes = transactions.end(prepared, commit=True)
            lost = [
                one for one, how in zip(prepared, outcomes, strict=True) if how is not TransactionEnd.ENDED
            ]
        if lost:
            raise TransactionLost(
                f"{len(lost)} of {len(prepared)} transactions of this write were aborted before they could be "
                "committed. Raise kafka.transaction.timeout.ms, or write in smaller parts"
            )
        sweep(transactions)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """All that is open is this write's own: its name is in every transactional id."""
        if self._options.exactly_once:
            transactions = self._transactions()
            transactions.end(_prepared(_written(messages)), commit=False)
            sweep(transactions)
            if _has_stragglers(messages):
                _again_until_they_end(lambda: sweep(transactions))

    def _transactions(self) -> QueryTransactions:
        cluster = cluster_for(self._options.settings)
        prefix = self._options.transactional_id_prefix
        return QueryTransactions(cluster, prefix, self._name, self._name, began_ms=0)


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("ottla")`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        task = _streaming_task(
            self._options, context.getLocalProperty, context.partitionId(), context.attemptNumber()
        )
        is_doubtful = _COMMIT_LOGS.may_be_late(self._options, task)
        if self._options.exactly_once and _COMMIT_LOGS.is_done(self._options, task):
            for _ in iterator:
                continue
            return TaskCommitMessage(task, SystemClock().now_ms(), 0, None)
        written = _write(self._options, task, iterator)
        is_doubtful = is_doubtful or SystemClock().now_ms() - written.began_ms >= _LATE_MS
        return self._unless_too_late(written) if self._options.exactly_once and is_doubtful else written

    def _unless_too_late(self, written: TaskCommitMessage) -> TaskCommitMessage:
        """Takes back what was written when the batch was already committed with another attempt of the task.

        The driver aborts what is open after it has recorded the batch as done. So a transaction is either open by then,
        or its task finds the record here.
        """
        if written.transaction is None or not _COMMIT_LOGS.says_done(self._options, written.task):
            return written
        end_transactions(cluster_for(self._options.settings), [written.transaction], commit=False)
        return replace(written, records=0, transaction=None)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        written = _written(messages)
        if self._options.exactly_once and written:
            can_expire = any(one.can_expire for one in written if one.transaction is not None)
            decisions = self._decisions(written[0].task, min(one.began_ms for one in written))
            decisions.commit(batchId, _prepared(written), can_expire=can_expire)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        written = _written(messages)
        if self._options.exactly_once and written:
            decisions = self._decisions(written[0].task, min(one.began_ms for one in written))
            decisions.abort(_prepared(written))
            if _has_stragglers(messages):
                _again_until_they_end(lambda: decisions.abort(()))

    def abort_unheard(self, properties: Properties, began_ms: int) -> None:
        """Takes back what the tasks of a batch have written when none of their messages has come."""
        if self._options.exactly_once:
            task = _streaming_task(self._options, properties)
            decisions = self._decisions(task, began_ms)
            decisions.abort(())
            _again_until_they_end(lambda: decisions.abort(()))

    def _decisions(self, task: Task, began_ms: int) -> BatchCommit:
        transactions = QueryTransactions(
            cluster_for(self._options.settings),
            self._options.transactional_id_prefix,
            task.query,
            task.run,
            began_ms,
        )
        return BatchCommit(_COMMIT_LOGS.of(self._options, task), transactions)


class _CommitLogs:
    """The ledgers that this process has read, each for one run of a query."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """In the child of a fork: what the parent decides is not seen here, nor the other way round."""
        self._kept: dict[tuple[SinkOptions, str], tuple[str, TopicCommitLog]] = {}
        self._fresh: dict[tuple[SinkOptions, str], str] = {}
        self._seen: dict[tuple[SinkOptions, str], tuple[str, int]] = {}

    def of(self, options: SinkOptions, task: Task) -> TopicCommitLog:
        run, commit_log = self._kept.get((options, task.query), (None, None))
        if commit_log is None or run != task.run:
            name = f"{options.transactional_id_prefix}.{task.query}"
            commit_log = TopicCommitLog(
                cluster_for(options.settings), options.commit_log_topic, name, task.run
            )
            self._kept[options, task.query] = (task.run, commit_log)
        return commit_log

    def may_be_late(self, options: SinkOptions, task: Task) -> bool:
        """Whether another attempt may have done the task: this is not the first, or the process knows the batch."""
        run, batch = self._seen.get((options, task.query), ("", -1))
        is_new = run != task.run or batch < task.batch
        if is_new:
            self._seen[options, task.query] = (task.run, task.batch)
        return task.attempt > 0 or not is_new

    def is_done(self, options: SinkOptions, task: Task) -> bool:
        """Whether the batch is committed. Only the first batch of a run can be: after that they are new."""
        key = (options, task.query)
        if self._fresh.get(key) == task.run:
            return False
        if self.says_done(options, task):
            return True
        self._fresh[key] = task.run
        return False

    def says_done(self, options: SinkOptions, task: Task) -> bool:
        """Whether the batch is committed by now."""
        entry = self.of(options, task).entry()
        if entry is None:
            return False
        return entry.batch > task.batch or (entry.batch == task.batch and entry.state is State.DONE)


_COMMIT_LOGS = _CommitLogs()
os.register_at_fork(after_in_child=_COMMIT_LOGS.forget)


def _write(options: SinkOptions, task: Task, iterator: Iterable[pa.RecordBatch]) -> TaskCommitMessage:
    freeze_imports()
    write = _write_prepared if options.exactly_once else _write_at_once
    return write(options, task, iterator)


def _write_at_once(options: SinkOptions, task: Task, iterator: Iterable[pa.RecordBatch]) -> TaskCommitMessage:
    """At least once: what is written is there."""
    began_ms = SystemClock().now_ms()
    cluster = cluster_for(options.settings)
    writer = RowEncoder(options, cluster, turn=task.partition + task.batch)
    producer = PRODUCERS.take(cluster)
    before = producer.acknowledged.records
    try:
        for batch in iterator:
            for partition, batches in writer.write(batch):
                producer.send(partition, batches)
        records = producer.flush().records - before
    except BaseException:
        producer.close()
        raise
    PRODUCERS.release(cluster, producer)
    return TaskCommitMessage(task, began_ms, records, None)


def _write_prepared(
    options: SinkOptions, task: Task, iterator: Iterable[pa.RecordBatch]
) -> TaskCommitMessage:
    """Exactly once: what is written waits in a transaction, if there is anything."""
    cluster = cluster_for(options.settings)
    writer = RowEncoder(options, cluster, turn=task.partition + task.batch)
    transaction = TaskTransaction(cluster, options, task)
    try:
        for batch in iterator:
            transaction.send(writer.write(batch))
        return transaction.leave_open()
    except BaseException:
        transaction.abort()
        raise


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise LocalError("records are written by Spark's tasks only")
    return context


def _streaming_task(
    options: SinkOptions, properties: Properties, partition: int = 0, attempt: int = 0
) -> Task:
    query, run, batch = map(properties, (_QUERY_ID, _RUN_ID, _BATCH_ID))
    if query is None or run is None or batch is None:
        raise LocalError(
            f"Spark did not tell {_QUERY_ID}, {_RUN_ID} and {_BATCH_ID}: is this a streaming query?"
        )
    if options.exactly_once and not _is_uuid(run):
        raise LocalError(
            f"the job group of this query is {run!r} instead of its run: somebody has called setJobGroup in "
            "foreachBatch. Leave that to Spark, which names jobs by their run (setJobDescription does no harm)"
        )
    return Task(f"{query}.{options.sink}", run, int(batch), partition, attempt)


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[TaskCommitMessage]:
    """Messages of the tasks that succeeded."""
    return [cast(TaskCommitMessage, message) for message in messages if message is not None]


def _has_stragglers(messages: Sequence[WriterCommitMessage | None]) -> bool:
    """Whether some task besides the one that has failed may still be at work."""
    return list(messages).count(None) > 1


def _again_until_they_end(abort: Callable[[], None]) -> None:
    for seconds in _STRAGGLERS_S:
        sleep(seconds)
        abort()


def _prepared(written: Sequence[TaskCommitMessage]) -> list[PreparedTransaction]:
    return [one.transaction for one in written if one.transaction is not None]
