"""How a batch becomes visible exactly once: the driver's side of the sink, as decisions over two ports.

The tasks of a batch write transactions and leave them open. To commit the batch is, in this order:

    1. see that all of them are still open, if some could be committed and others have timed out
    2. record them in the commit log as prepared - from here on it is certain which transactions the batch consists of
    3. commit the first                         - from here on it is certain that the batch is committed
    4. commit the others
    5. record the batch as done
    6. abort what failed or superfluous attempts have left open

Spark repeats a batch, with the same id, whose commit it did not see return. Then the commit log tells how far it came:

    nothing of this batch        as if it were new
    prepared, first committed    complete it, abort what was written again
    prepared, first aborted      nothing of it is visible, since none is ended before the first: take the new ones
    done                         abort what was written again
    done, in this very run       a second sink of the query has the same name, for a run repeats nothing: an error
    something of a later batch   this driver, or its checkpoint, is behind: an error, since what it writes may be there

A transaction that is aborted in step 4 is the one thing that cannot be repaired: a cluster without two-phase commit
does that when the transaction's timeout passes. It is found in step 1 unless it happens in between, and is never
silent. A batch of one transaction cannot be torn, so it is spared the question.

Who has decided the batch before takes it that nobody else has decided since: if somebody has, recording the next one
fails. Where nothing is to be recorded it looks, for tasks may have written nothing because they saw a later batch. Pure
but for its ports. Ending a transaction twice in the same way must succeed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import structlog

from ottla.base.errors import OttlaError
from ottla.client.raw import ClientError, TransactionEnd
from ottla.spark.sink.commit_log import CommitEntry, PreparedTransaction, State

_log = structlog.get_logger()

_TIMEOUT_HINT = (
    "Its transaction timeout has passed (kafka.transaction.timeout.ms, at most the brokers' "
    "transaction.max.timeout.ms): raise it, or let batches be smaller. Clusters with two-phase commit have no such "
    "limit"
)


class CommitLog(Protocol):
    """Where it is kept what was decided."""

    def entry(self) -> CommitEntry | None:
        """What was decided last."""
        ...

    def expected(self, batch: int) -> CommitEntry | None:
        """The same, before that batch; if the batch before it was decided here, without a look for others.

        If somebody else has decided since, `record` will fail.
        """
        ...

    def is_own(self) -> bool:
        """Whether that was decided by this run of the query."""
        ...

    def record(self, entry: CommitEntry) -> None:
        """Decide; raises Superseded if somebody else has decided since it was asked what was last."""
        ...


class Transactions(Protocol):
    """The open transactions of one query."""

    def end(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> list[TransactionEnd]: ...

    def are_open(
        self, transactions: Collection[PreparedTransaction]
    ) -> Mapping[PreparedTransaction, bool]: ...

    def abandoned(self, keep: Collection[PreparedTransaction]) -> list[PreparedTransaction]:
        """Open ones that nobody will ask for any more; `keep` is never among them."""
        ...


class SinkError(OttlaError):
    """A batch could not be committed."""


class Superseded(SinkError):
    """Another driver runs the same query, or ran it from a later checkpoint."""


class SinksConfused(SinkError):
    """Two sinks of one query have the same name."""


class TransactionLost(SinkError):
    """A transaction was aborted before it could be committed, and nothing of its batch is visible."""


class BatchTorn(SinkError):
    """A transaction was aborted after others of its batch had been committed."""


class BatchCommit:
    """Commits and aborts the batches of one query."""

    def __init__(self, commit_log: CommitLog, transactions: Transactions) -> None:
        self.commit_log = commit_log
        self.transactions = transactions

    def commit(self, batch: int, written: Sequence[PreparedTransaction], *, can_expire: bool = True) -> None:
        """Makes a batch visible, once, however often it is called with whatever its tasks have written."""
        entry = self.commit_log.expected(batch) if written else self.commit_log.entry()
        if entry is None or entry.batch < batch:
            self._commit_new(batch, written, can_expire)
        elif entry.batch == batch and entry.state is State.PREPARED and not self._complete(entry):
            _log.warning("batch is committed as it was written again", batch=batch)
            self.transactions.end(entry.transactions, commit=False)
            self._commit_new(batch, written, can_expire)
        elif entry.batch > batch:
            self.transactions.end([one for one in written if one not in entry.transactions], commit=False)
            raise Superseded(_behind(batch, entry.batch))
        elif entry.batch == batch and entry.state is State.DONE and self.commit_log.is_own():
            self.transactions.end(written, commit=False)
            raise SinksConfused(
                f"batch {batch} is written a second time in the same run of its query: two sinks of one query that "
                "write to the same topic, or both to the topic of each row, need names: set the option sinkName"
            )
        else:
            superfluous = [one for one in written if one not in entry.transactions]
            self.transactions.end(superfluous, commit=False)
        sweep(self.transactions)

    def abort(self, written: Sequence[PreparedTransaction]) -> None:
        """Takes back what was written, unless its batch is decided: then it will be completed."""
        decided = _decided(self.commit_log.entry())
        self.transactions.end([one for one in written if one not in decided], commit=False)
        sweep(self.transactions, keep=decided)

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
        """Commits a prepared batch and records that; False if nothing of it was or can be committed."""
        first, others = entry.transactions[:1], entry.transactions[1:]
        (outcome,) = self.transactions.end(first, commit=True)
        if outcome is TransactionEnd.UNKNOWN:
            raise BatchTorn(
                f"batch {entry.batch} was prepared, but the cluster has forgotten the transaction "
                f"{first[0].transactional_id}, so it cannot be told whether it was committed. {_REPAIR}"
            )
        if outcome is not TransactionEnd.ENDED:
            return False
        outcomes = self.transactions.end(others, commit=True)
        torn = [one for one, how in zip(others, outcomes, strict=True) if how is not TransactionEnd.ENDED]
        if torn:
            names = ", ".join(one.transactional_id for one in torn)
            raise BatchTorn(
                f"batch {entry.batch} is committed but for {len(torn)} of {len(entry.transactions)} transactions, "
                f"which were aborted in between: {names}. {_TIMEOUT_HINT}. {_REPAIR}"
            )
        self.commit_log.record(CommitEntry(entry.batch, State.DONE))
        return True


def sweep(transactions: Transactions, keep: Collection[PreparedTransaction] = ()) -> None:
    """Abort what was left open: it would hide everything after it from consumers that read committed records.

    No batch depends on it, so that what fails here is told and left: to the next batch, or to the timeout.
    """
    try:
        left = transactions.abandoned(keep)
        if left:
            _log.info("aborting transactions that were left open", transactions=len(left))
            transactions.end(left, commit=False)
    except ClientError as error:
        _log.warning("transactions that were left open could not be aborted", reason=str(error))


_REPAIR = (
    "To go on, run the query once with deliveryGuarantee=at-least-once: it writes the batch again, so that nothing is "
    "missing and some records are there twice"
)


def _lost(batch: int, one: PreparedTransaction) -> TransactionLost:
    return TransactionLost(
        f"nothing of batch {batch} was committed, for the transaction {one.transactional_id} is not open any more. "
        f"{_TIMEOUT_HINT}. The batch will be written again when the query is restarted"
    )


def _behind(batch: int, decided: int) -> str:
    return (
        f"batch {batch} was not committed: batch {decided} of the same query is decided already. Either another driver "
        "runs the query, or its checkpoint was rolled back, restored or copied, and then it counts batches that the "
        "topic has. To go on from this checkpoint and write them again, set transactionalIdPrefix to a new value: it "
        "makes this another query for the sink. A copy of a query that runs beside the first needs one, too"
    )


def _decided(entry: CommitEntry | None) -> frozenset[PreparedTransaction]:
    """Of whichever batch: the driver that has decided it may be at work on it now."""
    return (
        frozenset(entry.transactions) if entry is not None and entry.state is State.PREPARED else frozenset()
    )
