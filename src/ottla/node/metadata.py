"""Opens the metadata log of a node and puts a controller on it.

    <metadata.log.dir, or the first log directory>/
      bootstrap.checkpoint           feature levels to begin with
      __cluster_metadata-0/
        quorum-state                 the epoch
        <offset>-<epoch>.checkpoint  snapshots
        <offset>.log ...             the log, in ordinary segments

The log is read and checked as a whole at every start: it is small, and everything else depends on it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from ottla.base.clock import Clock
from ottla.base.executor import Executor
from ottla.base.files import Disk
from ottla.base.ids import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition
from ottla.base.rng import Random
from ottla.config.broker import BrokerConfig
from ottla.controller import features
from ottla.controller.controller import Controller
from ottla.controller.driver import ControllerDriver
from ottla.metadata.record_codec import decode_record, encode_record
from ottla.metadata.records import FeatureLevelRecord
from ottla.quorum.formatting import format_quorum, read_bootstrap
from ottla.quorum.metadata_log import StorageMetadataLog
from ottla.quorum.quorum import ListenerAddress
from ottla.quorum.single import LocalVoter, SingleQuorum
from ottla.storage.checkpoints import PARTITION_METADATA_FILE, write_topic_id
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.recovery.recovery import LastKnown, open_log

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)


class MetadataNode:
    """The controller of a node and the log below it. `start` it before use, `close` it at the end."""

    def __init__(
        self, driver: ControllerDriver, log: Log, clock: Clock, levels: list[FeatureLevelRecord]
    ) -> None:
        self.driver = driver
        self.log = log
        self._clock = clock
        self._levels = levels

    async def start(self) -> None:
        """Begin a new epoch and load the image."""
        await self.driver.start(self._levels)

    def close(self) -> None:
        """Write out what is staged; no decision may be under way."""
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
    on_fault: Callable[[BaseException], None],
) -> MetadataNode:
    """Open, or found, the metadata log in `log_dir`."""
    directory = f"{log_dir}/{METADATA_PARTITION}"
    voter = LocalVoter(node_id, directory_id, controller_listeners)
    now_ms = clock.now_ms()
    if not has_metadata(disk, log_dir):
        level = features.INITIAL_LEVELS["metadata.version"]
        values = [encode_record(record, level) for record in features.initial_records()]
        format_quorum(disk, log_dir, directory, voter=voter, bootstrap=values, now_ms=now_ms)
    log = open_log(
        disk,
        directory,
        METADATA_PARTITION,
        METADATA_TOPIC_ID,
        _log_config(config),
        # Every decision was synced before the next: damage before sound records is no torn write.
        last=LastKnown(cut_good=False),
        rng=rng,
        now_ms=now_ms,
    )
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    if not disk.exists(path):
        write_topic_id(disk, path, METADATA_TOPIC_ID)
    quorum = SingleQuorum(
        disk,
        directory,
        StorageMetadataLog(log, executor, clock),
        voter=voter,
        clock=clock,
        executor=executor,
        snapshot_interval_bytes=config.long("metadata.log.max.record.bytes.between.snapshots"),
    )
    driver = ControllerDriver(Controller(config, node_id, rng), quorum, clock, on_fault)
    return MetadataNode(driver, log, clock, _initial_levels(disk, log_dir))


def has_metadata(disk: Disk, log_dir: str) -> bool:
    """Whether a metadata log, or a snapshot of one, is there already."""
    directory = f"{log_dir}/{METADATA_PARTITION}"
    if not disk.is_dir(directory):
        return False
    return any(name.endswith((".log", ".checkpoint")) for name in disk.listdir(directory))


def _initial_levels(disk: Disk, log_dir: str) -> list[FeatureLevelRecord]:
    """The levels a new cluster begins with: those of the directory's bootstrap file, or this release's."""
    values = read_bootstrap(disk, log_dir)
    if values is None:
        return features.initial_records()
    records = [decode_record(value) for value in values]
    return [record for record in records if isinstance(record, FeatureLevelRecord)]


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
