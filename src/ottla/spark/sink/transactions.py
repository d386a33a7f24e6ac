"""The transactions of a query: named and written by tasks, ended by the driver.

    <prefix>.<query>.<sink>.<run>.<process>.<slot>

A transactional id belongs to one worker process of one run for ever, so nobody but its owner can begin anything under
it: a task that was given up for dead and wakes up can disturb only itself. A process uses an id again in a later batch;
by then the earlier one is decided, for Spark begins no batch before that, and what is still open under the id was of an
attempt that did not count. So a run has about as many ids as it has tasks in a batch.

Two-phase commit is used where the cluster offers it: then a transaction stays open until it is ended. Elsewhere it
is aborted when its timeout passes, which is why that is as long as brokers allow by default.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from typing import Final

import structlog
from pyspark.sql.datasource import WriterCommitMessage

from ottla.base.errors import ErrorCode, LocalError
from ottla.client.raw import (
    Cluster,
    RawProducer,
    Refused,
    TransactionEnd,
    cluster_for,
    describe_transaction,
    end_transactions,
)
from ottla.client.raw.admin import OPEN_STATE, list_open_transactions
from ottla.spark.sink.commit_log import PreparedTransaction

_log = structlog.get_logger()

_RUN_DIGITS: Final = 8
_LANES_MAX: Final = 8
_LANE_LEAST: Final = 8
_DESCRIBED_MAX: Final = 2
"""So few are asked for one by one; the list of all takes two questions."""


@dataclass(frozen=True)
class Task:
    """Whose records a task writes."""

    query: str
    """The query's id, and which of its sinks; of a batch job a name of its own."""
    run: str
    batch: int
    partition: int
    attempt: int


@dataclass
class TaskCommitMessage(WriterCommitMessage):
    """What a task tells the driver."""

    task: Task
    began_ms: int
    records: int
    transaction: PreparedTransaction | None
    """None if there was nothing to write, or the batch is committed already."""
    can_expire: bool = True
    """Whether the cluster aborts the transaction when its timeout passes."""

    def to_json(self) -> str:
        """For rows of Spark: a message that Spark itself carries needs none."""
        prepared = None if self.transaction is None else list(self.transaction)
        return json.dumps([list(astuple(self.task)), self.began_ms, self.records, prepared, self.can_expire])

    @classmethod
    def from_json(cls, text: str) -> TaskCommitMessage:
        """The inverse; raises LocalError at anything else."""
        try:
            (query, run, *numbers), began_ms, records, prepared, can_expire = json.loads(text)
            batch, partition, attempt = map(int, numbers)
            transaction = None
            if prepared is not None:
                name, producer_id, epoch = prepared
                transaction = PreparedTransaction(str(name), int(producer_id), int(epoch))
            task = Task(str(query), str(run), batch, partition, attempt)
            return cls(task, int(began_ms), int(records), transaction, bool(can_expire))
        except (ValueError, TypeError) as error:
            raise LocalError(f"a task has told what is no message of the sink: {text[:200]!r}") from error


def query_prefix(prefix: str, query: str) -> str:
    return f"{prefix}.{query}."


def run_prefix(prefix: str, query: str, run: str) -> str:
    return f"{query_prefix(prefix, query)}{run.replace('-', '')[:_RUN_DIGITS]}."


class TransactionNames:
    """The transactional ids of this process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """In the child of a fork: the names are the parent's."""
        self._process = secrets.token_hex(6)
        self._batches: dict[str, list[int]] = {}

    def take(self, run_prefix: str, batch: int) -> str:
        """An id that no open transaction of an undecided batch has."""
        used = self._batches.setdefault(run_prefix, [])
        slot = next((at for at, last in enumerate(used) if last < batch), len(used))
        used[slot : slot + 1] = [batch]
        return f"{run_prefix}{self._process}.{slot}"


NAMES: Final = TransactionNames()
os.register_at_fork(after_in_child=NAMES.forget)


