"""Reports to the controller about the log directories of this broker: assignments and failures.

A report that is refused is logged and not repeated. The next start reports everything again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from ottla.base.errors import ApiError

if TYPE_CHECKING:
    import uuid

    from structlog.typing import FilteringBoundLogger

    from ottla.controller.port import ControllerPort
    from ottla.metadata.image import MetadataImage
    from ottla.replication.replicas import Replicas
    from ottla.storage.log_dirs import LogDirs


class DirectoryReports:
    """The reports of one registered broker. Concurrency: the event loop only."""

    def __init__(
        self,
        node_id: int,
        broker_epoch: int,
        log_dirs: LogDirs,
        replicas: Replicas,
        controller: ControllerPort,
        log: FilteringBoundLogger,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._log_dirs = log_dirs
        self._replicas = replicas
        self._controller = controller
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()

    def assigned(self, image: MetadataImage, topic_ids: Iterable[uuid.UUID]) -> None:
        """Report replicas of these topics whose directory differs from the metadata."""
        assignments: dict[tuple[uuid.UUID, int], uuid.UUID] = {}
        for topic_id in topic_ids:
            known = image.topics.by_id[topic_id].partitions
            for index, partition in self._replicas.by_id.get(topic_id.bytes, {}).items():
                directory_id = self._log_dirs.dir_of(partition.log).directory_id
                wanted = known.get(index)  # None: created by a later change, which reports it
                if wanted is not None and wanted.directory_of(self._node_id) != directory_id:
                    assignments[topic_id, index] = directory_id
        if assignments:
            self._send(self._controller.assign_directories(self._node_id, assignments))

    def failed(self) -> None:
        """Report the directories that are still online."""
        online = [each.directory_id for each in self._log_dirs.dirs if each.online]
        self._send(self._controller.directories_failed(self._node_id, self._broker_epoch, online))

    def _send(self, report: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._watch(report))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self, report: Coroutine[Any, Any, None]) -> None:
        try:
            await report
        except ApiError as error:
            self._log.warning("the controller refused a report about log directories", reason=str(error))
