"""The transaction of one task: begun with its first batches, left open for the driver to end.

Its producer stays in the worker process. The next task that gets its transactional id begins without a question: the
driver has ended the last transaction, which has raised the producer's epoch by one. Whether it was so is found out by
storing something. If not, nothing is lost: who begins anew under the id aborts what is there.
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

KEPT_S: Final = 60.0
"""After such a pause a producer begins anew: its id may be forgotten, its transaction may have timed out."""
Part = tuple[TopicPartition, Sequence[bytearray]]


class TransactionalProducerCache:
    """The producers of this process whose transaction was left open, by transactional id."""

    def __init__(self) -> None:
        self._kept: dict[tuple[ClientSettings, str], tuple[float, RawProducer]] = {}

    def forget(self) -> None:
        """In the child of a fork: the ids are the parent's."""
        self._kept.clear()

    def keep(self, cluster: Cluster, name: str, producer: RawProducer) -> None:
        now = cluster.clock.monotonic()
        self._kept = {key: kept for key, kept in self._kept.items() if kept[0] + KEPT_S > now}
        self._kept[cluster.settings, name] = (now, producer)

    def resume(self, cluster: Cluster, name: str, first: Sequence[Part]) -> RawProducer | None:
        """The producer of that id in its next transaction, in which these batches are stored; None if that cannot be.

        Then they can be sent again by another: it signs them anew.
        """
        since, producer = self._kept.pop((cluster.settings, name), (0.0, None))
        if producer is None or since + KEPT_S <= cluster.clock.monotonic() or not producer.begin_next():
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


KEPT: Final = TransactionalProducerCache()
os.register_at_fork(after_in_child=KEPT.forget)


class TaskTransaction:
    """What a task writes. It has no transaction as long as there is nothing to write."""

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
            self._producer = KEPT.resume(self._cluster, self._name, first) or self._begin(first)

    def _begin(self, first: Sequence[Part]) -> RawProducer:
        producer = self._producer = open_producer(
            self._cluster, self._name, self._options.transaction_timeout_ms
        )
        _send(producer, first)
        return producer

    def leave_open(self) -> TaskCommitMessage:
        """What the driver has to know to end it, when all of it is stored."""
        producer = self._producer
        if producer is None:
            return TaskCommitMessage(self._task, self._began_ms, 0, None)
        records = producer.flush().records
        KEPT.keep(self._cluster, self._name, producer)
        identity = producer.identity
        prepared = PreparedTransaction(self._name, identity.producer_id, identity.epoch)
        return TaskCommitMessage(
            self._task, self._began_ms, records, prepared, can_expire=not identity.two_phase
        )

    def abort(self) -> None:
        """As far as that is possible: the driver aborts what is left."""
        if self._producer is not None:
            _abort(self._producer)


def _send(producer: RawProducer, parts: Iterable[Part]) -> None:
    for partition, batches in parts:
        producer.send(partition, batches)


def _abort(producer: RawProducer) -> None:
    with suppress(ClientError):
        producer.end(commit=False)
