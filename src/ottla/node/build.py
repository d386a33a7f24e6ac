"""Builds a node out of its parts; the only module that imports all of them.

Order of the start: lock the directories and check to which cluster and node they belong; read the metadata log and
lead its quorum; open the logs, with recovery after an unclean stop; bind the sockets, so that the ports are known;
register and be unfenced; lead partitions and set stray logs aside, both by an image that contains the registration;
serve clients and load the coordinators.

Order of the stop: stop periodic tasks; coordinators fail waiting requests; no new connections; finish requests in
flight; wait for writes, those of the metadata log included; close the metadata log; close the logs, write checkpoints
and the clean-shutdown marker; release the locks.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from ottla.base.errors import InvariantViolation, LocalError, StorageFault
from ottla.base.ids import TopicPartition, uuid_text
from ottla.base.promise import Promise
from ottla.base.rng import random_uuid
from ottla.base.settled import settled
from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.coordination.lease import PermanentLease
from ottla.broker.coordination.producer_ids import ProducerIds
from ottla.broker.dependencies import Dependencies, MetadataCache
from ottla.broker.fetch.sessions import FetchSessions
from ottla.broker.handlers import load_all
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.net.edge import Edge
from ottla.broker.net.limits import Limits
from ottla.broker.net.listeners import Listener, ListenerType
from ottla.broker.net.read_buffers import ReadBuffers
from ottla.broker.net.server import Server
from ottla.broker.purgatory import Purgatory
from ottla.broker.registry import Handlers, ListedApis
from ottla.broker.router import Router
from ottla.config.dynamic import DynamicConfig
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.metadata.publisher import MetadataPublisher
from ottla.node.directories import DirectoryReports
from ottla.node.lifecycle import BrokerLifecycle, registration
from ottla.node.machine import Machine, this_machine
from ottla.node.metadata import MetadataNode, has_metadata, open_metadata
from ottla.quorum.quorum import ListenerAddress
from ottla.replication.replicas import Replicas
from ottla.storage.cleaning.cleaner import Cleaner, CleanerConfig
from ottla.storage.commit.group_commit import GroupCommit
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.log_dirs import LogDirs

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ottla.metadata.delta import MetadataDelta
    from ottla.node.config import NodeConfig

_DRAIN_SECONDS: Final = 10.0


class Node:
    """One running node. Call `start`, then `stop`; `failed` is set when the node cannot continue."""

    def __init__(self, config: NodeConfig, log: FilteringBoundLogger, machine: Machine | None = None) -> None:
        self._config = config
        self._log = log
        self._loop = asyncio.get_running_loop()
        machine = self._machine = machine or this_machine(self._loop)
        self._clock, self._rng, self._disk = machine.clock, machine.rng, machine.disk
        self._executor, self._writer = machine.executor, machine.writer
        self.failed: asyncio.Future[str] = self._loop.create_future()
        self._loop.set_exception_handler(self._unexpected)
        self._settings = DynamicConfig(config.broker, config.node_id)
        self._reports: DirectoryReports | None = None
        self._log_dirs = LogDirs(
            self._disk,
            config.log_dirs,
            self._rng,
            self._executor,
            on_offline=self._directory_failed,
        )
        self._metadata_dir = self._open_metadata_dir()

    async def start(self) -> list[Listener]:
        """Start the node; returns the listeners with their real ports."""
        metadata = self._metadata = self._open_metadata(self._claim())
        await metadata.start()
        image = metadata.publisher.image
        self._settings.update(image.configs)
        self._log_dirs.keep_producers(self._settings.int("producer.id.expiration.ms"))
        self._group_commit = GroupCommit(
            self._executor,
            self._clock,
            defer=self._loop.call_soon,
            on_progress=lambda log: self._replicas.progressed(log),  # noqa: PLW0108 - the two refer to each other
            on_fault=self._log_dirs.fail,
            writer=self._writer,
        )
        self._replicas = Replicas(
            self._config.node_id,
            self._log_dirs,
            self._clock,
            self._group_commit.schedule,
            self._log_config,
            self._replica_failed,
        )
        await self._load_logs(image)
        self._cleaner = self._make_cleaner()
        self._log_dirs.watch(self._cleaner)
        self._coordinators = Coordinators(
            self._config.node_id,
            self._replicas,
            self._settings,
            clock=self._clock,
            rng=self._rng,
            loop=self._loop,
            lease=PermanentLease(),
        )
        self._lifecycle = BrokerLifecycle(self._config.node_id, metadata.controller, metadata.publisher)
        self._metadata_cache = MetadataCache(image)
        self._edge = self._make_edge(metadata)
        self._server = Server(self._edge, self._machine.listen)
        listeners = self._server.bind(self._config.listeners)
        await self._lifecycle.register(registration(self._config, listeners, self._log_dirs.dirs, self._rng))
        await self._lifecycle.unfence()
        image = await self._follow(metadata.publisher)
        self._reports = DirectoryReports(
            self._config.node_id,
            self._lifecycle.broker_epoch,
            self._log_dirs,
            self._replicas,
            metadata.controller,
            self._log,
        )
        self._reports.assigned(image, image.topics.by_id)
        self._settings.subscribe(self._settings_changed)
        self._start_housekeeping()
        self._server.serve()
        # Partitions whose leader does not change from now on are in no delta: load them from the image.
        self._coordinators.load(metadata.publisher.image)
        return listeners

    async def _follow(self, publisher: MetadataPublisher) -> MetadataImage:
        """Lead and set strays aside by the current image, and follow each change from now on."""
        self._metadata_cache.image = publisher.image
        self._settings.update(publisher.image.configs)
        loaded = self._replicas.load(publisher.image)
        publisher.add_listener(self._metadata_changed)
        await settled(loaded)
        # The image may have moved meanwhile: a log of a topic that is new in it is not a stray.
        await self._set_strays_aside(publisher.image)
        return publisher.image

    async def stop(self) -> None:
        """Stop the node cleanly."""
        self._housekeeping.stop()
        self._cleaner.stop()
        self._coordinators.close()
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
        await settled(self._metadata.stop())
        try:
            self._metadata.close()
        except StorageFault as fault:
            self._log.error("the metadata log could not be closed cleanly", reason=str(fault))
        await settled(self._log_dirs.close(self._clock.now_ms(), self._lifecycle.broker_epoch))
        self._writer.close()
        self._executor.close()
        if self._metadata_dir is not None:
            self._metadata_dir.release()

    def release(self) -> None:
        """Release the locks of the directories after a failed start."""
        self._log_dirs.release()
        if self._metadata_dir is not None:
            self._metadata_dir.release()

    async def _load_logs(self, image: MetadataImage) -> None:
        await settled(self._log_dirs.load(lambda tp: self._log_config(image, tp.topic), self._clock.now_ms()))
        if not any(each.online for each in self._log_dirs.dirs):
            reasons = "; ".join(str(each.fault) for each in self._log_dirs.dirs)
            raise LocalError(f"no log directory is usable: {reasons}")

    async def _set_strays_aside(self, image: MetadataImage) -> None:
        """Rename logs of topics that were deleted while this broker was down or a directory was offline."""
        by_name = image.topics.by_name
        strays = [
            log.topic_partition
            for log in self._log_dirs.logs()
            if (topic := by_name.get(log.topic_partition.topic)) is None
            or log.topic_partition.partition not in topic.partitions
        ]
        await settled(self._log_dirs.set_aside(strays))

    # The parts

    def _open_metadata_dir(self) -> LogDir | None:
        """The directory of the metadata log, if it is not one of the log directories."""
        path = self._config.metadata_log_dir.rstrip("/")
        if any(each.path == path for each in self._log_dirs.dirs):
            return None
        return LogDir(self._disk, path, self._executor, self._metadata_failed)

    def _metadata_home(self) -> LogDir:
        path = self._config.metadata_log_dir.rstrip("/")
        return self._metadata_dir or next(each for each in self._log_dirs.dirs if each.path == path)

    def _claim(self) -> str:
        """Check that all directories belong to one cluster and to this node; returns the cluster id."""
        required, node_id = self._config.cluster_id, self._config.node_id
        known = self._log_dirs.cluster_id
        if self._metadata_dir is not None and self._metadata_dir.meta is not None:
            known = known or self._metadata_dir.meta.cluster_id
        if required is not None and known not in (None, required):
            raise LocalError(f"the log directories belong to cluster {known}, but CLUSTER_ID is {required}")
        home = self._metadata_home()
        if home.meta is None and has_metadata(self._disk, home.path):
            text = (
                f"{home.path} has a metadata log but no meta.properties, so its cluster and node are unknown"
            )
            raise LocalError(f"{text}; restore that file, or use an empty directory")
        cluster_id = known or required or uuid_text(random_uuid(self._rng))
        self._log_dirs.claim(cluster_id, node_id)
        if self._metadata_dir is not None:
            self._metadata_dir.claim(cluster_id, node_id, random_uuid(self._rng), "")
        return cluster_id

    def _open_metadata(self, cluster_id: str) -> MetadataNode:
        self._cluster_id = cluster_id
        home = self._metadata_home()
        return open_metadata(
            self._disk,
            home.path,
            config=self._config.broker,
            node_id=self._config.node_id,
            directory_id=home.directory_id,
            controller_listeners=[
                ListenerAddress(each.name, each.host, each.port) for each in self._config.controller_listeners
            ],
            clock=self._clock,
            rng=self._rng,
            executor=self._executor,
            defer=self._loop.call_soon,
            on_fault=self._metadata_failed,
        )

    def _make_edge(self, metadata: MetadataNode) -> Edge:
        """Create the handlers with their dependencies, and a router for each type of listener."""
        routes = load_all()
        handlers = Handlers(
            routes, self._dependencies(metadata, ListedApis(routes, self._config.broker)), self._loop
        )
        routers = {each: Router(handlers.on(each), self._violated, self._log) for each in ListenerType}
        return Edge(self._loop, Limits.from_config(self._settings), routers, self._log)

    def _violated(self, violation: InvariantViolation) -> None:
        self._loop.call_exception_handler({"message": "request failed", "exception": violation})

    def _dependencies(self, metadata: MetadataNode, listed_apis: ListedApis) -> Dependencies:
        sessions_max = self._config.broker.int("max.incremental.fetch.session.cache.slots")
        controller = metadata.controller
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
            controller=controller,
            replicas=self._replicas,
            log_dirs=self._log_dirs,
            purgatory=Purgatory(self._loop),
            fetch_sessions=FetchSessions(self._rng, sessions_max),
            fetch_bytes_max=self._config.broker.int("fetch.max.bytes"),
            read_buffers=ReadBuffers(),
            on_fault=self._log_dirs.fail,
            producer_ids=ProducerIds(
                lambda: controller.allocate_block(self._config.node_id, self._lifecycle.broker_epoch)
            ),
            groups=self._coordinators.groups,
            transactions=self._coordinators.transactions,
            markers=self._coordinators.markers,
            verifier=self._coordinators.verifier,
            listed_apis=listed_apis,
        )

    def _start_housekeeping(self) -> None:
        self._housekeeping = Housekeeping(
            self._loop, self._clock, self._settings, self._log_dirs, self._group_commit, self._log
        )
        self._housekeeping.start()
        if self._settings.bool("log.cleaner.enable"):
            self._cleaner.start()

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

    def _log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        return LogConfig.from_values(self._settings.topic_values(image.config(ResourceType.TOPIC, topic)))

    def _metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> Promise[None]:
        self._metadata_cache.image = image
        for problem in self._settings.update(image.configs):
            self._log.warning(problem)
        applied = self._replicas.apply(delta, image)
        applied.when_done(lambda _, __: self._replicas_changed(delta, image))
        return applied

    def _replicas_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """The replicas of this broker have followed a change of the metadata."""
        self._coordinators.changed(delta, image)
        if self._reports is not None:
            self._reports.assigned(image, delta.changed_topics)

    def _settings_changed(self, names: frozenset[str]) -> None:
        """Apply broker settings that changed; `Replicas` applies those of topics."""
        if any(name.startswith("max.connections") for name in names):
            self._edge.limits = Limits.from_config(self._settings)
        if any(name.startswith("log.cleaner.") for name in names):
            self._cleaner.reconfigure(self._cleaner_config())
        if "producer.id.expiration.ms" in names:
            self._log_dirs.keep_producers(self._settings.int("producer.id.expiration.ms"))

    def _replica_failed(self, partition: TopicPartition, error: Exception) -> None:
        self._log.error(
            "a partition is offline: its log cannot be opened", partition=str(partition), reason=str(error)
        )

    def _directory_failed(self, directory: LogDir) -> None:
        self._log.error("log directory is offline", directory=directory.path, reason=str(directory.fault))
        self._replicas.directory_failed(directory.path)
        if not any(each.online for each in self._log_dirs.dirs):
            # Kafka halts its process here. Ottla continues, so that clients get an error that names the cause.
            self._log.error("all log directories are offline: Produce and Fetch return KAFKA_STORAGE_ERROR")
        elif self._reports is not None:
            self._reports.failed()

    def _metadata_failed(self, error: BaseException) -> None:
        self._log.error(
            "the metadata log has failed: requests that change metadata return KAFKA_STORAGE_ERROR",
            reason=str(error),
        )

    def _unexpected(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an exception of a callback or task: a violated invariant stops the node, others are logged."""
        error = context.get("exception")
        self._log.error("unexpected exception", reason=context.get("message"), exc_info=error)
        if isinstance(error, InvariantViolation):
            self._stop_with(f"an invariant is violated: {error}")

    def _stop_with(self, reason: str) -> None:
        if not self.failed.done():
            self.failed.set_result(reason)
