"""DescribeLogDirs (key 35), versions 1-5: the log directories, what lies in them, and how much room is left.

Topics null means all. A directory that is offline is listed with KAFKA_STORAGE_ERROR and nothing in it.
"""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.broker.registry import Call, handles
from ottla.replication.partition import Partition
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


@handles(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest, versions=(1, 5))
def describe_log_dirs(request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    by_directory: dict[str, list[Partition]] = {}
    for partition in call.broker.replicas:
        if wanted is None or (partition.topic, partition.index) in wanted:
            by_directory.setdefault(partition.log.log_dir, []).append(partition)
    return DescribeLogDirsResponse(
        results=[
            _directory(directory.path, directory.online, by_directory.get(directory.path, []), call)
            for directory in call.broker.log_dirs.dirs
        ]
    )


def _directory(path: str, online: bool, partitions: list[Partition], call: Call) -> DescribeLogDirsResult:
    if not online:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=partition.index, partition_size=partition.log.size_bytes, offset_lag=0
            )
        )
    disk = call.broker.disk
    try:
        total, usable = disk.total_bytes(path), disk.free_bytes(path)
    except OSError:
        total = usable = -1
    return DescribeLogDirsResult(
        log_dir=path,
        topics=[DescribeLogDirsTopic(name=name, partitions=found) for name, found in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
    )
