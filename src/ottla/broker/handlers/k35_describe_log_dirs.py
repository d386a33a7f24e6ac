"""DescribeLogDirs (key 35), versions 1-5: the log directories, their partitions, and their free space.

Topics null means all. A directory that is offline, or that could not be used at the start, is listed with
KAFKA_STORAGE_ERROR and no partitions. A copy that is to replace a replica in another directory is listed as a future
replica, with its lag.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.errors import ErrorCode
from ottla.base.files import Disk
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import cluster
from ottla.replication.log_moves import LogMoves
from ottla.replication.replicas import Replicas
from ottla.security.resources import Operation
from ottla.storage.log_dirs import LogDirs
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


@handles(
    ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest, versions=(1, 5), requires=cluster(Operation.DESCRIBE)
)
@dataclass(frozen=True)
class DescribeLogDirs:
    """Describes the log directories of this broker."""

    disk: Disk
    replicas: Replicas
    log_dirs: LogDirs
    log_moves: LogMoves

    def handle(self, request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
        wanted = None
        if request.topics is not None:
            wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
        by_directory: dict[str, list[tuple[str, DescribeLogDirsPartition]]] = {}
        for partition in self.replicas:
            if wanted is None or (partition.topic, partition.index) in wanted:
                described = DescribeLogDirsPartition(
                    partition_index=partition.index, partition_size=partition.log.size_bytes, offset_lag=0
                )
                by_directory.setdefault(partition.log.log_dir, []).append((partition.topic, described))
        for move in self.log_moves:
            if wanted is None or move.partition in wanted:
                described = DescribeLogDirsPartition(
                    partition_index=move.partition.partition,
                    partition_size=move.size_bytes,
                    offset_lag=max(0, move.log.log_end_offset - move.end_offset),
                    is_future_key=True,
                )
                by_directory.setdefault(move.target.path, []).append((move.partition.topic, described))
        results = [
            self._directory(directory.path, directory.online, by_directory.get(directory.path, []))
            for directory in self.log_dirs.dirs
        ]
        results += [self._directory(path, False, []) for path in self.log_dirs.unusable]
        return DescribeLogDirsResponse(results=results)

    def _directory(
        self, path: str, online: bool, partitions: list[tuple[str, DescribeLogDirsPartition]]
    ) -> DescribeLogDirsResult:
        if not online:
            return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
        topics: dict[str, list[DescribeLogDirsPartition]] = {}
        for topic, described in partitions:
            topics.setdefault(topic, []).append(described)
        try:
            total, usable = self.disk.total_bytes(path), self.disk.free_bytes(path)
        except OSError:
            total = usable = -1
        return DescribeLogDirsResult(
            log_dir=path,
            topics=[DescribeLogDirsTopic(name=name, partitions=found) for name, found in topics.items()],
            total_bytes=total,
            usable_bytes=usable,
        )
