"""Opens the replica of a node in a quorum that other nodes can follow: a voter, or an observer.

Static voters (kraft.version 0) are those of the settings. Otherwise the voters are in the log (kraft.version 1), and
the settings name only nodes that may know the leader. A new quorum of this kind starts with one voter, the node that
founds it, and grows by AddRaftVoter.

A voter that has lost its log logs a warning while no leader exists from which it could copy the log.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import structlog

from ottla.base.clock import Clock
from ottla.config.broker import BrokerConfig
from ottla.controller.controller import Controller
from ottla.controller.driver import ControllerDriver
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.records import UserScramCredentialRecord
from ottla.node.machine import Machine
from ottla.node.quorum.addresses import ControllerAddresses
from ottla.node.quorum.members import QuorumMembers
from ottla.node.quorum.metadata import (
    METADATA_PARTITION,
    MetadataNode,
    bootstrap_records,
    format_if_new,
    open_metadata_log,
)
from ottla.node.quorum.transport import PeerTransport
from ottla.node.settings.quorum_config import VoterAddress
from ottla.peer.connection import Environment
from ottla.quorum.quorum import ListenerAddress
from ottla.quorum.quorum_state import end_recovery, is_recovering
from ottla.quorum.raft.timeouts import Timeouts
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.quorum.runtime.driver import RaftQuorum
from ottla.quorum.runtime.settings import RaftSettings
from ottla.quorum.runtime.storage_log import StorageRaftLog
from ottla.quorum.voter import LocalVoter
from ottla.storage.log.log import Log

_log = structlog.get_logger(__name__)
_LISTENER_NAME: Final = "CONTROLLER"
_NOTICE_S: Final = 10.0


class ReplicaNode(MetadataNode):
    """The metadata of a node in a quorum with several nodes."""

    def __init__(
        self,
        quorum: RaftQuorum,
        controller: ControllerDriver,
        publisher: MetadataPublisher,
        log: Log,
        clock: Clock,
        transport: PeerTransport,
        notices: RecoveryNotices,
    ) -> None:
        super().__init__(quorum, controller, publisher, log, clock)
        self.receive = quorum.receive
        self._transport = transport
        self._notices = notices

    async def start(self) -> None:
        """Load the latest snapshot and join the quorum."""
        self.controller.join()

    def close(self) -> None:
        self._notices.end()
        self._transport.close()
        super().close()


class RecoveryNotices:
    """Logs, from time to time, that a voter which has lost its log finds no leader to copy the log from."""

    def __init__(self, directory: str, leader_id: Callable[[], int]) -> None:
        self._directory = directory
        self._leader_id = leader_id
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Log after some seconds, and again and again, until `end` is called."""
        self._timer = asyncio.get_running_loop().call_later(_NOTICE_S, self._notice)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _notice(self) -> None:
        if self._leader_id() < 0:
            _log.warning(
                "this voter has lost its metadata log: it does not vote before it has copied the log from a leader, "
                "and there is no leader",
                directory=self._directory,
                remedy="start the voters that still have their logs; if most voters have lost theirs, stop the nodes "
                "and restore this directory from a backup",
            )
        self.begin()


