"""The parts of a node that request handlers can declare as dependencies, for each type of listener.

Only `broker.registry` reads them: it gives each handler the fields that the handler declares and nothing
else. `tests/unit/broker/test_dependencies.py` checks that the declared names exist and have the declared types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.base.clock import Clock
    from ottla.base.errors import StorageFault
    from ottla.base.executor import Executor
    from ottla.base.files import Disk
    from ottla.base.promise import Promise
    from ottla.base.rng import Random
    from ottla.broker.authorization import Authorization
    from ottla.broker.coordination.coordinators import GroupCoordinator, TxnCoordinator
    from ottla.broker.coordination.marker_sender import LocalMarkerSender
    from ottla.broker.coordination.producer_ids import ProducerIds
    from ottla.broker.coordination.verification import TxnVerifier
    from ottla.broker.fetch.sessions import FetchSessions
    from ottla.broker.forwarding.config_resources import StoreCheck
    from ottla.broker.forwarding.envelope import EnvelopeServer
    from ottla.broker.forwarding.forwarder import Forwarder
    from ottla.broker.metrics.telemetry import ClientTelemetry
    from ottla.broker.net.read_buffers import ReadBuffers
    from ottla.broker.purgatory import Purgatory
    from ottla.broker.quotas import Quotas
    from ottla.broker.registry import ListedApis
    from ottla.config.broker import BrokerConfig
    from ottla.config.dynamic import DynamicConfig
    from ottla.controller.port import ControllerPort
    from ottla.metadata.image import MetadataImage
    from ottla.quorum.quorum import QuorumStatus
    from ottla.replication.log_moves import LogMoves
    from ottla.replication.replicas import Replicas
    from ottla.storage.log_dirs import LogDirs
    from ottla.wire.schema import Message


class MetadataCache:
    """The newest metadata image that this node has applied. The node replaces `image` at every change."""

    __slots__ = ("image",)

    def __init__(self, image: MetadataImage) -> None:
        self.image = image


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDependencies:
    """The parts of one node that handlers of both types of listeners use."""

    cluster_id: str
    node_id: int
    config: BrokerConfig
    """The settings with which the node was started."""
    metadata: MetadataCache
    finalized_features: Callable[[], Mapping[str, int]]
    """Finalized feature levels, kraft.version included; their epoch is the offset of the image."""
    controller: ControllerPort
    listed_apis: ListedApis
    authorization: Authorization
    """Decides what the client of a request may do."""
    quotas: Quotas


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerDependencies(SharedDependencies):
    """The parts that handlers of the controller listener use, created by `node.quorum.controller_server`."""

    envelopes: EnvelopeServer
    """Handles requests that brokers forward."""
    quorum_requests: Callable[[Message], Promise[Message]]
    """Handle a request of another replica of the quorum."""
    quorum_status: Callable[[], QuorumStatus]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies(SharedDependencies):
    """The parts of one broker, created by `node.broker_node`."""

    forwarder: Forwarder
    """Sends requests of clients to the active controller."""
    check_stores: StoreCheck
    """Checks key stores before settings that name them are written."""
    settings: DynamicConfig
    """The current settings."""
    clock: Clock
    rng: Random
    disk: Disk
    executor: Executor
    replicas: Replicas
    log_dirs: LogDirs
    log_moves: LogMoves
    purgatory: Purgatory
    fetch_sessions: FetchSessions
    fetch_bytes_max: int
    read_buffers: ReadBuffers
    on_fault: Callable[[StorageFault], None]
    """Take the log directory offline that could not be read."""
    producer_ids: ProducerIds
    groups: GroupCoordinator
    transactions: TxnCoordinator
    markers: LocalMarkerSender
    verifier: TxnVerifier
    telemetry: ClientTelemetry | None
    """The metrics that clients push; None without an endpoint for metrics."""
