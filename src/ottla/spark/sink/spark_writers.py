"""The writers of the sink for Spark, for batches and for streams.

`write` runs in a task on an executor, `commit` and `abort` in a Python process on the driver's side. At least once: the
records of a task are written when `write` returns. Exactly once: they are in a transaction that the driver ends
(`batch_commit`). Spark does not repeat a batch job, so there the driver ends all transactions without a commit log.
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
from ottla.spark.sink.batch_commit import BatchCommit, TransactionLost, abort_abandoned
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
"""The local properties of a Spark job, by name."""
_QUERY_ID = "sql.streaming.queryId"
_RUN_ID = "spark.jobGroup.id"
_BATCH_ID = "streaming.sql.batchId"
_ONLY_BATCH = 0
_LATE_MS = 500
"""From this age on a task checks whether its batch was committed without it, which takes one request."""
_STRAGGLERS_S = (1.0, 2.0)
"""The delays after which a failed job is aborted again. Spark cancels its other tasks without waiting for them. A task
that does not stop is killed after 2 s (`spark.python.task.killTimeout`) and may have begun a transaction until then.
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
    """`overwrite` is set in the output mode complete; each batch is appended anyway, as Spark's connector does."""
    freeze_imports()
    return stream_writer(options, schema)


def stream_writer(options: Mapping[str, str], schema: StructType) -> OttlaStreamWriter:
    """The same for the driver process, where imports are not frozen."""
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
            results = transactions.end(prepared, commit=True)
            lost = [
                one for one, end in zip(prepared, results, strict=True) if end is not TransactionEnd.ENDED
            ]
        if lost:
            raise TransactionLost(
                f"{len(lost)} of {len(prepared)} transactions of this write were aborted before they could be "
                "committed. Increase kafka.transaction.timeout.ms, or write in smaller parts"
            )
        abort_abandoned(transactions)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort all open transactions of this write, whose unique name is in their ids."""
        if self._options.exactly_once:
            transactions = self._transactions()
            transactions.end(_prepared(_written(messages)), commit=False)
            abort_abandoned(transactions)
            if _has_stragglers(messages):
                _abort_stragglers(lambda: abort_abandoned(transactions))

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
        may_be_late = _COMMIT_LOGS.may_be_late(self._options, task)
        if self._options.exactly_once and _COMMIT_LOGS.is_done(self._options, task):
            for _ in iterator:
                continue
            return TaskCommitMessage(task, SystemClock().now_ms(), 0, None)
        written = _write(self._options, task, iterator)
        may_be_late = may_be_late or SystemClock().now_ms() - written.began_ms >= _LATE_MS
        return self._unless_too_late(written) if self._options.exactly_once and may_be_late else written

    def _unless_too_late(self, written: TaskCommitMessage) -> TaskCommitMessage:
        """Abort what was written if the batch was already committed with another attempt of the task.

        The driver aborts open transactions after it has recorded the batch as done. So a transaction is either open by
        then, or its task finds the record here.
        """
        if written.transaction is None or not _COMMIT_LOGS.has_done(self._options, written.task):
            return written
        end_transactions(cluster_for(self._options.settings), [written.transaction], commit=False)
        return replace(written, records=0, transaction=None)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        written = _written(messages)
        if self._options.exactly_once and written:
            can_expire = any(one.can_expire for one in written if one.transaction is not None)
            batch_commit = self._batch_commit(written[0].task, min(one.began_ms for one in written))
            batch_commit.commit(batchId, _prepared(written), can_expire=can_expire)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        written = _written(messages)
        if self._options.exactly_once and written:
            batch_commit = self._batch_commit(written[0].task, min(one.began_ms for one in written))
            batch_commit.abort(_prepared(written))
            if _has_stragglers(messages):
                _abort_stragglers(lambda: batch_commit.abort(()))

    def abort_without_messages(self, properties: Properties, began_ms: int) -> None:
        """Abort what the tasks of a batch have written if no message of them has arrived."""
        if self._options.exactly_once:
            task = _streaming_task(self._options, properties)
            batch_commit = self._batch_commit(task, began_ms)
            batch_commit.abort(())
            _abort_stragglers(lambda: batch_commit.abort(()))

    def _batch_commit(self, task: Task, began_ms: int) -> BatchCommit:
        transactions = QueryTransactions(
            cluster_for(self._options.settings),
            self._options.transactional_id_prefix,
            task.query,
            task.run,
            began_ms,
        )
        return BatchCommit(_COMMIT_LOGS.of(self._options, task), transactions)


class _CommitLogs:
    """The commit logs of this process, each for one run of a query."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Called in the child process of a fork, which does not see what the parent records."""
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
        """Whether another attempt may have done the task: it is not the first attempt, or the batch is not new here."""
        run, batch = self._seen.get((options, task.query), ("", -1))
        is_new = run != task.run or batch < task.batch
        if is_new:
            self._seen[options, task.query] = (task.run, task.batch)
        return task.attempt > 0 or not is_new

    def is_done(self, options: SinkOptions, task: Task) -> bool:
        """Whether the batch is committed already. Only the first batch of a run can be: later ones are new."""
        key = (options, task.query)
        if self._fresh.get(key) == task.run:
            return False
        if self.has_done(options, task):
            return True
        self._fresh[key] = task.run
        return False

    def has_done(self, options: SinkOptions, task: Task) -> bool:
        """Whether the commit log has this batch as done, or a later one."""
        entry = self.of(options, task).entry()
        if entry is None:
            return False
        return entry.batch > task.batch or (entry.batch == task.batch and entry.state is State.DONE)


