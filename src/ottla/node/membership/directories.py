"""Reports to the controller in which log directory this broker stores each of its replicas.

A replica whose directory differs from the metadata is reported when it is created or opened; one that replaces a lost
one, when the leader has accepted a fetch of it. From the report on it may join the ISR, so that the leader must not
take the offsets of the lost log for those of the new one. One request is in flight; reports that arrive meanwhile are
sent with the next one. A request that no controller completes, or that is refused as a whole, is repeated: the broker
may have registered again meanwhile, or the controller may have failed. A report that is refused for its partition is
not: the next change of the partition, or the next start, reports it again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from ottla.base.errors import ErrorCode
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ottla.broker.forwarding.controller_channel import ControllerChannel
    from ottla.metadata.image import MetadataImage
    from ottla.peer.connection import Timers
    from ottla.replication.replicas import Replicas
    from ottla.storage.log_dirs import LogDirs

_TIMEOUT_S: Final = 30.0
_RETRY_S: Final = 0.5

Assignments = dict[tuple[uuid.UUID, int], uuid.UUID]
"""The log directory id of each partition (topic id, index)."""


class DirectoryReports:
    """The reports of one registered broker. Concurrency: the event loop only."""

    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        log_dirs: LogDirs,
        replicas: Replicas,
        channel: ControllerChannel,
        timers: Timers,
        log: FilteringBoundLogger,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._log_dirs = log_dirs
        self._replicas = replicas
        self._channel = channel
        self._timers = timers
        self._log = log
        self._waiting: Assignments = {}
        self._in_flight = False
        self._closed = False

    def assigned(self, image: MetadataImage, topic_ids: Iterable[uuid.UUID]) -> None:
        """Report replicas of these topics whose directory differs from the metadata."""
        for topic_id in topic_ids:
            known = image.topics.by_id[topic_id].partitions
            for index, partition in self._replicas.by_id.get(topic_id.bytes, {}).items():
                if partition.replaces_lost:
                    continue
                directory_id = self._log_dirs.dir_of(partition.log).directory_id
                wanted = known.get(index)  # None: created by a later change, which reports it
                if wanted is not None and wanted.directory_of(self._node_id) != directory_id:
                    self._waiting[topic_id, index] = directory_id
        self._send()

    def close(self) -> None:
        """Send nothing more."""
        self._closed = True

    def _send(self) -> None:
        if self._in_flight or not self._waiting or self._closed:
            return
        self._in_flight = True
        assignments, self._waiting = self._waiting, {}
        request = assignment_request(self._node_id, self._broker_epoch(), assignments)
        sent = self._channel.request(request, AssignReplicasToDirsResponse, timeout_s=_TIMEOUT_S)
        sent.when_done(lambda response, error: self._done(assignments, response, error))

    def _done(
        self,
        assignments: Assignments,
        response: AssignReplicasToDirsResponse | None,
        error: BaseException | None,
    ) -> None:
        self._in_flight = False
        if response is not None and response.error_code:
            self._log.warning(
                "the controller refused a report about log directories",
                reason=ErrorCode(response.error_code).name,
            )
        if response is None or response.error_code:
            self._waiting = {**assignments, **self._waiting}
            if not self._closed:
                self._timers.call_later(_RETRY_S, self._send)
            return
        self._send()


def assignment_request(
    node_id: int, broker_epoch: int, assignments: Assignments
) -> AssignReplicasToDirsRequest:
    """The request that assigns partitions to directories."""
    by_directory: dict[uuid.UUID, dict[uuid.UUID, list[PartitionData]]] = {}
    for (topic_id, index), directory_id in assignments.items():
        topics = by_directory.setdefault(directory_id, {})
        topics.setdefault(topic_id, []).append(PartitionData(partition_index=index))
    return AssignReplicasToDirsRequest(
        broker_id=node_id,
        broker_epoch=broker_epoch,
        directories=[
            DirectoryData(
                id=directory_id,
                topics=[
                    TopicData(topic_id=topic_id, partitions=partitions)
                    for topic_id, partitions in topics.items()
                ],
            )
            for directory_id, topics in by_directory.items()
        ],
    )
