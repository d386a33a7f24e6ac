"""One cluster object per process and settings: Spark reuses its worker processes, so connections live on between tasks.

A child of a fork inherits the objects; each of them notices and connects anew (`Cluster`). The lock is remade in the
child, because another thread of the parent may have held it.
"""

from __future__ import annotations

import os
import threading

from ottla.client.raw.cluster import Cluster
from ottla.client.raw.settings import ClientSettings


class _Kept:
    """The clusters of this process."""

    def __init__(self) -> None:
        self.clusters: dict[ClientSettings, Cluster] = {}
        self.lock = threading.Lock()

    def after_fork(self) -> None:
        self.lock = threading.Lock()


_kept = _Kept()
os.register_at_fork(after_in_child=_kept.after_fork)


def cluster_for(settings: ClientSettings) -> Cluster:
    """The cluster of these settings; shared, so nobody closes it."""
    with _kept.lock:
        found = _kept.clusters.get(settings)
        if found is None:
            found = _kept.clusters[settings] = Cluster(settings)
        return found


def close_all() -> None:
    """End all kept connections of this process."""
    with _kept.lock:
        for cluster in _kept.clusters.values():
            cluster.close()
        _kept.clusters.clear()