_COMMIT_LOGS = _CommitLogs()
os.register_at_fork(after_in_child=_COMMIT_LOGS.reset)


def _write(options: SinkOptions, task: Task, iterator: Iterable[pa.RecordBatch]) -> TaskCommitMessage:
    freeze_imports()
    write = _write_transaction if options.exactly_once else _write_directly
    return write(options, task, iterator)


def _write_directly(
    options: SinkOptions, task: Task, iterator: Iterable[pa.RecordBatch]
) -> TaskCommitMessage:
    """At least once: the records are written when this returns."""
    began_ms = SystemClock().now_ms()
    cluster = cluster_for(options.settings)
    encoder = RowEncoder(options, cluster, first_partition=task.partition + task.batch)
    producer = PRODUCERS.acquire(cluster)
    before = producer.acknowledged.records
    try:
        for batch in iterator:
            for partition, batches in encoder.encode(batch):
                producer.send(partition, batches)
        records = producer.flush().records - before
    except BaseException:
        producer.close()
        raise
    PRODUCERS.release(cluster, producer)
    return TaskCommitMessage(task, began_ms, records, None)


def _write_transaction(
    options: SinkOptions, task: Task, iterator: Iterable[pa.RecordBatch]
) -> TaskCommitMessage:
    """Exactly once: the records are in an open transaction, if there are any."""
    cluster = cluster_for(options.settings)
    encoder = RowEncoder(options, cluster, first_partition=task.partition + task.batch)
    transaction = TaskTransaction(cluster, options, task)
    try:
        for batch in iterator:
            transaction.send(encoder.encode(batch))
        return transaction.leave_open()
    except BaseException:
        transaction.abort()
        raise


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise LocalError("the sink can only write in a Spark task")
    return context


def _streaming_task(
    options: SinkOptions, properties: Properties, partition: int = 0, attempt: int = 0
) -> Task:
    query, run, batch = map(properties, (_QUERY_ID, _RUN_ID, _BATCH_ID))
    if query is None or run is None or batch is None:
        raise LocalError(
            f"Spark has not set {_QUERY_ID}, {_RUN_ID} and {_BATCH_ID}; is this a streaming query?"
        )
    if options.exactly_once and not _is_uuid(run):
        raise LocalError(
            f"the job group of this query is {run!r} instead of the id of its run. Do not call setJobGroup in "
            "foreachBatch, because Spark stores the run there; use setJobDescription instead"
        )
    return Task(f"{query}.{options.sink}", run, int(batch), partition, attempt)


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[TaskCommitMessage]:
    """The messages of the tasks that have succeeded."""
    return [cast(TaskCommitMessage, message) for message in messages if message is not None]


def _has_stragglers(messages: Sequence[WriterCommitMessage | None]) -> bool:
    """Whether tasks other than the failed one may still be running."""
    return list(messages).count(None) > 1


def _abort_stragglers(abort: Callable[[], None]) -> None:
    for seconds in _STRAGGLERS_S:
        sleep(seconds)
        abort()


def _prepared(written: Sequence[TaskCommitMessage]) -> list[PreparedTransaction]:
    return [one.transaction for one in written if one.transaction is not None]
