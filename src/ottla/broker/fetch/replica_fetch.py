"""The fetch of a follower: it reads up to the readable end of the log and reports what the follower has.

The fetch offset of each listed partition, the durable end of the follower, is recorded once per request
(`Partition.fetched_by`): when a plan is made again after a wait, the follower may have stopped. A partition of another
leader epoch, or whose log diverges, is refused before anything is recorded. If the follower has a newer leader epoch
than this broker, the request waits for it.

Nearly every request is sent by a follower that has just appended all records and waits for more. Such a request is
recorded and waits; no plan is made for it (`_finds_nothing`). The plan of its response reads the partitions that have
more records by then; of those whose offsets have moved alone, it contains the offsets.

A throttled replica that is not in sync gets no records while the limit of this broker is exceeded
(`replication.quota`). The request then waits as if there were none.

A request without a session waits on its partitions by itself. With a session, the session waits (`replica_sessions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.timer import TimerHandle
from ottla.broker.fetch.fetch_request import UNKNOWN, FetchServices, PendingFetch, Planned
from ottla.broker.fetch.replica_sessions import ReplicaSession
from ottla.broker.fetch.sessions import FetchContext, PartitionKey
from ottla.replication.quota import is_throttled
from ottla.replication.readable_partition import NO_EPOCH, Read
from ottla.wire.fetch import FetchPartition, FetchRequest, PartitionData
from ottla.wire.produce import NodeEndpoint

if TYPE_CHECKING:
    from ottla.broker.net.connection import Connection
    from ottla.broker.quotas import TrafficQuota
    from ottla.broker.registry import Call
    from ottla.replication.partition import Partition


class PendingReplicaFetch(PendingFetch):
    """The state of one fetch of a follower, from planning to its response."""

    absent = UNKNOWN | {ErrorCode.NOT_LEADER_OR_FOLLOWER}

    __slots__ = ("_replanned", "_session", "_unrecorded", "_was_planned")

    def __init__(
        self,
        services: FetchServices,
        connection: Connection,
        call: Call,
        request: FetchRequest,
        context: FetchContext,
    ) -> None:
        super().__init__(services, connection, call, request, context)
        self._committed = False
        self._unrecorded: set[PartitionKey] = set()
        """Listed partitions whose fetch offsets are not recorded yet."""
        self._session = context.session if isinstance(context.session, ReplicaSession) else None
        self._was_planned = False
        self._replanned = False
        """Whether all listed partitions were read or recorded before the current plan."""

    def start(self) -> None:
        if self._session is not None:
            self._session.confirm()
        if self._finds_nothing():
            self._was_planned = True
            self._connection.reserve(self, exclusive=True)
            self._watch()
            self._wait()
        else:
            self._unrecorded = {
                (key, one.partition) for key, wanted in self._request.topics for one in wanted
            }
            super().start()
        if self._timer is not None:
            # The next request has positions of other partitions: the follower does not wait for them.
            self._connection.watch_next_request(self._expire)

    def _finds_nothing(self) -> bool:
        """Record the request of a follower that has all records and may wait for more; False if a plan is needed."""
        session, request = self._session, self._request
        if session is None or self._context.full or request.max_wait_ms <= 0 or request.min_bytes <= 0:
            return False
        replica_id, replica_epoch = request.replica_id, request.replica_epoch
        for topic, entries in request.topics:
            for wanted in entries:
                key = (topic, wanted.partition)
                partition = session.watched(key)
                if partition is None or not partition.fetched_at_end(
                    replica_id,
                    replica_epoch,
                    wanted.fetch_offset,
                    wanted.log_start_offset,
                    leader_epoch=wanted.current_leader_epoch,
                    last_fetched_epoch=wanted.last_fetched_epoch,
                ):
                    return False
                session.caught_up(key)
        return session.awaits_nothing

    def _set_timer(self, seconds: float) -> TimerHandle:
        if self._session is None:
            return super()._set_timer(seconds)
        timer = self._session.timer
        if timer is None:
            timer = self._session.timer = self._services.purgatory.reused_timer()
        return timer.start(seconds, self._expire)

    def _stop_waiting(self) -> None:
        self._connection.on_next_request = None
        super()._stop_waiting()

    def _make_plan(self) -> None:
        self._replanned = self._was_planned
        if self._session is not None and self._was_planned:
            self._context.renew()  # other partitions are due since the last plan
        self._was_planned = True
        super()._make_plan()
        if self._session is not None and self._session.must_respond:
            self._must_respond = True

    def _watch(self) -> bool:
        if self._session is not None:
            self._session.waiting = self
            return True
        for partition in self._watched:
            partition.replica_waiters[self] = None
        return bool(self._watched)

    def _unwatch(self) -> None:
        if self._session is None:
            for partition in self._watched:
                partition.replica_waiters.pop(self, None)
        elif self._session.waiting is self:
            self._session.waiting = None

    def partition_moved(self, partition: Partition) -> None:
        if not self._checking:
            self._checking = True
            self._services.purgatory.soon(self._check)

    def high_watermark_moved(self, partition: Partition) -> None:
        """The response will contain it, but is not sent because of it."""

    def log_start_moved(self, partition: Partition) -> None:
        """The response will contain it; a follower without a session lists all its partitions in the next request."""

    def _check(self) -> None:
        """Respond if there are enough bytes now."""
        self._checking = False
        if self._timer is None:
            return
        self._unwatch()
        self._make_plan()
        if self._must_respond or self._plan_bytes >= self._request.min_bytes:
            self._stop_waiting()
            self._load()
        else:
            self._watch()

    def _authorize(self, topic: str) -> None:
        """Do nothing: the handler has checked the right of a follower, which does not depend on the topic."""

    def _authorize_missing(self, key: bytes) -> None:
        """Do nothing, for the same reason."""

    def _find(self, key: bytes, index: int) -> Partition:
        session = self._session
        if session is None:
            return super()._find(key, index)
        partition = session.watched((key, index))
        if partition is not None and partition.leads:
            return partition
        try:
            return super()._find(key, index)
        except ApiError:
            session.failed((key, index))
            raise

    def _read(
        self, key: bytes, partition: Partition, wanted: FetchPartition, max_bytes: int, min_one: bool
    ) -> Planned:
        request, session = self._request, self._session
        if session is not None and self._replanned and not session.is_behind((key, wanted.partition)):
            return self._planned(key, partition, wanted, Read(partition, None, wanted.fetch_offset))
        behind = True
        quota = self._services.quotas.leader_replication
        throttled = quota.limited and self._is_throttled(partition)
        if throttled and request.replica_id not in partition.isr and quota.exceeded:
            max_bytes, min_one = 0, False
        try:
            partition.check_replica(request.replica_id, max(NO_EPOCH, wanted.current_leader_epoch))
            read = partition.read_for_replica(
                wanted.fetch_offset,
                max(0, max_bytes),
                last_fetched_epoch=wanted.last_fetched_epoch,
                min_one=min_one,
            )
            if read.diverging is None:
                if (key, wanted.partition) in self._unrecorded:
                    self._unrecorded.remove((key, wanted.partition))
                    partition.fetched_by(
                        request.replica_id,
                        request.replica_epoch,
                        wanted.fetch_offset,
                        wanted.log_start_offset,
                    )
                    read.high_watermark = partition.high_watermark
                behind = wanted.fetch_offset < read.upto
            planned = self._planned(key, partition, wanted, read)
            planned.throttled = throttled
        except ApiError as error:
            if error.code == ErrorCode.UNKNOWN_LEADER_EPOCH:
                # The follower has a newer image than this broker, which will have it soon.
                return Planned(key, PartitionData(wanted.partition, error.code))
            return self._refused(key, wanted, error)
        else:
            return planned
        finally:
            if session is not None:
                session.watch(partition, (key, wanted.partition), behind=behind)

    def _is_throttled(self, partition: Partition) -> bool:
        replicas = partition.log.config.leader_replication_throttled_replicas
        return is_throttled(replicas, partition.index, partition.leader)

    def _throttled(self, quota: TrafficQuota) -> bool:
        """False: quotas of clients do not include replication."""
        return False

    def _count(self) -> None:
        """Count the bytes of throttled replicas; the metrics count fetches of consumers only."""
        quota = self._services.quotas.leader_replication
        if quota.limited:
            quota.record(sum(planned.size for planned in self._plan if planned.throttled))

    def _hints(self, topics: list[tuple[bytes, list[PartitionData]]]) -> list[NodeEndpoint]:
        """Set the leaders, without endpoints: brokers have those of other brokers."""
        super()._hints(topics)
        return []
