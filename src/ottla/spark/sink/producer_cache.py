"""The producers that write at least once, kept from one task of a worker process to the next.

A new one would ask for a producer id in every batch, a question more on the way of each record, and every id is
remembered for a day by each partition that it has written to. A task has its producer for itself; only one that did
all it was asked to is given back, since an error is final for a producer. After a pause it is asked first whether it is
still the same cluster: on a laptop, a broker may have been replaced by a new one on the same port.
"""

from __future__ import annotations

import os
from typing import Final

from ottla.client.raw import Cluster, RawProducer
from ottla.client.raw.settings import ClientSettings

PAUSE_S: Final = 1.0
"""How long a producer may lie idle before that."""


class ProducerCache:
    """The producers of this process that no task has."""

    def __init__(self) -> None:
        self._kept: dict[ClientSettings, tuple[float, RawProducer]] = {}

    def forget(self) -> None:
        """In the child of a fork: the ids are the parent's."""
        self._kept.clear()

    def take(self, cluster: Cluster) -> RawProducer:
        since, producer = self._kept.pop(cluster.settings, (0.0, None))
        if producer is not None and since + PAUSE_S <= cluster.clock.monotonic():
            cluster.brokers()
        if producer is None or not producer.is_known:
            producer = RawProducer(cluster)
            producer.init()
        return producer

    def release(self, cluster: Cluster, producer: RawProducer) -> None:
        self._kept[cluster.settings] = cluster.clock.monotonic(), producer


PRODUCERS: Final = ProducerCache()
os.register_at_fork(after_in_child=PRODUCERS.forget)
