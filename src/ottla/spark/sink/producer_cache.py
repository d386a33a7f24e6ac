"""A cache of producers for at-least-once writes, reused by the tasks of a worker process.

A new producer would request a producer id in every batch, which adds a round trip, and each partition stores the state
of every producer id for a day. A producer is used by one task at a time. It is returned to the cache only if all its
requests have succeeded, because an error is final for a producer. After an idle time the cluster is checked first: a
broker may have been replaced by a new one on the same port.
"""

from __future__ import annotations

import os
from typing import Final

from ottla.client.raw import Cluster, RawProducer
from ottla.client.raw.settings import ClientSettings

IDLE_S: Final = 1.0
"""The idle time after which the cluster is checked."""


class ProducerCache:
    """The producers of this process that no task is using."""

    def __init__(self) -> None:
        self._kept: dict[ClientSettings, tuple[float, RawProducer]] = {}

    def clear(self) -> None:
        """Called in the child process of a fork: the producer ids belong to the parent."""
        self._kept.clear()

    def acquire(self, cluster: Cluster) -> RawProducer:
        since, producer = self._kept.pop(cluster.settings, (0.0, None))
        if producer is not None and since + IDLE_S <= cluster.clock.monotonic():
            cluster.brokers()
        if producer is None or not producer.is_known:
            producer = RawProducer(cluster)
            producer.init()
        return producer

    def release(self, cluster: Cluster, producer: RawProducer) -> None:
        self._kept[cluster.settings] = cluster.clock.monotonic(), producer


PRODUCERS: Final = ProducerCache()
os.register_at_fork(after_in_child=PRODUCERS.clear)
