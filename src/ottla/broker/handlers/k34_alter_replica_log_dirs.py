"""AlterReplicaLogDirs (key 34), versions 1-2: moves replicas between the log directories of this broker (KIP-113).

The response is sent when a restart would continue the moves; DescribeLogDirs shows their progress. A partition that a
request contains twice has the last directory.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.ids import TopicPartition
from ottla.base.settled import settled
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import cluster
from ottla.replication.log_moves import LogMoves
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


@handles(
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDirsRequest,
    versions=(1, 2),
    requires=cluster(Operation.ALTER),
)
@dataclass(frozen=True)
class AlterReplicaLogDirs:
    """Starts and ends moves."""

    log_moves: LogMoves

    async def handle(self, request: AlterReplicaLogDirsRequest, call: Call) -> AlterReplicaLogDirsResponse:
        wanted = {
            TopicPartition(topic.name, index): directory.path
            for directory in request.dirs
            for topic in directory.topics
            for index in topic.partitions
        }
        results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
        codes = {partition: self.log_moves.alter(partition, path) for partition, path in wanted.items()}
        for partition, pending in codes.items():
            code = await settled(pending)
            result = AlterReplicaLogDirPartitionResult(partition_index=partition.partition, error_code=code)
            results.setdefault(partition.topic, []).append(result)
        return AlterReplicaLogDirsResponse(
            results=[
                AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
                for name, partitions in results.items()
            ]
        )
