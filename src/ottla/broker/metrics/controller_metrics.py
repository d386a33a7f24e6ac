"""All metrics of a node that is a controller only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.broker.metrics.broker_metrics import unclean_elections
from ottla.broker.metrics.node_metrics import (
    LoopIdle,
    RaftRates,
    RaftState,
    connection_families,
    controller_families,
    process_families,
    raft_families,
)

if TYPE_CHECKING:
    from ottla.broker.net.connection import Connection
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage


class ControllerMetrics:
    """The metrics of one controller; functions return what changes."""

    def __init__(
        self,
        node_id: int,
        image: Callable[[], MetadataImage],
        raft: Callable[[], RaftState],
        connections: Callable[[], Iterable[Connection]],
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._raft = raft
        self._connections = connections
        self._idle = LoopIdle()
        self._raft_rates = RaftRates()
        self._unclean_elections = 0

    async def prepare(self) -> None:
        """Do nothing: all values are in memory."""

    def write(self) -> Iterator[str]:
        """The text of a scrape, in pieces between which everything may change."""
        raft = self._raft()
        active = raft.leader == self._node_id
        yield from controller_families(
            self._image(), active=active, unclean_elections=self._unclean_elections
        )
        yield from raft_families(raft)
        yield from self._raft_rates.families(raft, time.monotonic_ns())
        yield from connection_families(list(self._connections()))
        yield from self._idle.families()
        yield from process_families()

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Count unclean elections while the controller of this node is active."""
        if self._raft().leader == self._node_id:
            self._unclean_elections += unclean_elections(delta, image)
