"""Carries the scheduler's offsets to the cluster: now and then without waiting, at a hand-over waiting.

One commit without waiting is on its way at a time, so a late answer never speaks of an older offset. A refusal is
no failure: the offsets are offered again with the next commit, and after a rebalance by whoever has the partition.
A cluster that takes less metadata than was thought gets less.

Poll thread only: librdkafka answers from within `poll`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from ottla.base.ids import TopicPartition
from ottla.client.parallel.exchange import Exchange
from ottla.client.parallel.scheduler import Commit

_log = logging.getLogger(__name__)


class Committer:
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._on_its_way = False

    def begin(self, consumer: Consumer) -> None:
        """Commit what is new, without waiting; `answered` gets the answer."""
        if self._on_its_way:
            return
        commits = self._collect(None)
        if not commits:
            return
        try:
            consumer.commit(offsets=_places(commits), asynchronous=True)
        except KafkaException as error:
            self._refused(commits, error)
        else:
            self._on_its_way = True

    def answered(self, error: KafkaError | None, places: Sequence[Place]) -> None:
        self._on_its_way = False
        self._note(error, places)

    def finish(self, consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        """Commit what is new in these partitions, and wait for the answer."""
        partitions = list(partitions)
        while commits := self._collect(partitions):
            try:
                places = consumer.commit(offsets=_places(commits), asynchronous=False)
            except KafkaException as error:
                self._refused(commits, error)
                again = _is_metadata_too_large(error.args[0])
            else:
                again = self._note(None, places)
            if not again:
                return

    def _collect(self, partitions: list[TopicPartition] | None) -> list[Commit]:
        with self._exchange.lock:
            return self._exchange.scheduler.commits(partitions)

    def _refused(self, commits: list[Commit], error: KafkaException) -> None:
        self._note(error.args[0], _places(commits))

    def _note(self, error: KafkaError | None, places: Sequence[Place]) -> bool:
        """Note the answer; True when it is worth asking again at once."""
        again = False
        with self._exchange.lock:
            scheduler = self._exchange.scheduler
            for place in places:
                refusal = error or place.error
                partition = TopicPartition(place.topic, place.partition)
                if refusal is None:
                    scheduler.committed(Commit(partition, place.offset, place.metadata or ""))
                    continue
                scheduler.commit_failed(partition)
                if _is_metadata_too_large(refusal):
                    again = True
                else:
                    _log.warning("offset %d of %s was not committed: %s", place.offset, partition, refusal)
            if again:
                again = scheduler.shrink_metadata()
        return again


def _places(commits: list[Commit]) -> list[Place]:
    return [
        Place(commit.partition.topic, commit.partition.partition, commit.offset, metadata=commit.metadata)
        for commit in commits
    ]


def _is_metadata_too_large(error: KafkaError) -> bool:
    return bool(error.code() == KafkaError.OFFSET_METADATA_TOO_LARGE)
