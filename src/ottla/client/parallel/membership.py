"""Rebalance callbacks: partitions are assigned with their committed offsets, and released after a commit.

    on_assigned   read the committed offset and its metadata, and start the partition there
    on_revoked    give out no more records; wait for running handlers up to a limit; commit synchronously; drop the
                  rest, which is delivered to the next owner
    on_lost       another member already owns the partition: commit nothing, ignore results

librdkafka calls these from within `poll` and `close`, on the poll thread. The group waits until they return.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from ottla.base.ids import TopicPartition
from ottla.client.parallel.dispatcher import Dispatcher
from ottla.client.parallel.offset_committer import OffsetCommitter

_log = logging.getLogger(__name__)
_COMMITTED_TIMEOUT_S = 10.0
_COMMITTED_ATTEMPTS = 3


class Membership:
    def __init__(
        self,
        dispatcher: Dispatcher,
        committer: OffsetCommitter,
        *,
        cooperative: bool,
        handover_timeout_s: float,
    ) -> None:
        self._dispatcher = dispatcher
        self._committer = committer
        self._cooperative = cooperative
        self._handover_timeout_s = handover_timeout_s
        self.is_reading = True
        """False if the consumer stops reading: partitions assigned after that start paused."""

    def on_assigned(self, consumer: Consumer, offsets: list[PartitionOffset]) -> None:
        # librdkafka requires the call also without partitions.
        known = _committed(consumer, offsets) if offsets else []
        with self._dispatcher.lock:
            for entry in known:
                offset = entry.offset if entry.offset >= 0 else None
                self._dispatcher.scheduler.assign(_partition(entry), offset, entry.metadata)
        starts = [
            PartitionOffset(
                entry.topic, entry.partition, entry.offset if entry.offset >= 0 else OFFSET_INVALID
            )
            for entry in known
        ]
        if self._cooperative:
            consumer.incremental_assign(starts)
        else:
            consumer.assign(starts)
        # librdkafka keeps the paused state of a partition that was revoked.
        if starts:
            (consumer.resume if self.is_reading else consumer.pause)(starts)

    def on_revoked(self, consumer: Consumer, offsets: list[PartitionOffset]) -> None:
        self.release(consumer, [_partition(entry) for entry in offsets])

    def on_lost(self, _consumer: Consumer, offsets: list[PartitionOffset]) -> None:
        partitions = [_partition(entry) for entry in offsets]
        _log.warning("lost %s: this member did not reach the group coordinator in time", _text(partitions))
        with self._dispatcher.lock:
            self._dispatcher.scheduler.drop(partitions)

    def release(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        scheduler = self._dispatcher.scheduler
        with self._dispatcher.lock:
            scheduler.close(partitions)
            ended = self._dispatcher.wait_for(
                lambda: not scheduler.running(partitions), self._handover_timeout_s
            )
            left = scheduler.running(partitions)
        if not ended:
            _log.warning(
                "%d handlers did not end within handover_timeout_s; the next owner gets their records again",
                left,
            )
        self._committer.finish(consumer, partitions)
        with self._dispatcher.lock:
            scheduler.drop(partitions)


def _committed(consumer: Consumer, offsets: list[PartitionOffset]) -> list[PartitionOffset]:
    """The committed offsets and metadata of the partitions; the input itself if they cannot be read."""
    for attempt in range(1, _COMMITTED_ATTEMPTS + 1):
        try:
            return consumer.committed(offsets, timeout=_COMMITTED_TIMEOUT_S)
        except KafkaException as error:
            _log.warning("reading committed offsets failed (attempt %d): %s", attempt, error)
    # librdkafka reads the offsets again itself. Without metadata more records are repeated.
    return offsets


def _partition(entry: PartitionOffset) -> TopicPartition:
    return TopicPartition(entry.topic, entry.partition)


def _text(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(str(partition) for partition in partitions)