def open_replica(
    machine: Machine,
    log_dir: str,
    *,
    config: BrokerConfig,
    cluster_id: str,
    node_id: int,
    directory_id: uuid.UUID,
    controller_listeners: Sequence[ListenerAddress],
    quorum: QuorumMembers,
    addresses: ControllerAddresses,
    environment: Environment,
    on_fault: Callable[[BaseException], None],
    on_foreign: Callable[[], None],
    users: Sequence[UserScramCredentialRecord] = (),
) -> ReplicaNode:
    """Open the metadata log in `log_dir` as a replica of a quorum.

    `users` are the SCRAM users of a new cluster, if this node leads it first.
    `on_foreign` is called when the voters refuse this node because they belong to another cluster.
    """
    disk, clock, executor = machine.disk, machine.clock, machine.executor
    directory = f"{log_dir}/{METADATA_PARTITION}"
    disk.makedirs(directory)
    if quorum.founds:
        local = LocalVoter(node_id, directory_id, controller_listeners)
        format_if_new(disk, log_dir, local, clock.now_ms())
    log = open_metadata_log(disk, directory, config, machine.rng, clock.now_ms())
    notices = RecoveryNotices(directory, lambda: replica.leader_id)
    settings = _settings(config, cluster_id, ReplicaKey(node_id, directory_id), controller_listeners, quorum)
    settings = settings._replace(recovering=is_recovering(disk, directory))

    def recovered() -> None:
        notices.end()
        executor.submit(partial(end_recovery, disk, directory), _recovery_ended)

    transport = PeerTransport(
        node_id,
        addresses,
        environment,
        lambda lost_id: replica.peer_lost(lost_id),  # noqa: PLW0108 - the two refer to each other
    )
    replica = RaftQuorum(
        settings,
        disk,
        directory,
        StorageRaftLog(disk, directory, log, executor, clock),
        transport,
        asyncio.get_running_loop(),
        clock,
        executor,
        machine.rng,
        on_recovered=recovered,
        on_foreign=on_foreign,
    )
    publisher = MetadataPublisher(replica)
    controller = ControllerDriver(
        Controller(config, node_id, machine.rng),
        replica,
        publisher,
        bootstrap=[*bootstrap_records(disk, log_dir), *users],
        on_fault=on_fault,
        clock=clock,
        cluster_id=cluster_id,
    )
    if settings.recovering:
        notices.begin()
    return ReplicaNode(replica, controller, publisher, log, clock, transport, notices)


def _settings(
    config: BrokerConfig,
    cluster_id: str,
    local: ReplicaKey,
    controller_listeners: Sequence[ListenerAddress],
    quorum: QuorumMembers,
) -> RaftSettings:
    # A node that other controllers name as a voter may be the former replica of this node: the log decides.
    voters = [each for each in quorum.voters if quorum.static or each.node_id != local.node_id]
    return RaftSettings(
        cluster_id,
        local,
        _voter_set(config, voters),
        snapshot_interval_bytes=config.long("metadata.log.max.record.bytes.between.snapshots"),
        timeouts=_timeouts(config),
        request_timeout_s=config.int("controller.quorum.request.timeout.ms") / 1000,
        static=quorum.static,
        dynamic=quorum.dynamic,
        bootstrap=tuple(server.node_id for server in quorum.bootstrap),
        listener=_listener(config),
        listeners=tuple(controller_listeners),
        auto_join=config.bool("controller.quorum.auto.join.enable"),
    )


def _listener(config: BrokerConfig) -> str:
    """The name of the listener through which the voters connect to each other."""
    return (config.list("controller.listener.names") or [_LISTENER_NAME])[0].upper()


def _voter_set(config: BrokerConfig, voters: Sequence[VoterAddress]) -> VoterSet:
    listener = _listener(config)
    return VoterSet(
        Voter(ReplicaKey(each.node_id), (ListenerAddress(listener, each.host, each.port),)) for each in voters
    )


def _timeouts(config: BrokerConfig) -> Timeouts:
    return Timeouts(
        election_ms=config.int("controller.quorum.election.timeout.ms"),
        fetch_ms=config.int("controller.quorum.fetch.timeout.ms"),
        election_backoff_max_ms=config.int("controller.quorum.election.backoff.max.ms"),
        retry_backoff_ms=config.int("controller.quorum.retry.backoff.ms"),
    )


def _recovery_ended(failure: BaseException | None) -> None:
    if failure is None:
        _log.info("this voter has recovered the metadata log and votes again")
    else:  # the next start recovers again
        _log.error("the end of a recovery could not be recorded", reason=str(failure))
