"""All metrics of a broker: what is collected before a scrape, and the text of a scrape."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import structlog

from ottla.broker.metrics.group_metrics import group_families
from ottla.broker.metrics.node_metrics import (
    LoopIdle,
    RaftRates,
    RaftState,
    connection_families,
    controller_families,
    process_families,
    raft_families,
    replica_families,
    request_families,
)
from ottla.broker.metrics.partition_metrics import cluster_families, partition_families, topic_families
from ottla.broker.metrics.quota_metrics import quota_families

if TYPE_CHECKING:
    from ottla.broker.dependencies import MetadataCache
    from ottla.broker.metrics.group_lag import GroupLag
    from ottla.broker.metrics.request_times import RequestTimes
    from ottla.broker.metrics.telemetry import ClientTelemetry
    from ottla.broker.net.edge import Edge
    from ottla.broker.quotas import Quotas
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage
    from ottla.replication.replicas import Replicas
    from ottla.storage.log_dirs import LogDirs

_log = structlog.get_logger(__name__)
_LAG_TIMEOUT_S: Final = 5.0


class BrokerMetrics:
    """The metrics of one broker. `is_controller` is whether the node has that role too."""

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        replicas: Replicas,
        log_dirs: LogDirs,
        metadata: MetadataCache,
        edge: Edge,
        times: RequestTimes,
        lag: GroupLag,
        telemetry: ClientTelemetry,
        quotas: Quotas,
        raft: Callable[[], RaftState],
        *,
        is_controller: bool,
    ) -> None:
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._replicas = replicas
        self._log_dirs = log_dirs
        self._metadata = metadata
        self._edge = edge
        self._times = times
        self._lag = lag
        self._telemetry = telemetry
        self._quotas = quotas
        self._raft = raft
        self._is_controller = is_controller
        self._idle = LoopIdle()
        self._raft_rates = RaftRates()
        self._unclean_elections = 0

    async def prepare(self) -> None:
        """Collect what needs requests to other brokers or reads of logs."""
        try:
            await asyncio.wait_for(self._lag.refresh(), _LAG_TIMEOUT_S)
        except Exception as error:  # noqa: BLE001 - a scrape without the newest lag is better than none
            _log.warning("the lag of groups is not collected", reason=repr(error))

    def write(self) -> Iterator[str]:
        """The text of a scrape, in pieces between which everything may change."""
        partitions = list(self._replicas)
        image = self._metadata.image
        raft = self._raft()
        offline = sum(not each.online for each in self._log_dirs.dirs)
        yield from cluster_families(image, self._node_id)
        yield from replica_families(partitions, offline)
        if self._is_controller:
            active = raft.leader == self._node_id
            yield from controller_families(image, active=active, unclean_elections=self._unclean_elections)
        yield from raft_families(raft)
        yield from self._raft_rates.families(raft, time.monotonic_ns())
        yield from connection_families(list(self._edge.connections))
        yield from self._idle.families()
        yield from process_families()
        yield from request_families(self._times)
        yield from quota_families(self._quotas)
        yield from topic_families(partitions)
        yield from partition_families(partitions)
        yield from group_families(self._lag.partitions, self._lag.members, self._cluster_id)
        yield from self._telemetry.families()

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Count unclean elections while the controller of this node is active."""
        if self._is_controller and self._raft().leader == self._node_id:
            self._unclean_elections += unclean_elections(delta, image)


def unclean_elections(delta: MetadataDelta, image: MetadataImage) -> int:
    """How many partitions of a change got a leader that was neither in the ISR nor eligible."""
    count = 0
    for topic_id in delta.changed_topics:
        before = delta.base.topics.by_id.get(topic_id)
        after = image.topics.by_id.get(topic_id)
        if before is None or after is None:
            continue
        for index in delta.changed_partitions(topic_id):
            old, new = before.partitions.get(index), after.partitions.get(index)
            if old is None or new is None or new.leader in (-1, old.leader):
                continue
            in_sync = (*old.isr, *old.eligible_leader_replicas)
            count += new.leader not in in_sync and new.isr == (new.leader,)
    return count
