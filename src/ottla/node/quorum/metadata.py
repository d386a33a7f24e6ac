"""Opens the metadata log of a node, with the publisher and the controller above it.

    <metadata.log.dir, or the first log directory>/
      bootstrap.checkpoint           initial feature levels
      __cluster_metadata-0/
        quorum-state                 the epoch
        <offset>-<epoch>.checkpoint  snapshots
        <offset>.log ...             the log, in the segments of a normal log

The whole log is read and checked at every start: it is small, and everything else depends on it. This module opens the
quorum of one voter, and `ottla.node.quorum.replica` a replica of a quorum with several nodes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Protocol

from ottla.base.clock import Clock
from ottla.base.errors import LocalError
from ottla.base.executor import Executor
from ottla.base.files import Disk
from ottla.base.ids import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition
from ottla.base.promise import Promise
from ottla.base.rng import Random
from ottla.config.broker import BrokerConfig
from ottla.controller.controller import Controller
from ottla.controller.driver import ControllerDriver
from ottla.controller.settings import features
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.record_codec import decode_record, encode_record
from ottla.metadata.records import FeatureLevelRecord, UserScramCredentialRecord
from ottla.quorum.formatting import format_quorum, read_bootstrap
from ottla.quorum.metadata_log import StorageMetadataLog
from ottla.quorum.quorum import ListenerAddress, Quorum
from ottla.quorum.quorum_state import FILE_NAME, is_dynamic_state
from ottla.quorum.single import SingleQuorum
from ottla.quorum.snapshots import SnapshotStore
from ottla.quorum.voter import LocalVoter
from ottla.storage.checkpoints import PARTITION_METADATA_FILE, write_topic_id
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.recovery.recovery import LastKnown, open_log
from ottla.wire.messages.control import KRaftVersionRecord
from ottla.wire.schema import Message

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)
_BOOTSTRAP_RECORDS = (FeatureLevelRecord, UserScramCredentialRecord)


class LocalQuorum(Quorum, Protocol):
    """The replica of this node, as its owner uses it."""

    @property
    def leader_id(self) -> int:
        """The node that leads the quorum, as far as this node knows; -1 for none."""
        ...

    @property
    def is_voter(self) -> bool:
        """Whether this node is one of the voters at present."""
        ...

    def stop(self) -> Promise[None]: ...


class MetadataNode:
    """The metadata log of a node, its publisher and its controller. Call `start` before use, `close` at the end."""

    def __init__(
        self,
        quorum: LocalQuorum,
        controller: ControllerDriver,
        publisher: MetadataPublisher,
        log: Log,
        clock: Clock,
    ) -> None:
        self.quorum = quorum
        self.controller = controller
        self.publisher = publisher
        self.log = log
        self.receive: Callable[[Message], Promise[Message]] | None = None
        """Handle a request of another replica; None in a quorum of one."""
        self._clock = clock

    async def start(self) -> None:
        """Load the image and lead a new epoch."""
        await self.controller.start()

    def stop(self) -> Promise[None]:
        """Refuse changes of the metadata; the promise is kept when no write is in flight."""
        return self.quorum.stop()

    def close(self) -> None:
        """Close the log; no write may be in flight."""
        self.log.close(self._clock.now_ms())


def open_metadata(
    disk: Disk,
    log_dir: str,
    *,
    config: BrokerConfig,
    node_id: int,
    directory_id: uuid.UUID,
    controller_listeners: Sequence[ListenerAddress],
    clock: Clock,
    rng: Random,
    executor: Executor,
    defer: Callable[[Callable[[], None]], object],
    on_fault: Callable[[BaseException], None],
    users: Sequence[UserScramCredentialRecord] = (),
) -> MetadataNode:
    """Open the metadata log in `log_dir`, or format the directory first if it has none.

    `users` are the SCRAM users of a new cluster.
    """
    directory = metadata_directory(log_dir)
    voter = LocalVoter(node_id, directory_id, controller_listeners)
    now_ms = clock.now_ms()
    format_if_new(disk, log_dir, voter, now_ms)
    log = open_metadata_log(disk, directory, config, rng, now_ms)
    quorum = SingleQuorum(
        disk,
        directory,
        StorageMetadataLog(log, executor, clock),
        voter=voter,
        clock=clock,
        executor=executor,
        defer=defer,
        snapshot_interval_bytes=config.long("metadata.log.max.record.bytes.between.snapshots"),
    )
    publisher = MetadataPublisher(quorum)
    controller = ControllerDriver(
        Controller(config, node_id, rng),
        quorum,
        publisher,
        bootstrap=[*bootstrap_records(disk, log_dir), *users],
        on_fault=on_fault,
        clock=clock,
    )
    return MetadataNode(quorum, controller, publisher, log, clock)


def format_if_new(disk: Disk, log_dir: str, voter: LocalVoter, now_ms: int) -> None:
    """Format the directory of a new quorum with this node as its only voter, if it has no metadata."""
    if not has_metadata(disk, log_dir):
        level = features.INITIAL_LEVELS["metadata.version"]
        values = [encode_record(record, level) for record in features.initial_records()]
        directory = metadata_directory(log_dir)
        format_quorum(disk, log_dir, directory, voter=voter, bootstrap=values, now_ms=now_ms)


def open_metadata_log(disk: Disk, directory: str, config: BrokerConfig, rng: Random, now_ms: int) -> Log:
    """Open the metadata log in `directory`, with recovery."""
    log = open_log(
        disk,
        directory,
        METADATA_PARTITION,
        METADATA_TOPIC_ID,
        _log_config(config),
        # Every batch is durable before the next is written, so damage before a valid batch is not a torn write.
        last=LastKnown(cut_good=False),
        rng=rng,
        now_ms=now_ms,
    )
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    if not disk.exists(path):
        write_topic_id(disk, path, METADATA_TOPIC_ID)
    return log


def metadata_directory(log_dir: str) -> str:
    """The directory of the metadata log in `log_dir`."""
    return f"{log_dir}/{METADATA_PARTITION}"


def has_voted(disk: Disk, log_dir: str) -> bool:
    """Whether the directory belongs to a replica that has joined its quorum."""
    return disk.exists(f"{metadata_directory(log_dir)}/{FILE_NAME}") or has_metadata(disk, log_dir)


def has_metadata(disk: Disk, log_dir: str) -> bool:
    """Whether the directory has a metadata log or a snapshot of one."""
    directory = metadata_directory(log_dir)
    if not disk.is_dir(directory):
        return False
    return any(name.endswith((".log", ".checkpoint")) for name in disk.listdir(directory))


def is_dynamic(disk: Disk, log_dir: str) -> bool:
    """Whether the directory belongs to a replica of a quorum whose voters are in its log (kraft.version 1)."""
    directory = metadata_directory(log_dir)
    if not disk.is_dir(directory):
        return False
    if is_dynamic_state(disk, f"{directory}/{FILE_NAME}"):
        return True
    store = SnapshotStore(disk, directory)
    for snapshot_id in reversed(store.ids()):
        try:
            controls = store.read(snapshot_id).controls
        except LocalError:
            continue
        return any(isinstance(each, KRaftVersionRecord) and each.kraft_version for each in controls)
    return False


def bootstrap_records(disk: Disk, log_dir: str) -> list[Message]:
    """The first records of a new cluster: those of the directory's bootstrap file, or the levels of this release."""
    values = read_bootstrap(disk, log_dir)
    if values is None:
        return list(features.initial_records())
    records = [decode_record(value) for value in values]
    return [record for record in records if isinstance(record, _BOOTSTRAP_RECORDS)]


def _log_config(config: BrokerConfig) -> LogConfig:
    return LogConfig(
        segment_bytes=config.int("metadata.log.segment.bytes"),
        segment_ms=config.long("metadata.log.segment.ms"),
        max_message_bytes=2**31 - 1,
        retention_bytes=-1,
        retention_ms=-1,
        file_delete_delay_ms=0,
        flush_messages=1,
    )
