"""Commits of offsets: asynchronous at intervals, synchronous before a partition is released.

At most one asynchronous commit is in flight, so a late response never refers to an older offset. A failed commit
does not end the consumer: the offsets are part of the next commit, or are committed by the next owner of the
partition. If the cluster rejects the size of the metadata, the metadata is shortened.

Poll thread only: librdkafka calls `on_commit` from within `poll`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from ottla.base.ids import TopicPartition
from ottla.client.parallel.dispatcher import Dispatcher
from ottla.client.parallel.scheduler import Commit

_log = logging.getLogger(__name__)


class OffsetCommitter:
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._in_flight = False

    def begin(self, consumer: Consumer) -> None:
        """Start a commit of changed offsets; librdkafka calls `on_commit` with the result."""
        if self._in_flight:
            return
        commits = self._collect(None)
        if not commits:
            return
        try:
            consumer.commit(offsets=_partition_offsets(commits), asynchronous=True)
        except KafkaException as error:
            self._commit_rejected(commits, error)
        else:
            self._in_flight = True

    def on_commit(self, error: KafkaError | None, offsets: Sequence[PartitionOffset]) -> None:
        self._in_flight = False
        self._record(error, offsets)

    def finish(self, consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        """Commit the changed offsets of these partitions and wait for the response."""
        partitions = list(partitions)
        while commits := self._collect(partitions):
            try:
                offsets = consumer.commit(offsets=_partition_offsets(commits), asynchronous=False)
            except KafkaException as error:
                self._commit_rejected(commits, error)
                again = _is_metadata_too_large(error.args[0])
            else:
                again = self._record(None, offsets)
            if not again:
                return

    def _collect(self, partitions: list[TopicPartition] | None) -> list[Commit]:
        with self._dispatcher.lock:
            return self._dispatcher.scheduler.commits(partitions)

    def _commit_rejected(self, commits: list[Commit], error: KafkaException) -> None:
        self._record(error.args[0], _partition_offsets(commits))

    def _record(self, error: KafkaError | None, offsets: Sequence[PartitionOffset]) -> bool:
        """Record the result of a commit; return whether to repeat it at once."""
        again = False
        with self._dispatcher.lock:
            scheduler = self._dispatcher.scheduler
            for entry in offsets:
                failure = error or entry.error
                partition = TopicPartition(entry.topic, entry.partition)
                if failure is None:
                    scheduler.committed(Commit(partition, entry.offset, entry.metadata or ""))
                    continue
                scheduler.commit_failed(partition)
                if _is_metadata_too_large(failure):
                    again = True
                else:
                    _log.warning("offset %d of %s was not committed: %s", entry.offset, partition, failure)
            if again:
                again = scheduler.shrink_metadata()
        return again


def _partition_offsets(commits: list[Commit]) -> list[PartitionOffset]:
    return [
        PartitionOffset(
            commit.partition.topic, commit.partition.partition, commit.offset, metadata=commit.metadata
        )
        for commit in commits
    ]


def _is_metadata_too_large(error: KafkaError) -> bool:
    return bool(error.code() == KafkaError.OFFSET_METADATA_TOO_LARGE)
