"""The follower's part of a node: replica fetchers with connections of their own to the leaders.

A fetch waits at the leader for records, so no other request shares its connection.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.base.clock import Clock
from ottla.broker.forwarding.peer_addresses import PeerAddresses
from ottla.broker.replica.fetchers import ReplicaFetchers
from ottla.broker.replica.ports import FetcherEnvironment, Loop, TruncatableLogs
from ottla.broker.replica.settings import ReplicaFetchSettings
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.peer.connection import Environment
from ottla.peer.errors import PeerError
from ottla.peer.peers import Peers
from ottla.peer.settings import PeerSettings
from ottla.replication.partition import Partition
from ottla.replication.quota import ReplicationQuota
from ottla.replication.replicas import Replicas
from ottla.storage.log.log import Log


class Following:
    """Follows the leaders of all partitions of this broker, at their inter-broker listeners."""

    def __init__(
        self,
        node_id: int,
        listener_name: str,
        replicas: Replicas,
        logs: TruncatableLogs,
        schedule: Callable[[Log], None],
        settings: ReplicaFetchSettings,
        broker_epoch: Callable[[], int],
        quota: ReplicationQuota,
        on_replaced: Callable[[Partition], None],
        *,
        clock: Clock,
        loop: Loop,
        environment: Environment,
    ) -> None:
        self._peers = Peers(
            PeerSettings(client_id=f"broker-{node_id}-replica-fetcher"), environment, _IgnoredEvidence()
        )
        self._addresses = PeerAddresses(node_id, listener_name, self._peers)
        self._fetchers = ReplicaFetchers(
            replicas,
            FetcherEnvironment(
                node_id,
                self._peers,
                logs,
                schedule,
                clock,
                loop,
                settings,
                broker_epoch,
                quota,
                on_replaced,
            ),
        )

    def load(self, image: MetadataImage) -> None:
        """Follow the leaders in an image, at the start; `Replicas` has loaded it."""
        self._addresses.load(image)
        self._fetchers.load(image)

    def changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follow a change of the metadata, after `Replicas`."""
        self._addresses.apply(delta, image)
        self._fetchers.apply(delta, image)

    def served(self, partition: Partition) -> None:
        """Follow a partition that is served from now on."""
        self._fetchers.served(partition)

    def close(self) -> None:
        """Stop fetching and close the connections."""
        self._fetchers.close()
        self._peers.close()


class _IgnoredEvidence:
    """A lost connection fails its fetch; the controller decides about brokers."""

    def on_connected(self, node_id: int) -> None:
        """Do nothing."""

    def on_disconnected(self, node_id: int, error: PeerError) -> None:
        """Do nothing."""
