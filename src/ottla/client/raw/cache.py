"""Cache of one `Cluster` per process and settings: Spark reuses worker processes, so tasks share connections.

A forked child inherits the objects; each `Cluster` detects this and opens new connections. The lock is replaced in
the child, because another thread of the parent may hold it. The cache is module-level state on purpose: it belongs
to a process of Spark, never to a node.
"""

from __future__ import annotations

import os
import threading

from ottla.base.lazy_log import LazyLogger
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.settings import ClientSettings

_log = LazyLogger()


class _Cache:
    """The clusters of this process, by their settings."""

    def __init__(self) -> None:
        self.clusters: dict[ClientSettings, Cluster] = {}
        self.lock = threading.Lock()

    def after_fork(self) -> None:
        self.lock = threading.Lock()


_cache = _Cache()
os.register_at_fork(after_in_child=_cache.after_fork)


def cluster_for(settings: ClientSettings) -> Cluster:
    """The shared cluster of these settings. Callers do not close it."""
    with _cache.lock:
        found = _cache.clusters.get(settings)
        if found is None:
            found = _cache.clusters[settings] = Cluster(settings, on_unreachable=_warn)
        return found


def _warn(text: str) -> None:
    """Spark shows what its Python processes print."""
    _log.warning("no broker can be reached", reason=text)


def close_all() -> None:
    """Close all cached clusters of this process."""
    with _cache.lock:
        for cluster in _cache.clusters.values():
            cluster.close()
        _cache.clusters.clear()
