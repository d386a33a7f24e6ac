"""Builds a node out of its parts: the metadata replica always, a controller and a broker by its roles.

Order of the start: lock the directories and check to which cluster and node they belong; bind the controller listeners;
read the metadata log and join its quorum, or lead a quorum of one; then the broker (`ottla.node.broker_node`).

Order of the stop: the broker finishes its requests and writes; the quorum resigns and finishes its writes, and the
controller listeners are closed; close the metadata log; close the logs; release the locks.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.base.errors import InvariantViolation, LocalError, StorageFault
from ottla.base.ids import uuid_text
from ottla.base.rng import random_uuid
from ottla.base.settled import settled
from ottla.broker.forwarding.broker_watch import ConnectionWatch
from ottla.broker.net.limits import Limits
from ottla.broker.net.listeners import Listener, ListenerType
from ottla.broker.quotas import Quotas
from ottla.broker.registry import Handlers
from ottla.config.dynamic import DynamicConfig
from ottla.metadata.image import EMPTY_IMAGE, Endpoint, MetadataImage
from ottla.node.broker_node import BrokerNode
from ottla.node.full_disk import is_full, required_bytes
from ottla.node.machine import Machine, this_machine
from ottla.node.membership.controller_link import ControllerLink
from ottla.node.membership.controller_registration import ControllerRegistration, controller_registration
from ottla.node.quorum.addresses import ControllerAddresses
from ottla.node.quorum.members import QuorumMembers, bootstrap_members
from ottla.node.quorum.metadata import (
    MetadataNode,
    has_metadata,
    has_voted,
    is_dynamic,
    metadata_directory,
    open_metadata,
)
from ottla.node.security.authentication import node_login, sasl_listeners
from ottla.node.security.authorization import follow_metadata, make_authorization
from ottla.node.security.tls import NodeTls
from ottla.node.settings.quorum_config import Role
from ottla.peer.peers import peer_environment
from ottla.quorum.quorum import ListenerAddress
from ottla.quorum.quorum_state import prepare_replica, prepare_voter
from ottla.storage.log_dir import LogDir, nodes_below
from ottla.storage.log_dirs import LogDirs

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ottla.metadata.publisher import MetadataPublisher
    from ottla.node.metrics import ControllerEndpoint
    from ottla.node.quorum.controller_server import ControllerServer
    from ottla.node.quorum.replica import ReplicaNode
    from ottla.node.settings.config import NodeConfig
    from ottla.peer.connection import Environment
    from ottla.peer.peers import TlsClient
    from ottla.security.sasl.login import Login


class Node:
    """One running node. Call `start`, then `stop`; `failed` is set when the node cannot continue."""

    def __init__(self, config: NodeConfig, log: FilteringBoundLogger, machine: Machine | None = None) -> None:
        self._config = config
        self._log = log
        self._loop = asyncio.get_running_loop()
        machine = self._machine = machine or this_machine(self._loop)
        self._clock, self._rng, self._disk = machine.clock, machine.rng, machine.disk
        self.failed: asyncio.Future[str] = self._loop.create_future()
        self.disk_full: asyncio.Future[list[str]] = self._loop.create_future()
        """Set, with directories that need space, when the node should be started again as soon as they have it."""
        self.full: list[str] = []
        """Directories that need space before a node that has failed can be started again; only if that is the cause."""
        self._loop.set_exception_handler(self._unexpected)
        self._settings = DynamicConfig(config.broker, config.node_id)
        self._tls = NodeTls(config, machine.executor, self._clock, log)
        controller_login = node_login(config.sasl.controller, machine)
        self._environment = self._peers_over(self._tls.controllers, controller_login)
        self._authorization = make_authorization(config.authorizer)
        self._quotas = Quotas(config.broker, self._clock)
        self._controller_server: ControllerServer | None = None
        self._publisher: MetadataPublisher | None = None
        self._metrics: ControllerEndpoint | None = None
        self._registration: ControllerRegistration | None = None
        self._watch: ConnectionWatch | None = None
        self.broker: BrokerNode | None = None
        """The broker parts, with the broker role."""
        self._log_dirs = LogDirs(
            self._disk,
            config.log_dirs,
            self._rng,
            machine.executor,
            on_offline=self._directory_failed,
        )
        self._metadata_dir = self._open_metadata_dir()
        quorum, home = config.quorum, self._metadata_home().path
        # Voters in the settings are static, unless the directory has its own voters.
        has_voters = is_dynamic(self._disk, home)
        self._dynamic = Role.CONTROLLER in config.roles and (not quorum.voters or has_voters)
        if self._dynamic and len(quorum.voters) > 1:
            log.warning(
                "controller.quorum.voters has no effect: the voters are in the metadata log",
                directory=home,
                remedy="set controller.quorum.bootstrap.servers on every node, and "
                "controller.quorum.auto.join.enable=true on those that shall become voters",
            )
        # No other node can join this one: it has no listener, or its directory is that of a static quorum of one.
        is_closed = not self._is_reachable or (has_metadata(self._disk, home) and not has_voters)
        self._alone = quorum.alone and self._dynamic and is_closed
        self._addresses = ControllerAddresses(config.node_id)

    async def start(self) -> list[Listener]:
        """Start the node; returns its listeners with their real ports, those for clients if it is a broker."""
        listeners = self._bind_controllers()
        if self._alone:
            cluster_id = self._known_cluster_id() or uuid_text(random_uuid(self._rng))
            members = QuorumMembers()
        else:
            cluster_id, members = await self._join()
        for address in (*members.voters, *members.bootstrap):
            self._addresses.set(*address)
        self._claim(cluster_id)
        metadata = self._metadata = self._open_metadata(cluster_id, members)
        self._publisher = metadata.publisher
        follow_metadata(self._authorization, metadata.publisher)
        metadata.publisher.add_listener(self._quotas.changed)
        link = self._link = self._make_link(metadata)
        self._serve_controllers(cluster_id, link)
        await metadata.start()
        self._tls.follow(metadata.publisher)
        self._register_controller(link)
        if Role.BROKER not in self._config.roles:
            await self._start_metrics(metadata)
            return listeners
        self.broker = BrokerNode(
            self._config,
            cluster_id,
            self._machine,
            self._settings,
            self._log_dirs,
            metadata,
            link,
            self._authorization,
            self._quotas,
            self._violated,
            self._log,
            self._tls,
        )
        return await self.broker.start()

    def _peers_over(self, tls: TlsClient | None, login: Login | None = None) -> Environment:
        return peer_environment(self._loop, self._machine.connect, self._rng, tls, login)

    async def _start_metrics(self, metadata: MetadataNode) -> None:
        """Serve the metrics of a controller, if a port for them is set."""
        port = self._config.metrics_port
        if port is None:
            return
        from ottla.node.metrics import ControllerEndpoint

        server = self._controller_server
        self._metrics = ControllerEndpoint(
            self._config.node_id, metadata, lambda: () if server is None else server.connections
        )
        port = await self._metrics.start(port)
        self._log.info("metrics are served", address=f"http://127.0.0.1:{port}/metrics")

    async def stop(self) -> None:
        """Stop the node cleanly."""
        if self._metrics is not None:
            self._metrics.close()
        if self.broker is not None:
            await self.broker.stop()
        if self._registration is not None:
            self._registration.close()
        if self._watch is not None:
            self._watch.close()
        self._link.close()
        await settled(self._metadata.stop())
        if self._controller_server is not None:
            await self._controller_server.stop()
        try:
            self._metadata.close()
        except StorageFault as fault:
            self._log.error("the metadata log could not be closed cleanly", reason=str(fault))
        if self.broker is not None:
            await self.broker.close()
        else:
            self._log_dirs.release()
        self._machine.writer.close()
        self._machine.executor.close()
        self._release_metadata_dir()

    def release(self) -> None:
        """End the worker threads and release the locks of the directories after a failed start.

        A thread that ends its work later would use a closed event loop, or write to a directory of another process.
        """
        self._machine.executor.close()
        self._log_dirs.release()
        self._release_metadata_dir()

    def _release_metadata_dir(self) -> None:
        if self._metadata_dir is not None:
            self._metadata_dir.release()

    # The controller listeners

    def _image(self) -> MetadataImage:
        """The newest metadata of this node; empty before it has opened its metadata log."""
        return self._publisher.image if self._publisher is not None else EMPTY_IMAGE

    @property
    def _is_reachable(self) -> bool:
        """Whether other nodes and tools may connect to the controller listeners."""
        return bool(self._config.controller_listeners) and self._config.quorum.named

    def _bind_controllers(self) -> list[Listener]:
        """Open the controller listeners, if other nodes or tools may use them."""
        wanted = self._config.controller_listeners
        if not self._is_reachable:
            return []
        from ottla.node.quorum.controller_server import ControllerServer

        limits = Limits.from_config(self._settings)
        server = ControllerServer(
            self._machine.listen,
            limits,
            self._violated,
            self._log,
            self._tls.listeners(),
            sasl_listeners(self._config, self._image, self._machine, self._log),
            audited=self._authorization.enabled,
        )
        self._controller_server = server
        return server.bind(wanted)

    def _serve_controllers(self, cluster_id: str, link: ControllerLink) -> None:
        """Serve the controller listeners; without them, forwarded requests of this process only."""
        if Role.CONTROLLER not in self._config.roles:
            return
        from ottla.node.quorum.controller_apis import controller_apis

        routes, dependencies = controller_apis(
            self._config, cluster_id, self._metadata, link.envelopes, self._authorization, self._quotas
        )
        handlers = Handlers(routes, dependencies, self._loop).on(ListenerType.CONTROLLER)
        link.envelopes.serve(handlers)
        if self._controller_server is not None:
            self._controller_server.serve(handlers)

    # The active controller

    def _make_link(self, metadata: MetadataNode) -> ControllerLink:
        def leader_id() -> int:
            # The only voter gets all requests, also after its log has failed: it responds with that error.
            return self._config.node_id if self._alone else metadata.quorum.leader_id

        return ControllerLink(
            self._config.node_id,
            self._loop,
            metadata.controller,
            metadata.publisher,
            leader_id,
            self._config.broker,
            self._environment,
            self._addresses,
        )

    def _register_controller(self, link: ControllerLink) -> None:
        """Register this controller, and let it watch the brokers while it is active."""
        if Role.CONTROLLER in self._config.roles:
            endpoints = [
                Endpoint(each.name, each.advertised_host, each.advertised_port, each.protocol)
                for each in self._config.controller_listeners
            ]
            self._registration = ControllerRegistration(
                controller_registration(self._config.node_id, endpoints, self._rng),
                link.requests,
                self._metadata.publisher,
                self._loop,
            )
            self._registration.start()
            controller = self._metadata.controller
            self._watch = ConnectionWatch(
                self._peers_over(None),
                self._peers_over(self._tls.unchecked_clients()),
                self._config.node_id,
                controller.broker_lost,
            )
            controller.watch_brokers(self._watch)

    # The directories

    def _open_metadata_dir(self) -> LogDir | None:
        """The directory of the metadata log, if it is not one of the log directories."""
        path = self._config.metadata_log_dir.rstrip("/")
        if any(each.path == path for each in self._log_dirs.dirs):
            return None
        return LogDir(self._disk, path, self._machine.executor, self._metadata_failed)

    def _metadata_home(self) -> LogDir:
        path = self._config.metadata_log_dir.rstrip("/")
        return self._metadata_dir or next(each for each in self._log_dirs.dirs if each.path == path)

    def _known_cluster_id(self) -> str | None:
        """The cluster id of the directories or the settings; LocalError if they differ."""
        required = self._config.cluster_id
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
        if known is None:
            self._check_new_directories()
        return known or required

    def _check_new_directories(self) -> None:
        """Raise LocalError if a directory without an identity contains the directories of other nodes."""
        own = {each.rstrip("/") for each in (*self._config.log_dirs, self._config.metadata_log_dir)}
        for directory in own:
            found = [each for each in nodes_below(self._disk, directory) if each not in own]
            if found:
                raise LocalError(
                    f"{directory} contains the directories of other brokers ({found[0]}); use another directory, "
                    "or `ottla up` for a cluster that it has created"
                )

    def _claim(self, cluster_id: str) -> None:
        """Record in new directories that they belong to this cluster and node; LocalError if one does not."""
        node_id = self._config.node_id
        self._log_dirs.claim(cluster_id, node_id)
        if self._metadata_dir is not None:
            self._metadata_dir.claim(cluster_id, node_id, random_uuid(self._rng), "")

    # Joining a quorum of several nodes

    async def _join(self) -> tuple[str, QuorumMembers]:
        """The cluster and its voters; found or join one first if the directories are empty."""
        from ottla.node.membership.founding import Founding, find_members

        config, home = self._config, self._metadata_home().path
        cluster_id = self._known_cluster_id()
        voters = config.quorum.voters
        bootstrap = bootstrap_members(config.quorum.remote_servers)
        if self._dynamic:
            return await self._join_dynamic(
                cluster_id, QuorumMembers(voters, dynamic=True, bootstrap=bootstrap)
            )
        if all(voter.node_id != config.node_id for voter in voters):
            if cluster_id is not None and voters:
                return cluster_id, QuorumMembers(voters, static=True, bootstrap=bootstrap)
            found = await find_members(config, cluster_id, self._environment, self._log)
            return found.cluster_id, QuorumMembers(found.voters, static=bool(voters), bootstrap=bootstrap)
        if cluster_id is None or not has_voted(self._disk, home):
            founding = Founding(
                config, cluster_id, self._environment, self._rng, self._log, self._authorization
            )
            if self._controller_server is not None:
                handlers = Handlers(*founding.apis(), self._loop).on(ListenerType.CONTROLLER)
                self._controller_server.serve(handlers)
            cluster_id, recovering = await founding.run()
            prepare_voter(self._disk, metadata_directory(home), config.node_id, recovering=recovering)
        return cluster_id, QuorumMembers(voters, static=True)

    async def _join_dynamic(
        self, cluster_id: str | None, members: QuorumMembers
    ) -> tuple[str, QuorumMembers]:
        """The cluster of a controller whose voters are in the log. A new one is a replica before it is a voter."""
        from ottla.node.membership.founding import NoCluster, find_members

        config, home = self._config, self._metadata_home()
        founding = members._replace(founds=True)
        if config.quorum.alone:
            return cluster_id or uuid_text(random_uuid(self._rng)), founding
        if cluster_id is not None and is_dynamic(self._disk, home.path):
            return cluster_id, members
        if home.meta is not None and not has_voted(self._disk, home.path):
            raise LocalError(
                f"{home.path} has an identity but no metadata log; a voter that has lost its log must not vote. "
                "Restore the log, or empty the directory, so that it gets another id; then remove the former voter "
                "and add this one"
            )
        try:
            found = await find_members(
                config, cluster_id, self._environment, self._log, forced=config.force_founding
            )
        except NoCluster:
            return cluster_id or uuid_text(random_uuid(self._rng)), founding
        if not has_voted(self._disk, home.path):
            prepare_replica(self._disk, metadata_directory(home.path), config.node_id)
        return found.cluster_id, members._replace(voters=found.voters)

    # The metadata

    def _open_metadata(self, cluster_id: str, members: QuorumMembers) -> MetadataNode:
        home = self._metadata_home()
        if self._config.users and has_metadata(self._disk, home.path):
            self._log.info("--add-scram has no effect: the cluster exists", users=len(self._config.users))
        if not self._alone:
            return self._open_replica(cluster_id, home, members)
        return open_metadata(
            self._disk,
            home.path,
            config=self._config.broker,
            node_id=self._config.node_id,
            directory_id=home.directory_id,
            controller_listeners=self._controller_addresses(),
            clock=self._clock,
            rng=self._rng,
            executor=self._machine.executor,
            defer=self._loop.call_soon,
            on_fault=self._metadata_failed,
            users=self._config.users,
        )

    def _controller_addresses(self) -> list[ListenerAddress]:
        return [
            ListenerAddress(each.name, each.advertised_host, each.advertised_port)
            for each in self._config.controller_listeners
        ]

    def _open_replica(self, cluster_id: str, home: LogDir, members: QuorumMembers) -> ReplicaNode:
        from ottla.node.quorum.replica import open_replica

        def foreign() -> None:
            self._stop_with(
                f"this node belongs to cluster {cluster_id}, but the controllers belong to another cluster; "
                "check controller.quorum.voters, controller.quorum.bootstrap.servers and log.dirs"
            )

        return open_replica(
            self._machine,
            home.path,
            config=self._config.broker,
            cluster_id=cluster_id,
            node_id=self._config.node_id,
            directory_id=home.directory_id,
            controller_listeners=self._controller_addresses(),
            quorum=members,
            addresses=self._addresses,
            environment=self._environment,
            on_fault=self._metadata_failed,
            on_foreign=foreign,
            users=self._config.users,
        )

    # Failures

    def _violated(self, violation: InvariantViolation) -> None:
        self._loop.call_exception_handler({"message": "request failed", "exception": violation})

    def _directory_failed(self, directory: LogDir) -> None:
        full = is_full(directory.fault)
        advice = "free space on its disk" if full else "check its disk"
        self._log.error(
            "log directory is offline",
            directory=directory.path,
            reason=str(directory.fault),
            advice=f"{advice}, then restart the broker",
        )
        if self.broker is not None:
            self.broker.directory_failed(directory)
        if any(each.online for each in self._log_dirs.dirs):
            return
        if self._has_other_brokers():
            if all(is_full(each.fault) for each in self._log_dirs.dirs):
                self.full = [each.path for each in self._log_dirs.dirs]
            why = ": the disk is full" if full else ""
            self._stop_with(f"all log directories are offline{why}")
            return
        # Kafka halts its process here. Ottla continues, so that clients get an error that names the cause.
        self._log.error("all log directories are offline: Produce and Fetch return KAFKA_STORAGE_ERROR")
        if self._alone and all(is_full(each.fault) for each in self._log_dirs.dirs):
            self._report_full([each.path for each in self._log_dirs.dirs])

    def _has_other_brokers(self) -> bool:
        """Whether other brokers can take over what this one leads."""
        if self.broker is None:
            return False
        return any(each != self._config.node_id for each in self._metadata.publisher.image.brokers)

    def _metadata_failed(self, error: BaseException) -> None:
        if not self._alone:
            # A node that does not follow the metadata must not keep its session: others take over.
            if self.broker is not None:
                self.broker.lifecycle.metadata_failed()
            self.full = [self._metadata_home().path] if is_full(error) else []
            self._stop_with(f"the metadata log has failed: {error}")
            return
        self._log.error(
            "the metadata log has failed: requests that change metadata return KAFKA_STORAGE_ERROR",
            reason=str(error),
        )
        if is_full(error):
            self._report_full([self._metadata_home().path])

    def _report_full(self, paths: list[str]) -> None:
        """Set `disk_full`: no other broker can take over, and the node can be started again when there is space."""
        if not self.disk_full.done():
            required = max(required_bytes(self._disk, path) for path in paths)
            self._log.error(
                "the disk is full: the broker starts again by itself when there is space",
                directories=paths,
                required_free_mb=required >> 20,
            )
            self.disk_full.set_result(paths)

    def _unexpected(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an exception of a callback or task: a violated invariant stops the node, others are logged."""
        error = context.get("exception")
        self._log.error("unexpected exception", reason=context.get("message"), exc_info=error)
        if isinstance(error, InvariantViolation):
            self._stop_with(f"an invariant is violated: {error}")

    def _stop_with(self, reason: str) -> None:
        if not self.failed.done():
            self.failed.set_result(reason)
