"""Fetch sessions of followers: a request costs what has changed since the last one, not what the session contains.

A session watches its partitions all the time. A partition is *due* when its next response may differ from the last
one: it was listed in a request, has more records, another high watermark or another leader. A request reads only the
due partitions. A partition stops being due when a response has been made from it, nothing has moved since, and the
follower had all its records. A response contains the offsets of every partition that was listed since the last one:
the follower ignores what it receives of a partition after it has sent another position.

A follower that has all records of a partition does not list it again. Its fetches still show that it is caught up:
when the partition moves, its leader state gets the time of the last request (`Partition.fetched_before`). When records
are deleted, the next request confirms the position that the session has (`confirm`): the leader state may have that of
another request.

Sessions of followers are not evicted by those of consumers. A follower has one session: an earlier one of the same
broker is removed when it creates another, so that a request of the old session that arrives late has no effect. One
that is not used for long is removed when another follower creates a session.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from ottla.base.errors import ApiError
from ottla.broker.fetch.sessions import FetchSession, FetchSessions, PartitionKey
from ottla.wire.fetch import FetchPartition, FetchRequest, PartitionData

if TYPE_CHECKING:
    from ottla.base.rng import Random
    from ottla.base.timer import ReusedTimer
    from ottla.replication.partition import Partition, ReplicaWaiter

_NOT_SENT: Final = -1
_SLOTS: Final = 10_000
_UNUSED_SECONDS: Final = 120.0


class ReplicaSession(FetchSession):
    """The partitions that one follower copies from this broker."""

    __slots__ = (
        "_behind",
        "_by_key",
        "_due",
        "_moves",
        "_planned",
        "_unconfirmed",
        "_watched",
        "must_respond",
        "replica_epoch",
        "replica_id",
        "timer",
        "waiting",
    )

    def __init__(
        self, session_id: int, by_id: bool, now: float, *, replica_id: int, replica_epoch: int
    ) -> None:
        super().__init__(session_id, by_id, now)
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.waiting: ReplicaWaiter | None = None
        """The request that waits for more records."""
        self.timer: ReusedTimer | None = None
        """Ends the wait of a request."""
        self.must_respond = False
        """Whether the next response is sent at once, with or without records."""
        self._moves = 0
        self._due: dict[PartitionKey, int] = {}
        """Due partitions, each with the number of its last move."""
        self._planned: dict[PartitionKey, int] = {}
        self._behind: set[PartitionKey] = set()
        """Partitions of which the follower does not have all records, or that failed."""
        self._unconfirmed: set[PartitionKey] = set()
        """Partitions whose positions are recorded again with the next request."""
        self._watched: dict[Partition, PartitionKey] = {}
        self._by_key: dict[PartitionKey, Partition] = {}

    # The request

    def update(self, request: FetchRequest) -> None:
        super().update(request)
        for key, wanted in request.topics:
            for partition in wanted:
                known = self.partitions.get((key, partition.partition))
                if known is not None:  # the request may list a partition and forget it
                    known.high_watermark = _NOT_SENT
                    self._mark((key, partition.partition))
        for key, indexes in request.forgotten:
            for index in indexes:
                self._forget((key, index))

    def confirm(self) -> None:
        """A request has arrived: it confirms the positions of all partitions of the session, listed or not."""
        unconfirmed, self._unconfirmed = self._unconfirmed, set()
        for key in unconfirmed:
            partition, known = self._by_key.get(key), self.partitions.get(key)
            if partition is None or known is None:
                continue
            position = known.wanted
            if position.current_leader_epoch == partition.leader_epoch:
                with suppress(ApiError):  # the request is refused where the partition is read
                    partition.fetched_by(
                        self.replica_id, self.replica_epoch, position.fetch_offset, position.log_start_offset
                    )

    def wanted(self) -> list[tuple[bytes, FetchPartition]]:
        """The due partitions, those first that have waited longest."""
        self._planned = dict(self._due)
        return [(key[0], self.partitions[key].wanted) for key in self._due]

    def changed(
        self, results: Iterable[tuple[bytes, PartitionData]], *, reorder: bool
    ) -> list[tuple[bytes, PartitionData]]:
        sent = super().changed(results, reorder=False)
        self.must_respond = False
        for key, move in self._planned.items():
            if self._due.get(key) != move:
                continue
            del self._due[key]
            if key in self._behind:
                self._due[key] = move  # at the end: the others are served first
        self._planned = {}
        return sent

    # The partitions

    def watch(self, partition: Partition, key: PartitionKey, *, behind: bool) -> None:
        """A response is being made from a partition; `behind`: the follower does not have all its records."""
        if partition not in self._watched:
            self._unwatch(key)
            self._watched[partition] = key
            self._by_key[key] = partition
            partition.replica_waiters[self] = None
        if behind:
            self._behind.add(key)
        else:
            self._behind.discard(key)

    def watched(self, key: PartitionKey) -> Partition | None:
        """The partition from which the last response for `key` was made."""
        return self._by_key.get(key)

    def caught_up(self, key: PartitionKey) -> None:
        """The follower has all records of a partition; the next response contains its offsets only."""
        self._behind.discard(key)

    def is_behind(self, key: PartitionKey) -> bool:
        """Whether the follower does not have all records of a partition, or the partition failed."""
        return key in self._behind

    @property
    def awaits_nothing(self) -> bool:
        """Whether a response now would have no records and no errors."""
        return not self._behind and not self.must_respond

    def failed(self, key: PartitionKey) -> None:
        """A partition cannot be read: it stays due."""
        self._behind.add(key)

    def partition_moved(self, partition: Partition) -> None:
        key = self._watched[partition]
        if key not in self._behind:
            self._behind.add(key)
            partition.fetched_before(self.replica_id, self.used)
        self._mark(key)
        if self.waiting is not None:
            self.waiting.partition_moved(partition)

    def high_watermark_moved(self, partition: Partition) -> None:
        self._mark(self._watched[partition])

    def log_start_moved(self, partition: Partition) -> None:
        """The follower gets it even if it has got it before: it then reports its own log start, which may be newer."""
        key = self._watched[partition]
        if key in self.partitions:
            self.partitions[key].log_start_offset = -1
            self.must_respond = True
            self._unconfirmed.add(key)
            self._mark(key)
            if self.waiting is not None:
                self.waiting.partition_moved(partition)

    def _mark(self, key: PartitionKey) -> None:
        if key in self.partitions:
            self._moves += 1
            self._due[key] = self._moves

    def appeared(self, partition: Partition, key: PartitionKey) -> None:
        """A partition that could not be read is served now."""
        if key in self._due:
            self._mark(key)
            if self.waiting is not None:
                self.waiting.partition_moved(partition)

    def _forget(self, key: PartitionKey) -> None:
        self._due.pop(key, None)
        self._behind.discard(key)
        self._unwatch(key)

    def _unwatch(self, key: PartitionKey) -> None:
        partition = self._by_key.pop(key, None)
        if partition is not None:
            del self._watched[partition]
            partition.replica_waiters.pop(self, None)

    def close(self) -> None:
        for key in list(self._by_key):
            self._unwatch(key)


class ReplicaSessions(FetchSessions):
    """The sessions of the followers of this broker."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng, _SLOTS)

    def appeared(self, partition: Partition) -> None:
        """This broker serves a partition from now on; its followers may be waiting for it."""
        for session in self._sessions.values():
            key = partition.topic_id.bytes if session.by_id else partition.topic.encode()
            cast(ReplicaSession, session).appeared(partition, (key, partition.index))

    def _new(self, session_id: int, by_id: bool, now: float, request: FetchRequest) -> FetchSession:
        for session in list(self._sessions.values()):
            old = cast(ReplicaSession, session)
            replaced = old.replica_id == request.replica_id and old.replica_epoch <= request.replica_epoch
            if replaced or now - old.used > _UNUSED_SECONDS:
                self._remove(old.session_id)
        return ReplicaSession(
            session_id,
            by_id,
            now,
            replica_id=request.replica_id,
            replica_epoch=request.replica_epoch,
        )
