"""Committing a batch exactly once: the driver's side of the sink, on top of a commit log and transactions.

The tasks of a batch write transactions and leave them open. A batch is committed in this order:

    1. check that all transactions are still open, because some could be committed after others have timed out
    2. record them in the commit log as prepared  - from here on, the transactions of the batch are fixed
    3. commit the first one                       - from here on, the batch is committed
    4. commit the others
    5. record the batch as done
    6. abort the transactions that failed or superfluous attempts of tasks have left open

If Spark has not seen the commit of a batch return, it repeats the batch with the same id. The commit log then shows:

    no entry of this batch       the batch is new
    prepared, first committed    complete it, and abort what was written again
    prepared, first aborted      nothing is visible, because the first is committed first: commit the new ones
    done                         abort what was written again
    done, by this run            an error: a run repeats no batch, so a second sink of the query has the same name
    an entry of a later batch    an error: this driver or its checkpoint is behind, and the batch may be written already

A transaction that is aborted in step 4 cannot be repaired. A cluster without two-phase commit aborts a transaction when
its timeout expires. Step 1 detects that, unless it happens between the steps; it is always reported. For a batch of one
transaction step 1 is skipped, because it cannot be committed partially.

A driver that has recorded the batch before assumes that no other driver has recorded one since. If one has, recording
the next batch fails. If there is nothing to record, the driver reads the commit log, because tasks may have written
nothing after they have seen a later batch. Pure, except for its ports. Ending a transaction twice in the same way must
succeed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from ottla.base.errors import OttlaError
from ottla.base.lazy_log import LazyLogger
from ottla.client.raw import ClientError, TransactionEnd
from ottla.spark.sink.commit_log import CommitEntry, PreparedTransaction, State

_log = LazyLogger()

_TIMEOUT_HINT = (
    "Its transaction timeout has expired (kafka.transaction.timeout.ms, at most transaction.max.timeout.ms of the "
    "brokers). Increase the timeout, or make batches smaller. Clusters with two-phase commit have no such limit"
)


class CommitLog(Protocol):
    """The commit log of one query: which batch was committed last."""

    def entry(self) -> CommitEntry | None:
        """The last entry, of any run."""
        ...

    def expected(self, batch: int) -> CommitEntry | None:
        """The last entry before that batch; not read again if this process has recorded the batch before it.

        If another driver has recorded an entry since, `record` will fail.
        """
        ...

    def is_own(self) -> bool:
        """Whether this run of the query has recorded the last entry."""
        ...

    def record(self, entry: CommitEntry) -> None:
        """Append an entry; raises Superseded if another driver has appended one since the last read."""
        ...


class Transactions(Protocol):
    """The open transactions of one query."""

    def end(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> list[TransactionEnd]: ...

    def are_open(
        self, transactions: Collection[PreparedTransaction]
    ) -> Mapping[PreparedTransaction, bool]: ...

    def abandoned(self, keep: Collection[PreparedTransaction]) -> list[PreparedTransaction]:
        """Open transactions that will never be committed; those in `keep` are not among them."""
        ...


class SinkError(OttlaError):
    """A batch could not be committed."""


class Superseded(SinkError):
    """Another driver runs the same query, or has run it from a later checkpoint."""


class DuplicateSinkName(SinkError):
    """Two sinks of one query have the same name."""


class TransactionLost(SinkError):
    """A transaction was aborted before it could be committed, and nothing of its batch is visible."""


class PartialCommit(SinkError):
    """A transaction was aborted after others of its batch had been committed."""


class BatchCommit:
    """Commits and aborts the batches of one query."""

    def __init__(self, commit_log: CommitLog, transactions: Transactions) -> None:
        self.commit_log = commit_log
        self.transactions = transactions

    def commit(self, batch: int, written: Sequence[PreparedTransaction], *, can_expire: bool = True) -> None:
        """Commit a batch exactly once; repeated calls may have other transactions of the same batch."""
        entry = self.commit_log.expected(batch) if written else self.commit_log.entry()
        if entry is None or entry.batch < batch:
            self._commit_new(batch, written, can_expire)
        elif entry.batch == batch and entry.state is State.PREPARED and not self._complete(entry):
            _log.warning("committing the repeated batch, the first attempt was aborted", batch=batch)
            self.transactions.end(entry.transactions, commit=False)
            self._commit_new(batch, written, can_expire)
        elif entry.batch > batch:
            self.transactions.end([one for one in written if one not in entry.transactions], commit=False)
            raise Superseded(_behind(batch, entry.batch))
        elif entry.batch == batch and entry.state is State.DONE and self.commit_log.is_own():
            self.transactions.end(written, commit=False)
            raise DuplicateSinkName(
                f"batch {batch} was written twice in the same run of its query. If two sinks of a query write to the "
                "same topic, or both to the topic of each row, set the option sinkName to a different value for each"
            )
        else:
            superfluous = [one for one in written if one not in entry.transactions]
            self.transactions.end(superfluous, commit=False)
        abort_abandoned(self.transactions)

    def abort(self, written: Sequence[PreparedTransaction]) -> None:
        """Abort what was written, except the transactions of a prepared batch, which will be committed."""
        prepared = _prepared(self.commit_log.entry())
        self.transactions.end([one for one in written if one not in prepared], commit=False)
        abort_abandoned(self.transactions, keep=prepared)

    def _commit_new(self, batch: int, written: Sequence[PreparedTransaction], can_expire: bool) -> None:
        if not written:
            return
        if can_expire and len(written) > 1:
            is_open = self.transactions.are_open(written)
            for one in written:
                if not is_open[one]:
                    raise _lost(batch, one)
        prepared = CommitEntry(batch, State.PREPARED, tuple(written))
        self.commit_log.record(prepared)
        if not self._complete(prepared):
            raise _lost(batch, written[0])

    def _complete(self, entry: CommitEntry) -> bool:
        """Commit a prepared batch and record it as done; return False if its first transaction was aborted."""
        first, others = entry.transactions[:1], entry.transactions[1:]
        (result,) = self.transactions.end(first, commit=True)
        if result is TransactionEnd.UNKNOWN:
            raise PartialCommit(
                f"batch {entry.batch} was prepared, but the cluster does not have the transaction "
                f"{first[0].transactional_id} any more, so it is unknown whether it was committed. {_REPAIR}"
            )
        if result is not TransactionEnd.ENDED:
            return False
        results = self.transactions.end(others, commit=True)
        aborted = [one for one, end in zip(others, results, strict=True) if end is not TransactionEnd.ENDED]
        if aborted:
            names = ", ".join(one.transactional_id for one in aborted)
            raise PartialCommit(
                f"batch {entry.batch} is committed, except for {len(aborted)} of its {len(entry.transactions)} "
                f"transactions, which were aborted before: {names}. {_TIMEOUT_HINT}. {_REPAIR}"
            )
        self.commit_log.record(CommitEntry(entry.batch, State.DONE))
        return True


def abort_abandoned(transactions: Transactions, keep: Collection[PreparedTransaction] = ()) -> None:
    """Abort transactions that were left open: consumers that read committed records cannot read beyond them.

    No batch depends on it. An error is logged; the next batch tries again, or the transactions time out.
    """
    try:
        left = transactions.abandoned(keep)
        if left:
            _log.info("aborting transactions that were left open", transactions=len(left))
            transactions.end(left, commit=False)
    except ClientError as error:
        _log.warning("cannot abort transactions that were left open", reason=str(error))


_REPAIR = (
    "To continue, run the query once with deliveryGuarantee=at-least-once. That writes the batch again: no record will "
    "be missing, and some records will be duplicated"
)


def _lost(batch: int, one: PreparedTransaction) -> TransactionLost:
    return TransactionLost(
        f"nothing of batch {batch} was committed, because the transaction {one.transactional_id} is not open any more. "
        f"{_TIMEOUT_HINT}. Restart the query to write the batch again"
    )


def _behind(batch: int, later: int) -> str:
    return (
        f"batch {batch} was not committed, because the commit log has batch {later} of the same query. Either another "
        "driver runs the query, or its checkpoint was rolled back, restored or copied, and its batches are in the "
        "topic already. To continue from this checkpoint and write them again, set transactionalIdPrefix to another "
        "value; the sink then regards this as another query. A copy of a running query needs that, too"
    )


def _prepared(entry: CommitEntry | None) -> frozenset[PreparedTransaction]:
    """The transactions of a prepared batch, of any number: another driver may be committing it now."""
    return (
        frozenset(entry.transactions) if entry is not None and entry.state is State.PREPARED else frozenset()
    )
