"""The broker role of a node: logs, replicas, coordinators, and the server for clients and other brokers.

Order of the start: open the logs, with recovery after an unclean stop; bind the sockets, so that the ports are known;
register; open the replicas and set stray logs aside, both by an image that contains the registration; be unfenced;
serve clients and load the coordinators.

Order of the stop: move leaderships to other brokers; stop periodic tasks; coordinators fail waiting requests; no new
connections; finish requests in flight; wait for writes. The node then closes the metadata log, and `close` closes the
logs, with checkpoints and the clean-shutdown marker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.base.errors import InvariantViolation, LocalError
from ottla.base.ids import TopicPartition, Uuid
from ottla.base.promise import Promise
from ottla.base.settled import settled
from ottla.broker.coordination.coordination_peers import CoordinationPeers
from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.coordination.lease import HeartbeatLease, PermanentLease
from ottla.broker.coordination.producer_ids import ProducerIds
from ottla.broker.dependencies import Dependencies, MetadataCache
from ottla.broker.fetch.sessions import FetchSessions
from ottla.broker.handlers import load_all
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.metrics.request_times import RequestTimes
from ottla.broker.metrics.telemetry import ClientTelemetry
from ottla.broker.net.edge import Edge
from ottla.broker.net.limits import Limits
from ottla.broker.net.listeners import Listener, ListenerType
from ottla.broker.net.read_buffers import ReadBuffers
from ottla.broker.net.server import Server
from ottla.broker.purgatory import Purgatory
from ottla.broker.quotas import REPLICATION_RATES, Quotas
from ottla.broker.registry import Handlers, ListedApis, Route
from ottla.broker.replica.following import Following
from ottla.broker.replica.settings import ReplicaFetchSettings
from ottla.broker.router import Router
from ottla.broker.turn import Turn
from ottla.coordinator.runtime.ports import LeadershipLease
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.metadata.publisher import MetadataPublisher
from ottla.node.membership.broker_state import BrokerState, LifecycleSettings
from ottla.node.membership.directories import DirectoryReports
from ottla.node.membership.lifecycle import BrokerLifecycle, registration
from ottla.node.security.authentication import node_login, sasl_listeners
from ottla.peer.peers import peer_environment
from ottla.replication.cluster_view import ClusterView
from ottla.replication.isr_requests import IsrRequests
from ottla.replication.log_moves import LogMoves
from ottla.replication.readable_partition import is_rack_aware
from ottla.replication.replicas import Replicas
from ottla.storage.cleaning.cleaner import Cleaner, CleanerConfig
from ottla.storage.commit.cache_release import CacheRelease
from ottla.storage.commit.group_commit import GroupCommit
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log_move import MoveEnvironment
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ottla.broker.authorization import Authorization
    from ottla.config.dynamic import DynamicConfig
    from ottla.metadata.delta import MetadataDelta
    from ottla.node.machine import Machine
    from ottla.node.membership.controller_link import ControllerLink
    from ottla.node.metrics import MetricsEndpoint
    from ottla.node.quorum.metadata import MetadataNode
    from ottla.node.security.tls import NodeTls
    from ottla.node.settings.config import NodeConfig
    from ottla.replication.partition import Partition
    from ottla.storage.log_dir import LogDir
    from ottla.storage.log_dirs import LogDirs

_DRAIN_SECONDS: Final = 10.0
_SEARCH_SECONDS: Final = 1.0
"""How long a request of a client may wait for an active controller while this node stops."""
_ALTER_PARTITION_SECONDS: Final = 5.0
"""After this time a change of the ISR is proposed again, if it is still wanted."""


class BrokerNode:
    """The broker parts of one node. `metadata` is started before `start` and stopped before `close`."""

    def __init__(
        self,
        config: NodeConfig,
        cluster_id: str,
        machine: Machine,
        settings: DynamicConfig,
        log_dirs: LogDirs,
        metadata: MetadataNode,
        link: ControllerLink,
        authorization: Authorization,
        quotas: Quotas,
        on_violation: Callable[[InvariantViolation], None],
        log: FilteringBoundLogger,
        tls: NodeTls,
    ) -> None:
        self._config = config
        self._cluster_id = cluster_id
        self._machine = machine
        self._loop = asyncio.get_running_loop()
        self._clock, self._rng, self._disk = machine.clock, machine.rng, machine.disk
        self._executor = machine.executor
        self._settings = settings
        self._log_dirs = log_dirs
        self._metadata = metadata
        self._link, self._authorization = link, authorization
        self._quotas = quotas
        self._violated = on_violation
        self._log = log
        self._reports: DirectoryReports | None = None
        self._metrics: MetricsEndpoint | None = None
        measured = config.metrics_port is not None
        self._request_times = RequestTimes(self._loop.time) if measured else None
        self._telemetry = ClientTelemetry(self._loop.time) if measured else None
        self._tls = tls
        login = node_login(config.sasl.inter_broker, machine)
        self._peer_environment = peer_environment(
            self._loop, machine.connect, machine.rng, tls.brokers, login
        )
        self.lifecycle = BrokerLifecycle(
            config.node_id,
            link.heartbeats,
            metadata.publisher,
            self._loop,
            machine.rng,
            LifecycleSettings.from_config(config.broker),
        )
        settings.update(metadata.publisher.image.configs)
        log_dirs.keep_producers(settings.int("producer.id.expiration.ms"))
        self._turn = Turn(self._loop)
        rack_aware = is_rack_aware(config.broker.text("replica.selector.class"))
        self._group_commit = GroupCommit(
            self._executor,
            self._clock,
            defer=self._turn.write,
            on_progress=lambda log: self.replicas.progressed(log),  # noqa: PLW0108 - the two refer to each other
            on_fault=log_dirs.fail,
            on_start=lambda log: self.replicas.write_started(log),  # noqa: PLW0108 - as above
            writer=machine.writer,
            cache_release=None if rack_aware else CacheRelease(self._executor, log_dirs.fail),
        )
        self.replicas = Replicas(
            config.node_id,
            log_dirs,
            self._clock,
            self._group_commit.schedule,
            self._log_config,
            self._replica_failed,
            self._make_cluster_view(),
        )

    async def start(self) -> list[Listener]:
        """Start the broker; returns its listeners with their real ports."""
        metadata = self._metadata
        self._cleaner = self._make_cleaner()
        self._log_dirs.watch(self._cleaner)
        self.coordinators = Coordinators(
            self._config.node_id,
            self.replicas,
            self._settings,
            clock=self._clock,
            rng=self._rng,
            loop=self._loop,
            lease=self._make_lease(),
            peers=CoordinationPeers(
                self._config.node_id,
                self._config.inter_broker_listener,
                self._peer_environment,
            ),
        )
        self._following = self._make_following()
        self._metadata_cache = MetadataCache(metadata.publisher.image)
        self._log_moves = self._make_log_moves()
        self._edge = self._make_edge(metadata)
        self._server = Server(self._edge, self._machine.listen, self._quotas)
        self._set_connection_rates()
        self._quotas.set_replication_rates(self._settings)
        # Several nodes learn the settings in the metadata after their registration.
        self._settings.subscribe(self._settings_changed)
        listeners = self._server.bind(self._config.listeners)
        await settled(
            self.lifecycle.start(
                registration(self._config, self._cluster_id, listeners, self._log_dirs.dirs, self._rng)
            )
        )
        # Not earlier: recovery depends on the settings of the topics, and a broker that did not stop cleanly must not
        # be in an ISR any more when its logs are cut.
        await self._load_logs(metadata.publisher.image)
        image = await self._follow(metadata.publisher)
        self._reports = DirectoryReports(
            self._config.node_id,
            lambda: self.lifecycle.broker_epoch,
            self._log_dirs,
            self.replicas,
            self._link.requests,
            self._loop,
            self._log,
        )
        self._reports.assigned(image, image.topics.by_id)
        self._log_moves.resume()
        await settled(self.lifecycle.ready())
        self._start_housekeeping()
        self._server.serve()
        await self._start_metrics()
        # Partitions whose leader does not change from now on are in no delta: load them from the image.
        self.coordinators.load(metadata.publisher.image)
        return listeners

    async def _start_metrics(self) -> None:
        """Serve metrics, if a port for them is set."""
        port, times, telemetry = self._config.metrics_port, self._request_times, self._telemetry
        if port is None or times is None or telemetry is None:
            return
        from ottla.node.metrics import MetricsEndpoint

        self._metrics = MetricsEndpoint(
            self._config,
            self._cluster_id,
            self._metadata,
            self._metadata_cache,
            self.replicas,
            self._log_dirs,
            self.coordinators.groups,
            self._edge,
            times,
            telemetry,
            self._quotas,
            clock=self._clock,
            executor=self._executor,
            environment=self._peer_environment,
        )
        port = await self._metrics.start(port)
        self._log.info("metrics are served", address=f"http://127.0.0.1:{port}/metrics")

    async def _follow(self, publisher: MetadataPublisher) -> MetadataImage:
        """Lead and set strays aside by the current image, and follow each change from now on."""
        self._metadata_cache.image = publisher.image
        self._settings.update(publisher.image.configs)
        await settled(self._log_dirs.set_copies_aside(partial(self._directory_of, publisher.image)))
        loaded = self.replicas.load(publisher.image)
        publisher.add_listener(self._metadata_changed)
        await settled(loaded)
        self._following.load(publisher.image)
        self.replicas.on_served.append(self._following.served)
        # The image may have moved meanwhile: a log of a topic that is new in it is not a stray.
        await self._set_strays_aside(publisher.image)
        return publisher.image

    async def stop(self) -> None:
        """Move leaderships to other brokers, stop serving and wait for all writes."""
        if self._config.broker.bool("controlled.shutdown.enable"):
            await settled(self.lifecycle.controlled_shutdown())
        self.lifecycle.close()
        self._link.forwarding.end_search(_SEARCH_SECONDS)
        if self._metrics is not None:
            self._metrics.close()
        if self._reports is not None:
            self._reports.close()
        self._following.close()
        self._housekeeping.stop()
        self._cleaner.stop()
        await settled(self._log_moves.stop())
        self.coordinators.close()
        drained = asyncio.Event()
        self._server.stop(drained.set)
        try:
            await asyncio.wait_for(drained.wait(), _DRAIN_SECONDS)
        except TimeoutError:
            self._log.warning("some requests were not finished in time; their connections are closed")
            self._server.abort()
        idle = asyncio.Event()
        self._group_commit.when_idle(idle.set)
        await idle.wait()

    async def close(self) -> None:
        """Close the logs as a clean stop does."""
        await settled(self._log_dirs.close(self._clock.now_ms(), self.lifecycle.broker_epoch))

    def directory_failed(self, directory: LogDir) -> None:
        """A log directory is offline."""
        self.replicas.directory_failed(directory.path)
        if self.lifecycle.state is not BrokerState.NOT_RUNNING:
            self.lifecycle.directory_failed(directory.directory_id)

    async def _load_logs(self, image: MetadataImage) -> None:
        """Open the logs of all directories, and recover them after an unclean stop."""
        self._settings.update(image.configs)
        await settled(self._log_dirs.load(lambda tp: self._log_config(image, tp.topic), self._clock.now_ms()))
        if not any(each.online for each in self._log_dirs.dirs):
            reasons = "; ".join(str(each.fault) for each in self._log_dirs.dirs)
            raise LocalError(f"no log directory is usable: {reasons}")

    def _directory_of(self, image: MetadataImage, tp: TopicPartition) -> Uuid | None:
        """The directory of this broker to which the metadata assigns a replica; None if there is no such replica."""
        topic = image.topics.by_name.get(tp.topic)
        partition = None if topic is None else topic.partitions.get(tp.partition)
        node_id = self._config.node_id
        if partition is None or node_id not in partition.replicas:
            return None
        return partition.directory_of(node_id)

    async def _set_strays_aside(self, image: MetadataImage) -> None:
        """Rename logs of partitions that were deleted or moved while this broker was down or a directory offline."""
        by_name = image.topics.by_name
        strays = [
            log.topic_partition
            for log in self._log_dirs.logs()
            if (topic := by_name.get(log.topic_partition.topic)) is None
            or (partition := topic.partitions.get(log.topic_partition.partition)) is None
            or self._config.node_id not in partition.replicas
        ]
        await settled(self._log_dirs.set_aside(strays))

    # The parts

    def _make_edge(self, metadata: MetadataNode) -> Edge:
        """Create the handlers with their dependencies, and the router of the listeners for clients and brokers."""
        routes = [route for route in load_all() if ListenerType.BROKER in route.listeners]
        handlers = Handlers(routes, self._dependencies(metadata, self._listed_apis(routes)), self._loop)
        router = Router(
            handlers.on(ListenerType.BROKER),
            self._violated,
            self._log,
            forwarder=self._link.forwarder,
            quotas=self._quotas,
            audited=self._authorization.enabled,
        )
        limits = Limits.from_config(self._settings)
        handled = {ListenerType.BROKER: router}
        sasl = sasl_listeners(self._config, lambda: self._metadata_cache.image, self._machine, self._log)
        return Edge(
            self._loop,
            limits,
            handled,
            self._log,
            self._request_times,
            self._tls.listeners(),
            sasl,
            self._turn,
            self._machine.sends,
        )

    def _listed_apis(self, routes: list[Route]) -> ListedApis:
        return ListedApis(routes, self._config.broker, telemetry=self._telemetry is not None)

    def _dependencies(self, metadata: MetadataNode, listed_apis: ListedApis) -> Dependencies:
        sessions_max = self._config.broker.int("max.incremental.fetch.session.cache.slots")
        return Dependencies(
            cluster_id=self._cluster_id,
            node_id=self._config.node_id,
            config=self._config.broker,
            settings=self._settings,
            clock=self._clock,
            rng=self._rng,
            disk=self._disk,
            executor=self._executor,
            metadata=self._metadata_cache,
            finalized_features=metadata.publisher.finalized_features,
            controller=metadata.controller,
            forwarder=self._link.forwarder,
            check_stores=self._tls.check,
            replicas=self.replicas,
            log_dirs=self._log_dirs,
            log_moves=self._log_moves,
            purgatory=Purgatory(self._loop, self._turn),
            fetch_sessions=FetchSessions(self._rng, sessions_max),
            fetch_bytes_max=self._config.broker.int("fetch.max.bytes"),
            read_buffers=ReadBuffers(),
            on_fault=self._log_dirs.fail,
            producer_ids=ProducerIds(
                self._link.requests, self._config.node_id, lambda: self.lifecycle.broker_epoch
            ),
            groups=self.coordinators.groups,
            transactions=self.coordinators.transactions,
            markers=self.coordinators.markers,
            verifier=self.coordinators.verifier,
            telemetry=self._telemetry,
            listed_apis=listed_apis,
            authorization=self._authorization,
            quotas=self._quotas,
        )

    def _start_housekeeping(self) -> None:
        self._housekeeping = Housekeeping(
            self._loop,
            self._clock,
            self._settings,
            self._log_dirs,
            self._group_commit,
            self.replicas,
            self._log,
        )
        self._housekeeping.start()
        if self._settings.bool("log.cleaner.enable"):
            self._cleaner.start()

    def _make_cluster_view(self) -> ClusterView:
        return ClusterView(
            self._clock,
            self._config.broker.long("replica.lag.time.max.ms") / 1000,
            IsrRequests(
                self._config.node_id,
                lambda: self.lifecycle.broker_epoch,
                self._alter_partition,
                self._loop.call_later,
            ),
        )

    def _make_following(self) -> Following:
        return Following(
            self._config.node_id,
            self._config.inter_broker_listener,
            self.replicas,
            self._log_dirs,
            self._group_commit.schedule,
            ReplicaFetchSettings.from_config(self._config.broker),
            lambda: self.lifecycle.broker_epoch,
            self._quotas.follower_replication,
            self._report_directory,
            clock=self._clock,
            loop=self._loop,
            environment=self._peer_environment,
        )

    def _make_log_moves(self) -> LogMoves:
        environment = MoveEnvironment(
            self._log_dirs,
            self._disk,
            self._executor,
            self._clock,
            self._rng,
            self._loop.call_later,
            self._group_commit.schedule,
        )
        return LogMoves(
            self._config.node_id,
            self.replicas,
            environment,
            lambda: self._metadata_cache.image,
            self._report_directory,
            self._quotas.moves,
        )

    def _report_directory(self, partition: Partition) -> None:
        """Report the new directory of a replica."""
        image = self._metadata_cache.image
        if self._reports is not None and partition.topic_id in image.topics.by_id:
            self._reports.assigned(image, [partition.topic_id])

    def _make_lease(self) -> LeadershipLease:
        if self._config.quorum.alone:
            return PermanentLease()
        timeout_s = self._config.broker.int("broker.session.timeout.ms") / 1000
        return HeartbeatLease(lambda: self.lifecycle.acknowledged_at, timeout_s, self._loop.time)

    def _make_cleaner(self) -> Cleaner:
        return Cleaner(
            self._disk,
            self._log_dirs.logs,
            self._cleaner_config(),
            clock=self._clock,
            executor=self._executor,
            later=self._loop.call_later,
            on_fault=self._log_dirs.fail,
        )

    def _cleaner_config(self) -> CleanerConfig:
        settings = self._settings
        return CleanerConfig(
            dedupe_buffer_bytes=settings.long("log.cleaner.dedupe.buffer.size"),
            io_buffer_bytes=settings.int("log.cleaner.io.buffer.size"),
            load_factor=settings.float("log.cleaner.io.buffer.load.factor"),
            io_max_bytes_per_second=settings.float("log.cleaner.io.max.bytes.per.second"),
            backoff_ms=settings.long("log.cleaner.backoff.ms"),
        )

    # Callbacks of the parts

    def _alter_partition(self, request: AlterPartitionRequest) -> Promise[AlterPartitionResponse]:
        return self._link.requests.request(
            request, AlterPartitionResponse, timeout_s=_ALTER_PARTITION_SECONDS
        )

    def _log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        return LogConfig.from_values(self._settings.topic_values(image.config(ResourceType.TOPIC, topic)))

    def _metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> Promise[None]:
        self._metadata_cache.image = image
        for problem in self._settings.update(image.configs):
            self._log.warning(problem)
        self.coordinators.announce(delta, image)
        applied = self.replicas.apply(delta, image)
        # Followers of other leaders do not wait until logs are created.
        self._following.changed(delta, image)
        if self._metrics is not None:
            self._metrics.changed(delta, image)
        applied.when_done(lambda _, __: self._replicas_changed(delta, image))
        return applied

    def _replicas_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """The replicas of this broker have followed a change of the metadata."""
        self._following.changed(delta, self._metadata_cache.image)
        self.coordinators.changed(delta, image)
        if self._reports is not None:
            self._reports.assigned(image, delta.changed_topics)

    def _settings_changed(self, names: frozenset[str]) -> None:
        """Apply broker settings that changed; `Replicas` applies those of topics."""
        if any(name.startswith("max.connections") for name in names):
            self._edge.limits = Limits.from_config(self._settings)
        if "max.connection.creation.rate" in names:
            self._set_connection_rates()
        if not names.isdisjoint(REPLICATION_RATES):
            self._quotas.set_replication_rates(self._settings)
        if any(name.startswith("log.cleaner.") for name in names):
            self._cleaner.reconfigure(self._cleaner_config())
        if "producer.id.expiration.ms" in names:
            self._log_dirs.keep_producers(self._settings.int("producer.id.expiration.ms"))

    def _set_connection_rates(self) -> None:
        self._quotas.set_connection_rates(self._settings, [each.name for each in self._config.listeners])

    def _replica_failed(self, partition: TopicPartition, error: Exception) -> None:
        self._log.error(
            "a partition is offline: its log cannot be opened", partition=str(partition), reason=str(error)
        )
