"""The transaction of one task: it begins with the first batches and is left open for the driver to end.

The producer stays in the worker process. The next task with the same transactional id begins its transaction without a
request: the driver has ended the last one, which has increased the producer epoch by one. The first produce request
shows whether that is true. If not, nothing is lost: the task initializes a new producer, which aborts what is open.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from ottla.base.ids import TopicPartition
from ottla.client.raw import ClientError, Cluster, ClusterReplaced, Fenced, RawProducer, Refused
from ottla.client.raw.settings import ClientSettings
from ottla.spark.sink.commit_log import PreparedTransaction
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.transactions import NAMES, Task, TaskCommitMessage, open_producer, run_prefix

CACHED_S: Final = 60.0
"""A producer that was idle for longer is not reused: its id may have expired, its transaction may have timed out."""
Part = tuple[TopicPartition, Sequence[bytearray]]


class TransactionalProducerCache:
    """The producers of this process whose transactions were left open, by transactional id."""

    def __init__(self) -> None:
        self._cached: dict[tuple[ClientSettings, str], tuple[float, RawProducer]] = {}

    def clear(self) -> None:
        """Called in the child process of a fork: the producer ids belong to the parent."""
        self._cached.clear()

    def put(self, cluster: Cluster, name: str, producer: RawProducer) -> None:
        now = cluster.clock.monotonic()
        self._cached = {key: cached for key, cached in self._cached.items() if cached[0] + CACHED_S > now}
        self._cached[cluster.settings, name] = (now, producer)

    def resume(self, cluster: Cluster, name: str, first: Sequence[Part]) -> RawProducer | None:
        """The producer of that id in its next transaction, with these batches written; None if that is not possible.

        The batches can then be sent by another producer, which sets its own id and sequence numbers.
        """
        since, producer = self._cached.pop((cluster.settings, name), (0.0, None))
        if producer is None or since + CACHED_S <= cluster.clock.monotonic() or not producer.begin_next():
            return None
        try:
            _send(producer, first)
            producer.flush()
        except BaseException as error:
            _abort(producer)
            if isinstance(error, Fenced | Refused | ClusterReplaced):
                return None
            raise
        return producer


CACHE: Final = TransactionalProducerCache()
os.register_at_fork(after_in_child=CACHE.clear)


class TaskTransaction:
    """The records of a task. The transaction begins with the first record."""

    def __init__(self, cluster: Cluster, options: SinkOptions, task: Task) -> None:
        self._cluster = cluster
        self._options = options
        self._task = task
        self._began_ms = cluster.clock.now_ms()
        self._name = ""
        self._producer: RawProducer | None = None

    def send(self, parts: Iterable[Part]) -> None:
        if self._producer is not None:
            _send(self._producer, parts)
            return
        first = list(parts)
        if first:
            prefix = run_prefix(self._options.transactional_id_prefix, self._task.query, self._task.run)
            self._name = NAMES.take(prefix, self._task.batch)
            self._producer = CACHE.resume(self._cluster, self._name, first) or self._begin(first)

    def _begin(self, first: Sequence[Part]) -> RawProducer:
        producer = self._producer = open_producer(
            self._cluster, self._name, self._options.transaction_timeout_ms
        )
        _send(producer, first)
        return producer

    def leave_open(self) -> TaskCommitMessage:
        """Wait until all records are written; return what the driver needs to end the transaction."""
        producer = self._producer
        if producer is None:
            return TaskCommitMessage(self._task, self._began_ms, 0, None)
        records = producer.flush().records
        CACHE.put(self._cluster, self._name, producer)
        identity = producer.identity
        prepared = PreparedTransaction(self._name, identity.producer_id, identity.epoch)
        return TaskCommitMessage(
            self._task, self._began_ms, records, prepared, can_expire=not identity.two_phase
        )

    def abort(self) -> None:
        """Abort the transaction; if that fails, the driver will abort it."""
        if self._producer is not None:
            _abort(self._producer)


def _send(producer: RawProducer, parts: Iterable[Part]) -> None:
    for partition, batches in parts:
        producer.send(partition, batches)


def _abort(producer: RawProducer) -> None:
    with suppress(ClientError):
        producer.end(commit=False)
