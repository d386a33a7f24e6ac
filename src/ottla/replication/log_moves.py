"""The moves of replicas between the log directories of this broker (AlterReplicaLogDirs).

A request to move a replica to the directory that it is in ends a move of it; a request for another directory replaces
the move. A request is answered when the directory of the copy is durable, so that a crash does not forget the move: a
broker that stops leaves the copies, and `resume` moves these replicas again after the start. Two moves copy at the same
time, the others wait with empty copies. While the limit of bytes per second is exceeded, none copies.

The directory of a replica that does not exist here yet is remembered for its creation.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from ottla.base.errors import ApiError, ErrorCode, StorageFault
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.metadata.image import MetadataImage
from ottla.replication.partition import Partition
from ottla.replication.quota import ReplicationQuota
from ottla.replication.replicas import Replicas
from ottla.storage.bulk import in_order, run_one
from ottla.storage.log import log_files
from ottla.storage.log.log import Log
from ottla.storage.log_dir import LogDir
from ottla.storage.log_move import LogMove, MoveEnvironment

COPIED_AT_ONCE: Final = 2
_UNIQUE: Final = "0" * 32


class LogMoves:
    """All moves of one broker; their owner."""

    def __init__(
        self,
        node_id: int,
        replicas: Replicas,
        environment: MoveEnvironment,
        image: Callable[[], MetadataImage],
        on_moved: Callable[[Partition], None],
        quota: ReplicationQuota,
    ) -> None:
        """`on_moved` gets each partition whose replica is in another directory now."""
        self._node_id = node_id
        self._replicas = replicas
        self._environment = environment
        self._image = image
        self._on_moved = on_moved
        self._quota = quota
        self._moves: dict[TopicPartition, LogMove] = {}
        self._copying: dict[LogMove, int] = {}
        """Moves that copy, with the bytes that were counted."""
        self._stopping = False

    def __iter__(self) -> Iterator[LogMove]:
        return iter(list(self._moves.values()))

    def alter(self, partition: TopicPartition, path: str) -> Promise[ErrorCode]:
        """Move the replica of a partition to a log directory; the code of Kafka's response."""
        try:
            log_files.future_dir(partition, _UNIQUE)
        except ValueError:
            return Promise.kept(ErrorCode.INVALID_TOPIC_EXCEPTION)
        try:
            return self._alter(partition, self._directory(path))
        except ApiError as error:
            return Promise.kept(error.code)

    def _directory(self, path: str) -> LogDir:
        dirs = self._environment.dirs
        found = next((each for each in dirs.dirs if each.path == path), None)
        if found is None and path not in dirs.unusable:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND)
        if found is None or not found.online:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        return found

    def _alter(self, partition: TopicPartition, target: LogDir) -> Promise[ErrorCode]:
        try:
            log = self._replicas.get(partition.topic, partition.partition).log
        except ApiError as error:
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self._environment.dirs.preferred[partition] = target.path
                raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE) from error
            raise
        if log.offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        move = self._moves.get(partition)
        if move is not None and move.target is target and move.log is log:
            return move.created
        if move is not None:
            move.cancel()
        if log.log_dir == target.path or self._stopping:
            return Promise.kept(ErrorCode.NONE)
        if move is None or move.done.done:
            return self._start(log, target).created
        return self._alter_after(move, target.path)

    def _alter_after(self, move: LogMove, path: str) -> Promise[ErrorCode]:
        """Wait for the end of a move: its copy is being removed, or has just replaced the log."""
        code: Promise[ErrorCode] = Promise()

        def ended(_: None, __: BaseException | None) -> None:
            self.alter(move.partition, path).when_done(lambda found, _: code.keep(found or ErrorCode.NONE))

        move.done.when_done(ended)
        return code

    def _start(self, log: Log, target: LogDir, leftover: str = "") -> LogMove:
        move = LogMove(log, target, self._environment, self, leftover)
        self._moves[log.topic_partition] = move
        move.done.when_done(lambda _, __: self._ended(move))
        move.start()
        return move

    def _ended(self, move: LogMove) -> None:
        self._copying.pop(move, None)
        if self._moves.get(move.partition) is move:
            del self._moves[move.partition]
        for each in self:
            each.proceed()

    def resume(self) -> None:
        """Move the replicas again whose copies the last stop interrupted.

        A copy in the directory of the log itself is what an earlier move left.
        """
        for log_dir in self._environment.dirs.dirs:
            unfinished, log_dir.unfinished = log_dir.unfinished, []
            for partition, leftover in unfinished:
                log = self._environment.dirs.get(partition)
                if log is None or log.log_dir == log_dir.path or partition in self._moves:
                    self._remove(log_dir, leftover)
                else:
                    self._start(log, log_dir, leftover)

    def _remove(self, log_dir: LogDir, leftover: str) -> None:
        def removed(result: Exception | None) -> None:
            if result is not None:
                self._environment.dirs.fail(StorageFault(log_dir.path, result))

        run_one(self._environment.executor, partial(self._environment.disk.rmtree, leftover), removed)

    def stop(self) -> Promise[None]:
        """End all moves; the promise is kept when no copy is used any more."""
        self._stopping = True
        return in_order([move.stop for move in self])

    # The owner of the moves

    def may_copy(self, move: LogMove) -> bool:
        if move not in self._copying and len(self._copying) < COPIED_AT_ONCE:
            self._copying[move] = 0
        if move not in self._copying:
            return False
        quota = self._quota
        if not quota.limited:
            return True
        copied = max(0, move.size_bytes - self._copying[move])
        self._copying[move] = move.size_bytes
        quota.record(copied)
        # Appends to a held log wait for the end of the move.
        if move.holds_log or not quota.exceeded:
            return True
        self._environment.later(quota.wait_s(), move.proceed)
        return False

    def may_exchange(self, move: LogMove) -> bool:
        topic = self._image().topics.by_name.get(move.partition.topic)
        known = None if topic is None else topic.partitions.get(move.partition.partition)
        if known is None or self._node_id not in known.replicas:
            return False
        directory_id = self._environment.dirs.dir_of(move.log).directory_id
        return known.directory_of(self._node_id) == directory_id

    def exchanged(self, move: LogMove, log: Log) -> None:
        self._replicas.log_moved(move.log, log)

    def released(self, move: LogMove, log: Log) -> None:
        try:
            partition = self._replicas.get(move.partition.topic, move.partition.partition)
        except ApiError:
            return  # deleted meanwhile
        if log.offline:
            partition.failed()
        else:
            self._on_moved(partition)
