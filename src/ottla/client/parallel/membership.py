"""What a rebalance does: partitions come with what is known of them, and leave in good order.

    assigned   the committed offset and its metadata are read, the partition starts there
    revoked    no more of its work is given out; handlers that run may finish within a limit; what is done is
               committed, waiting; the rest is forgotten and comes again to the next owner
    lost       somebody else has it already: nothing is committed, results are ignored

librdkafka calls these from within `poll` and `close`, on the poll thread; until they return the group waits.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException
from confluent_kafka import TopicPartition as Place

from ottla.base.ids import TopicPartition
from ottla.client.parallel.commits import Committer
from ottla.client.parallel.exchange import Exchange

_log = logging.getLogger(__name__)
_COMMITTED_TIMEOUT_S = 10.0
_COMMITTED_ATTEMPTS = 3


class Membership:
    def __init__(
        self, exchange: Exchange, committer: Committer, *, cooperative: bool, handover_timeout_s: float
    ) -> None:
        self._exchange = exchange
        self._committer = committer
        self._cooperative = cooperative
        self._handover_timeout_s = handover_timeout_s
        self.is_reading = True
        """False once the consumer is to read no more: what is assigned then starts paused."""

    def assigned(self, consumer: Consumer, places: list[Place]) -> None:
        # Without any partition nothing is to be asked, but librdkafka still wants to be told.
        known = _committed(consumer, places) if places else []
        with self._exchange.lock:
            for place in known:
                offset = place.offset if place.offset >= 0 else None
                self._exchange.scheduler.assign(_partition(place), offset, place.metadata)
        starts = [
            Place(place.topic, place.partition, place.offset if place.offset >= 0 else OFFSET_INVALID)
            for place in known
        ]
        if self._cooperative:
            consumer.incremental_assign(starts)
        else:
            consumer.assign(starts)
        # A partition that was paused when it left must not come back so.
        if starts:
            (consumer.resume if self.is_reading else consumer.pause)(starts)

    def revoked(self, consumer: Consumer, places: list[Place]) -> None:
        self.hand_over(consumer, [_partition(place) for place in places])

    def lost(self, _consumer: Consumer, places: list[Place]) -> None:
        partitions = [_partition(place) for place in places]
        _log.warning("lost %s: this member was out of touch with the group for too long", _text(partitions))
        with self._exchange.lock:
            self._exchange.scheduler.drop(partitions)

    def hand_over(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        scheduler = self._exchange.scheduler
        with self._exchange.lock:
            scheduler.close(partitions)
            ended = self._exchange.wait_for(
                lambda: not scheduler.running(partitions), self._handover_timeout_s
            )
            left = scheduler.running(partitions)
        if not ended:
            _log.warning(
                "%d handlers did not end within handover_timeout_s; their records come again to the next owner",
                left,
            )
        self._committer.finish(consumer, partitions)
        with self._exchange.lock:
            scheduler.drop(partitions)


def _committed(consumer: Consumer, places: list[Place]) -> list[Place]:
    """The places with the group's offsets and metadata; as they were when the cluster does not tell."""
    for attempt in range(1, _COMMITTED_ATTEMPTS + 1):
        try:
            return consumer.committed(places, timeout=_COMMITTED_TIMEOUT_S)
        except KafkaException as error:
            _log.warning("reading committed offsets failed (attempt %d): %s", attempt, error)
    # librdkafka asks again for the offsets itself; without metadata only more is repeated.
    return places


def _partition(place: Place) -> TopicPartition:
    return TopicPartition(place.topic, place.partition)


def _text(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(str(partition) for partition in partitions)
