"""The transactions of a query: their ids, written by tasks, ended by the driver.

    <prefix>.<query>.<sink>.<run>.<process>.<slot>

A transactional id belongs to one worker process of one run, so no other process begins a transaction with it: a task
that was presumed dead and continues can only affect itself. A process uses an id again in a later batch. By then the
earlier batch is committed or aborted, because Spark starts no batch before that, and a transaction that is still open
under the id belongs to an attempt that was not used. So a run has about as many ids as a batch has tasks.

Two-phase commit is used if the cluster supports it: a transaction then stays open until it is ended. Otherwise the
cluster aborts it when its timeout expires, so the default timeout is the longest that brokers allow by default.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from typing import Final

from pyspark.sql.datasource import WriterCommitMessage

from ottla.base.errors import ErrorCode, LocalError
from ottla.base.lazy_log import LazyLogger
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

_log = LazyLogger()

_RUN_DIGITS: Final = 8
_CONNECTIONS_MAX: Final = 8
_PER_CONNECTION_MIN: Final = 8
_DESCRIBED_MAX: Final = 2
"""Up to so many transactions are described one by one; listing all takes two requests."""


@dataclass(frozen=True)
class Task:
    """The identity of a task: query, run, batch, partition and attempt."""

    query: str
    """The id of the query and its sink; for a batch job a unique name."""
    run: str
    batch: int
    partition: int
    attempt: int


@dataclass
class TaskCommitMessage(WriterCommitMessage):
    """The result of a task, sent to the driver."""

    task: Task
    began_ms: int
    records: int
    transaction: PreparedTransaction | None
    """None if there were no records, or the batch is committed already."""
    can_expire: bool = True
    """Whether the cluster aborts the transaction when its timeout expires."""

    def to_json(self) -> str:
        """The message as text, for `updates`, where it is sent as a row."""
        prepared = None if self.transaction is None else list(self.transaction)
        return json.dumps([list(astuple(self.task)), self.began_ms, self.records, prepared, self.can_expire])

    @classmethod
    def from_json(cls, text: str) -> TaskCommitMessage:
        """The inverse of `to_json`; raises LocalError for any other text."""
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
            raise LocalError(
                f"a task returned a value that is not a message of the sink: {text[:200]!r}"
            ) from error


def query_prefix(prefix: str, query: str) -> str:
    return f"{prefix}.{query}."


def run_prefix(prefix: str, query: str, run: str) -> str:
    return f"{query_prefix(prefix, query)}{run.replace('-', '')[:_RUN_DIGITS]}."


class TransactionNames:
    """The transactional ids of this process."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Called in the child process of a fork: the ids belong to the parent."""
        self._process = secrets.token_hex(6)
        self._batches: dict[str, list[int]] = {}

    def take(self, run_prefix: str, batch: int) -> str:
        """An id that is not used by an open transaction of the current batch."""
        used = self._batches.setdefault(run_prefix, [])
        slot = next((at for at, last in enumerate(used) if last < batch), len(used))
        used[slot : slot + 1] = [batch]
        return f"{run_prefix}{self._process}.{slot}"


NAMES: Final = TransactionNames()
os.register_at_fork(after_in_child=NAMES.reset)


def open_producer(cluster: Cluster, transactional_id: str, timeout_ms: int) -> RawProducer:
    """A new producer that has begun a transaction, with two-phase commit if the cluster supports it."""
    try:
        return _begun(RawProducer(cluster, transactional_id, timeout_ms=timeout_ms, two_phase=True))
    except Refused as error:
        if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise LocalError(
                f"kafka.transaction.timeout.ms is {timeout_ms}, which is more than transaction.max.timeout.ms of the "
                "brokers: set a lower value; no batch may take longer than that"
            ) from error
        # Brokers without two-phase commit return this error. If the id is not authorized, the next request fails too.
        if error.code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise
    return _begun(RawProducer(cluster, transactional_id, timeout_ms=timeout_ms))


def _begun(producer: RawProducer) -> RawProducer:
    producer.init()
    producer.begin()
    return producer


class QueryTransactions:
    """The open transactions of a query, for the driver of one run; implements the port of `batch_commit`."""

    def __init__(self, cluster: Cluster, prefix: str, query: str, run: str, began_ms: int) -> None:
        self._cluster = cluster
        self._query_prefix = query_prefix(prefix, query)
        self._run_prefix = run_prefix(prefix, query, run)
        self._began_ms = began_ms
        """The start of the first task of the batch."""

    def end(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> list[TransactionEnd]:
        """A broker processes the requests of a connection one by one, so many are sent on several connections."""
        connections = min(_CONNECTIONS_MAX, len(transactions) // _PER_CONNECTION_MIN)
        if connections <= 1:
            return end_transactions(self._cluster, transactions, commit)

        def end_some(number: int) -> list[TransactionEnd]:
            settings = self._cluster.settings
            own = replace(settings, client_id=f"{settings.client_id}-{number}")
            return end_transactions(cluster_for(own), transactions[number::connections], commit)

        results = [TransactionEnd.UNKNOWN] * len(transactions)
        with ThreadPoolExecutor(connections) as pool:
            for number, ended in enumerate(pool.map(end_some, range(connections))):
                results[number::connections] = ended
        return results

    def are_open(self, transactions: Collection[PreparedTransaction]) -> Mapping[PreparedTransaction, bool]:
        if len(transactions) <= _DESCRIBED_MAX:
            return {one: self._is_open(one) for one in transactions}
        found = self._list_open()
        return {
            one: found.get(one.transactional_id) == one.producer_id or self._is_open(one)
            for one in transactions
        }

    def _is_open(self, one: PreparedTransaction) -> bool:
        """Look it up at its coordinator; the list may be incomplete if a broker has not responded."""
        found = describe_transaction(self._cluster, one.transactional_id)
        if found is None or found.state != OPEN_STATE:
            return False
        return (found.producer_id, found.producer_epoch) == (one.producer_id, one.epoch)

    def abandoned(self, keep: Collection[PreparedTransaction]) -> list[PreparedTransaction]:
        """Open transactions of this run, whose batch is complete, and those of other runs that began before this one.

        A run that began later may be the active one, if this driver was presumed dead.
        """
        kept = {one.transactional_id for one in keep}
        left = []
        for name in sorted(self._list_open()):
            found = None if name in kept else describe_transaction(self._cluster, name)
            if found is None or found.state != OPEN_STATE:
                continue
            if name.startswith(self._run_prefix) or found.start_ms < self._began_ms:
                left.append(PreparedTransaction(name, found.producer_id, found.producer_epoch))
        return left

    def _list_open(self) -> Mapping[str, int]:
        """The producer ids of the open transactions of the query, by id; an incomplete list is requested again once."""
        found = list_open_transactions(self._cluster, self._query_prefix)
        if not found.complete:
            found = list_open_transactions(self._cluster, self._query_prefix)
        if not found.complete:
            _log.warning("the list of open transactions is incomplete: a broker has not responded")
        return found.producers
