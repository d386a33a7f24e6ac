"""Everything a request handler may use, in one place, so that no handler needs to know who built it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.base.clock import Clock
    from ottla.base.executor import Executor
    from ottla.base.files import Disk
    from ottla.base.rng import Random
    from ottla.broker.coordination.coordinators import GroupCoordinator, TxnCoordinator
    from ottla.broker.coordination.marker_sender import LocalMarkers
    from ottla.broker.coordination.producer_ids import ProducerIds
    from ottla.broker.coordination.verification import Verifier
    from ottla.broker.fetch.sessions import FetchSessions
    from ottla.broker.net.read_buffers import ReadBuffers
    from ottla.broker.purgatory import Purgatory
    from ottla.config.broker import BrokerConfig
    from ottla.config.dynamic import DynamicConfig
    from ottla.controller.port import ControllerPort
    from ottla.metadata.image import MetadataImage
    from ottla.replication.replicas import Replicas
    from ottla.storage.log_dirs import LogDirs


class Broker:
    """The parts of one broker, set by `node.build`. `image` is replaced whenever the metadata log moves on."""

    cluster_id: str
    node_id: int
    config: BrokerConfig
    """As written down at the start."""
    settings: DynamicConfig
    """As they are in force now."""
    clock: Clock
    rng: Random
    disk: Disk
    executor: Executor
    image: MetadataImage
    controller: ControllerPort
    finalized_features: Callable[[], Mapping[str, int]]
    """Finalized feature levels, kraft.version included; their epoch is `image.offset`."""
    replicas: Replicas
    log_dirs: LogDirs
    purgatory: Purgatory
    sessions: FetchSessions
    producer_ids: ProducerIds
    groups: GroupCoordinator
    transactions: TxnCoordinator
    markers: LocalMarkers
    verifier: Verifier
    read_buffers: ReadBuffers
    fetch_bytes_max: int
    storage_failed: Callable[[str, OSError], None]
    """A log directory could not be read: take it offline."""
