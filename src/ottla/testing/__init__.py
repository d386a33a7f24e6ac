"""Clusters and brokers for tests of applications; the simulator and other tools for tests of Ottla itself.

Names are loaded when they are used: pytest imports this package in every run, for its plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.cluster import Cluster as Cluster

__all__ = ["Cluster"]


def __getattr__(name: str) -> Any:
    if name == "Cluster":
        from ottla.testing.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
