"""The sink with a driver, or a task, that dies or stays where a test wants it to.

A test leaves an order in a directory: a file named after the step, which the first who gets there takes away, so that
it happens once. Steps of the driver are the calls of the ports of
`ottla.spark.sink.batch_commit`, before and after. The data source is `ottla` in all other respects.

    driver-<n>          the n-th step of commits (counted from 0 within one commit) is not survived
    task-<place>        a task does not survive that place
    hold-task-<place>   a task stays there; it leaves `held-task-<place>` with its process id, and goes on when the
                        test has removed that

Places of a task: start (before its first record is written), begin (after its first Arrow batch), written (all of
it), failed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage

from ottla.client.raw import TransactionEnd
from ottla.client.raw import producer as producer_module
from ottla.spark.data_source import OttlaDataSource
from ottla.spark.sink.batch_commit import BatchCommit, CommitLog, Transactions
from ottla.spark.sink.commit_log import CommitEntry, PreparedTransaction
from ottla.spark.sink.spark_writers import OttlaStreamWriter, make_stream_writer
from ottla.spark.sink.transactions import Task
from tests.support.waiting import wait_until

ORDERS_OPTION = "testOrders"
GROUP_OPTION = "testDriverGroup"
"""The process group of Spark's driver, if that is to die with the process that commits."""
STEPS = 16
"""More than a commit of three transactions takes."""
_STAY_S_MAX = 600.0


class Orders:
    """The directory of orders."""

    def __init__(self, directory: str, group: str) -> None:
        self._directory = Path(directory)
        self._group = int(group)

    def obey(self, name: str) -> None:
        """Stay, or die, if there is such an order."""
        self._stay(name)
        try:
            (self._directory / name).unlink()
        except FileNotFoundError:
            return
        if self._group > 0 and name.startswith("driver"):
            os.killpg(self._group, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def _stay(self, name: str) -> None:
        note = self._directory / f"held-{name}"
        try:
            (self._directory / f"hold-{name}").rename(note)
        except FileNotFoundError:
            return
        note.write_text(str(os.getpid()))
        wait_until(lambda: not note.exists(), f"the end of {note}", _STAY_S_MAX)


class _Steps:
    """Counts the steps of one commit."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._count = 0

    def __call__(self) -> None:
        self._orders.obey(f"driver-{self._count}")
        self._count += 1


class _DyingCommitLog:
    def __init__(self, commit_log: CommitLog, step: _Steps) -> None:
        self._commit_log, self._step = commit_log, step

    def entry(self) -> CommitEntry | None:
        entry = self._commit_log.entry()
        self._step()
        return entry

    def expected(self, batch: int) -> CommitEntry | None:
        entry = self._commit_log.expected(batch)
        self._step()
        return entry

    def is_own(self) -> bool:
        return self._commit_log.is_own()

    def record(self, entry: CommitEntry) -> None:
        self._step()
        self._commit_log.record(entry)
        self._step()


class _DyingTransactions:
    def __init__(self, transactions: Transactions, step: _Steps) -> None:
        self._transactions, self._step = transactions, step

    def end(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> list[TransactionEnd]:
        outcomes = []
        for one in transactions:
            outcomes += self._transactions.end([one], commit=commit)
            self._step()
        return outcomes

    def are_open(self, transactions: Collection[PreparedTransaction]) -> Mapping[PreparedTransaction, bool]:
        return self._transactions.are_open(transactions)

    def abandoned(self, keep: Collection[PreparedTransaction]) -> list[PreparedTransaction]:
        self._step()
        return self._transactions.abandoned(keep)


class DyingStreamWriter(OttlaStreamWriter):
    orders: Orders

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        # Every Arrow batch goes at once: the transaction is open from the first on.
        producer_module.REQUEST_BYTES = 1

        def batches() -> Iterator[Any]:
            for number, batch in enumerate(iterator):
                if number == 0:
                    self.orders.obey("task-start")
                yield batch
                if number == 0:
                    self.orders.obey("task-begin")

        try:
            written = super().write(batches())
        except Exception:
            self.orders.obey("task-failed")
            raise
        self.orders.obey("task-written")
        return written

    def _batch_commit(self, task: Task, began_ms: int) -> BatchCommit:
        decisions = super()._batch_commit(task, began_ms)
        step = _Steps(self.orders)
        return BatchCommit(
            _DyingCommitLog(decisions.commit_log, step), _DyingTransactions(decisions.transactions, step)
        )


class DyingDataSource(OttlaDataSource):
    """`format("ottla_dying")`, with the options `testOrders` and `testDriverGroup`."""

    @classmethod
    def name(cls) -> str:
        return "ottla_dying"

    def streamWriter(self, schema: Any, overwrite: bool) -> DyingStreamWriter:
        plain = make_stream_writer(self.options, schema, overwrite)
        writer = DyingStreamWriter.__new__(DyingStreamWriter)
        writer.__dict__.update(plain.__dict__)
        writer.orders = Orders(self.options[ORDERS_OPTION], self.options.get(GROUP_OPTION, "0"))
        return writer
