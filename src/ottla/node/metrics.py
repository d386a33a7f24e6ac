"""The endpoint of metrics of a node: its parts, its connections to other brokers, start and stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.broker.forwarding.peer_addresses import PeerAddresses
from ottla.broker.metrics.broker_metrics import BrokerMetrics
from ottla.broker.metrics.controller_metrics import ControllerMetrics
from ottla.broker.metrics.group_lag import GroupLag
from ottla.broker.metrics.node_metrics import RaftState
from ottla.broker.metrics.server import MetricsServer
from ottla.node.settings.quorum_config import Role
from ottla.peer.errors import PeerError
from ottla.peer.peers import Peers
from ottla.peer.settings import PeerSettings

if TYPE_CHECKING:
    from ottla.base.clock import Clock
    from ottla.base.executor import Executor
    from ottla.broker.coordination.coordinators import GroupCoordinator
    from ottla.broker.dependencies import MetadataCache
    from ottla.broker.metrics.request_times import RequestTimes
    from ottla.broker.metrics.telemetry import ClientTelemetry
    from ottla.broker.net.connection import Connection
    from ottla.broker.net.edge import Edge
    from ottla.broker.quotas import Quotas
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage
    from ottla.node.quorum.metadata import MetadataNode
    from ottla.node.settings.config import NodeConfig
    from ottla.peer.connection import Environment
    from ottla.replication.replicas import Replicas
    from ottla.storage.log_dirs import LogDirs


class MetricsEndpoint:
    """The endpoint of one broker."""

    def __init__(
        self,
        config: NodeConfig,
        cluster_id: str,
        metadata: MetadataNode,
        cache: MetadataCache,
        replicas: Replicas,
        log_dirs: LogDirs,
        groups: GroupCoordinator,
        edge: Edge,
        times: RequestTimes,
        telemetry: ClientTelemetry,
        quotas: Quotas,
        *,
        clock: Clock,
        executor: Executor,
        environment: Environment,
    ) -> None:
        self._node_id = config.node_id
        self._metadata = metadata
        settings = PeerSettings(client_id=f"broker-{config.node_id}-metrics")
        self._peers = Peers(settings, environment, self)
        self._addresses = PeerAddresses(config.node_id, config.inter_broker_listener, self._peers)
        self._addresses.load(cache.image)
        lag = GroupLag(config.node_id, groups, replicas, cache, self._peers, clock, executor)
        self._metrics = BrokerMetrics(
            config.node_id,
            cluster_id,
            replicas,
            log_dirs,
            cache,
            edge,
            times,
            lag,
            telemetry,
            quotas,
            self._raft,
            is_controller=Role.CONTROLLER in config.roles,
        )
        loop = asyncio.get_running_loop()
        self._server = MetricsServer(loop, self._metrics.prepare, self._metrics.write)

    async def start(self, port: int) -> int:
        """Listen; returns the port. Raises LocalError if that is impossible."""
        return await self._server.start(port)

    def changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follow a change of the metadata."""
        self._addresses.apply(delta, image)
        self._metrics.metadata_changed(delta, image)

    def close(self) -> None:
        self._server.close()
        self._peers.close()

    def _raft(self) -> RaftState:
        return _raft_state(self._node_id, self._metadata)

    def on_connected(self, node_id: int) -> None:
        """Do nothing: the failure of a connection fails its requests."""

    def on_disconnected(self, node_id: int, error: PeerError) -> None:
        """Do nothing: the failure of a connection fails its requests."""


class ControllerEndpoint:
    """The endpoint of a node that is a controller only."""

    def __init__(
        self, node_id: int, metadata: MetadataNode, connections: Callable[[], Iterable[Connection]]
    ) -> None:
        publisher = metadata.publisher
        metrics = ControllerMetrics(
            node_id,
            lambda: publisher.image,
            lambda: _raft_state(node_id, metadata),
            connections,
        )
        publisher.add_listener(metrics.metadata_changed)
        self._server = MetricsServer(asyncio.get_running_loop(), metrics.prepare, metrics.write)

    async def start(self, port: int) -> int:
        """Listen; returns the port. Raises LocalError if that is impossible."""
        return await self._server.start(port)

    def close(self) -> None:
        self._server.close()


def _raft_state(node_id: int, metadata: MetadataNode) -> RaftState:
    quorum, publisher = metadata.quorum, metadata.publisher
    leader = quorum.leader_id
    if leader == node_id:
        state = "leader"
    elif leader < 0:
        state = "unattached"
    else:
        state = "follower" if quorum.is_voter else "observer"
    return RaftState(
        leader, publisher.image.epoch, state, publisher.applied_offset + 1, quorum.log_end_offset
    )