def open_producer(cluster: Cluster, transactional_id: str, timeout_ms: int) -> RawProducer:
    """A producer in a transaction of its own, with two-phase commit if the cluster has it."""
    try:
        return _begun(RawProducer(cluster, transactional_id, timeout_ms=timeout_ms, two_phase=True))
    except Refused as error:
        if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise LocalError(
                f"kafka.transaction.timeout.ms is {timeout_ms}, more than the brokers' transaction.max.timeout.ms "
                "allows: lower it, and see that no batch takes longer"
            ) from error
        # This is how two-phase commit is refused; if it is the id that is not allowed, it will be said again.
        if error.code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise
    return _begun(RawProducer(cluster, transactional_id, timeout_ms=timeout_ms))


def _begun(producer: RawProducer) -> RawProducer:
    producer.init()
    producer.begin()
    return producer


class QueryTransactions:
    """The open transactions of a query, as the driver of one run sees them. The port of `committing`."""

    def __init__(self, cluster: Cluster, prefix: str, query: str, run: str, began_ms: int) -> None:
        self._cluster = cluster
        self._query_prefix = query_prefix(prefix, query)
        self._run_prefix = run_prefix(prefix, query, run)
        self._began_ms = began_ms
        """When the first task of the batch began."""

    def end(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> list[TransactionEnd]:
        """Brokers answer the requests of one connection one by one, so that many are shared out among several."""
        lanes = min(_LANES_MAX, len(transactions) // _LANE_LEAST)
        if lanes <= 1:
            return end_transactions(self._cluster, transactions, commit)

        def end_lane(lane: int) -> list[TransactionEnd]:
            settings = self._cluster.settings
            mine = replace(settings, client_id=f"{settings.client_id}-lane-{lane}")
            return end_transactions(cluster_for(mine), transactions[lane::lanes], commit)

        outcomes = [TransactionEnd.UNKNOWN] * len(transactions)
        with ThreadPoolExecutor(lanes) as pool:
            for lane, ended in enumerate(pool.map(end_lane, range(lanes))):
                outcomes[lane::lanes] = ended
        return outcomes

    def are_open(self, transactions: Collection[PreparedTransaction]) -> Mapping[PreparedTransaction, bool]:
        if len(transactions) <= _DESCRIBED_MAX:
            return {one: self._is_open(one) for one in transactions}
        found = self._list_open()
        return {
            one: found.get(one.transactional_id) == one.producer_id or self._is_open(one)
            for one in transactions
        }

    def _is_open(self, one: PreparedTransaction) -> bool:
        """As its coordinator says, when the list does not have it: some broker may not have answered."""
        told = describe_transaction(self._cluster, one.transactional_id)
        if told is None or told.state != OPEN_STATE:
            return False
        return (told.producer_id, told.producer_epoch) == (one.producer_id, one.epoch)

    def abandoned(self, keep: Collection[PreparedTransaction]) -> list[PreparedTransaction]:
        """Of this run: all that are open, because its batch is decided. Of others: those that began before it did.

        The run that began later may be the one that counts, if this driver was given up for dead.
        """
        kept = {one.transactional_id for one in keep}
        left = []
        for name in sorted(self._list_open()):
            told = None if name in kept else describe_transaction(self._cluster, name)
            if told is None or told.state != OPEN_STATE:
                continue
            if name.startswith(self._run_prefix) or told.start_ms < self._began_ms:
                left.append(PreparedTransaction(name, told.producer_id, told.producer_epoch))
        return left

    def _list_open(self) -> Mapping[str, int]:
        """The producers of the query's open transactions by name; a broker that does not answer is asked once more."""
        found = list_open_transactions(self._cluster, self._query_prefix)
        if not found.complete:
            found = list_open_transactions(self._cluster, self._query_prefix)
        if not found.complete:
            _log.warning("some broker does not tell which transactions are open")
        return found.producers
