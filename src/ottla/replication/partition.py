"""One replica of a partition: its log, its role, its high watermark, and the requests that wait for them.

`become` assigns the role that the metadata log gives to this broker: leader or follower, in a leader epoch. The
leader appends, and advances the high watermark to the offset that every in-sync replica has (`replication.leader`). A
replica has a record when its log's `committable_offset` has passed it: written, and synced if the topic's
`flush.messages` requires it. If this broker has the only replica, the local log decides. A follower takes over the
high watermark of its leader and refuses appends.

Waiters are notified when an offset is committable (acks=1), when it is committed (acks=all), when more can be
read, and when the leadership ends. A waiter queue is in log order, so only its head is examined. Consumers wait for
the high watermark (`read_waiters`), followers for the start and the end of each write (`replica_waiters`).

Invariants: log_start_offset <= high_watermark <= log_end_offset; the high watermark never moves back while
this broker leads; no acks=all request succeeds before the high watermark covers its records.

Concurrency: the event loop only. Failure: a log in an offline directory raises KAFKA_STORAGE_ERROR; its waiters
are notified at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from ottla.base.errors import ApiError, ErrorCode, StorageFault
from ottla.base.ids import Uuid
from ottla.base.promise import Promise
from ottla.metadata.image import PartitionImage
from ottla.records.batch import HEADER_SIZE, TimestampType, read_header
from ottla.records.control import EndTxnMarker, build_end_txn_batch
from ottla.records.validation import BatchRules, ValidBatch, validate
from ottla.replication.cluster_view import ClusterView
from ottla.replication.leader import IsrProposal, LeaderState
from ottla.replication.readable_partition import NO_EPOCH, NO_OFFSET, ReadablePartition
from ottla.replication.refused_batches import RefusedBatches
from ottla.storage.log.appended import Appended
from ottla.storage.log.bulk_append import AppendLimits, BulkAppend
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.producers.producer_state import Verification

ACKS_ALL: Final = -1
EPOCH_PER_TRANSACTION_SINCE: Final = 12
"""The first Produce version whose clients raise their epoch with every transaction (KIP-890) ..."""
EPOCH_PER_TRANSACTION_VERSION: Final = 2
"""... and the transaction.version that enables it."""


class AppendWaiter(Protocol):
    """Waits for an append to be acknowledged."""

    def append_done(self, error: ErrorCode) -> None: ...


class ReadWaiter(Protocol):
    """Waits for records to read; notified each time there may be more, until it is removed."""

    def partition_moved(self, partition: Partition) -> None: ...


class ProgressListener(Protocol):
    """The follower's side of a partition (`broker.replica`); notified when records of its log are committable."""

    def log_progressed(self) -> None: ...


class ReplicaWaiter(ReadWaiter, Protocol):
    """Waits for records to copy to a follower."""

    def high_watermark_moved(self, partition: Partition) -> None:
        """The follower gets the offsets with its next response; a move of them alone does not cause one."""
        ...

    def log_start_moved(self, partition: Partition) -> None:
        """The follower gets the log start with a response at once, and reports its own with its next request."""
        ...


class Partition(ReadablePartition):
    """A partition of which this broker has a replica."""

    __slots__ = (
        "_all_waiters",
        "_commit_waiters",
        "_deletions",
        "_local_waiters",
        "_min_insync_replicas",
        "_refusals",
        "_rules",
        "_schedule",
        "follower",
        "read_waiters",
        "replaces_lost",
        "replica_waiters",
    )

    def __init__(
        self,
        log: Log,
        topic_id: Uuid,
        node_id: int,
        schedule: Callable[[Log], None],
        on_fault: Callable[[StorageFault], None],
        cluster: ClusterView,
    ) -> None:
        super().__init__(log, topic_id, node_id, on_fault, cluster)
        self.read_waiters: dict[ReadWaiter, None] = {}
        self.replica_waiters: dict[ReplicaWaiter, None] = {}
        self.follower: ProgressListener | None = None
        self.replaces_lost = False
        """Whether the log replaces a lost one, and the leader has not accepted a fetch of it yet."""
        self._schedule = schedule
        self._refusals: RefusedBatches | None = None
        self._local_waiters: deque[tuple[int, AppendWaiter]] = deque()
        self._all_waiters: deque[tuple[int, AppendWaiter]] = deque()
        self._commit_waiters: deque[tuple[int, AppendWaiter]] = deque()
        self._deletions: list[tuple[int, Promise[int]]] = []
        self.reconfigure(log.config)

    # Leadership and settings

    def become(self, image: PartitionImage) -> None:
        """Apply the partition's state in the metadata log: role, leader epoch, replicas and ISR."""
        same_term = self.leader == image.leader and self.leader_epoch == image.leader_epoch
        keeps_leading = self.leads and image.leader == self.node_id
        self.leader = image.leader
        self.leader_epoch = image.leader_epoch
        self.replicas = image.replicas
        self.isr = image.isr
        self.log.is_copy = not self.leads
        if not same_term:
            self._leading = None
            self.log.followed = False
            self.epoch_start_offset = NO_OFFSET
            self._end_term(keeps_leading)
        if self.leads:
            if not same_term:
                # Record the leader epoch even if the log is empty.
                self.epoch_start_offset = self.log.log_end_offset
                self.log.epochs.assign(self.leader_epoch, self.epoch_start_offset)
            self._follow_isr(image)
            self.progressed()
            self._check_deletions()
        elif not same_term:
            # Forget an epoch in which this broker led and appended nothing: the next records may be of an earlier one.
            self.log.epochs.truncate_from_end(self.log.log_end_offset)

    def _end_term(self, keeps_leading: bool) -> None:
        """Notify the waiters of the end of a leader epoch.

        A leader that stays, as at the end of a reassignment, has all records that producers wait for in its log, and
        acknowledges them in the new epoch. Coordinators wait in one epoch only.
        """
        if keeps_leading:
            self._fail(self._commit_waiters, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._notify(self.read_waiters)
            self._notify(self.replica_waiters)
        else:
            self._fail_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _follow_isr(self, image: PartitionImage) -> None:
        """Update the leader's state of the followers; there is none while no other broker has a replica."""
        now = self._cluster.clock.monotonic()
        if image.replicas == (self.node_id,):
            self._leading = None
        elif self._leading is None:
            minimum = self._min_insync_replicas
            self._leading = LeaderState(self.node_id, image, self.epoch_start_offset, minimum, now)
        else:
            self._leading.update(image, now)
            self._propose_idle(self._leading)
        self.log.followed = self._leading is not None
        if self._all_waiters and self._under_min_isr():
            # The records are in the log, but on fewer replicas than they must be.
            self._fail(self._all_waiters, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def reconfigure(self, config: LogConfig) -> None:
        if self.log.config is not config:
            self.log.reconfigure(config)
        stamped = config.message_timestamp_type == "LogAppendTime"
        self._min_insync_replicas = config.min_insync_replicas
        if self._leading is not None:
            self._leading.set_min_insync_replicas(config.min_insync_replicas)
        self._rules = BatchRules(
            max_message_bytes=config.max_message_bytes,
            compression_type=config.compression_type,
            gzip_level=config.compression_gzip_level,
            lz4_level=config.compression_lz4_level,
            zstd_level=config.compression_zstd_level,
            timestamp_type=TimestampType.LOG_APPEND_TIME if stamped else TimestampType.CREATE_TIME,
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            compacted=config.compacted,
        )

    # Appending

    def append(
        self,
        records: memoryview,
        acks: int,
        now_ms: int,
        api_version: int,
        verification: Verification | None = None,
    ) -> Appended:
        """Validate and stage one produced batch; it is committed when the high watermark has passed it.

        A transaction begins here only with its `verification` (`verify`).
        """
        if self.leader != self.node_id:
            if self.log.offline:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
            raise self._refused(records, ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms)
        if acks == ACKS_ALL and len(self.isr) < self._min_insync_replicas and self._under_min_isr():
            earlier = self._committed_before(records)
            if earlier is None:
                raise self._refused(records, ErrorCode.NOT_ENOUGH_REPLICAS, now_ms)
            return earlier
        if self._refusals is not None:
            self._check_predecessor(records, self._refusals, now_ms)
        traffic = self.traffic
        traffic.produce_requests += 1
        batch = validate(records, self._rules, now_ms, api_version=api_version)
        try:
            appended = self.log.append(
                batch,
                self.leader_epoch,
                now_ms,
                epoch_per_transaction=api_version >= EPOCH_PER_TRANSACTION_SINCE,
                verification=verification,
            )
        except StorageFault as fault:
            raise self._storage_error(fault) from fault
        if not appended.duplicate:
            traffic.messages_in += appended.last_offset - appended.base_offset + 1
            traffic.bytes_in += len(records)
            self._schedule(self.log)
        return appended

    def _committed_before(self, records: memoryview) -> Appended | None:
        """The position of a batch that is sent again although it is committed; None if it is another batch.

        It is acknowledged however small the ISR is now. Otherwise later batches could be appended before its next
        attempt, until the log does not remember it any more.
        """
        if len(records) < HEADER_SIZE:
            return None
        header = read_header(records)
        entry = self.log.producers.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            return None
        found = entry.find(header.base_sequence, header.last_sequence)
        if found is None or found.last_offset >= self.log.high_watermark:
            return None
        return Appended(found.base_offset, found.last_offset, found.timestamp, True)

    def _refused(self, records: memoryview, error: ErrorCode, now_ms: int) -> ApiError:
        """The error of a batch that may be accepted soon; those that follow it must not be accepted before."""
        if self._refusals is None:
            self._refusals = RefusedBatches()
        self._refusals.add(records, error, now_ms)
        return ApiError(error)

    def _check_predecessor(self, records: memoryview, refusals: RefusedBatches, now_ms: int) -> None:
        error = refusals.error_of_predecessor(records, self.log.producers, now_ms)
        if error is not None:
            raise self._refused(records, error, now_ms)
        if not refusals:
            self._refusals = None

    def append_own(
        self,
        data: memoryview,
        now_ms: int,
        *,
        verification: Verification | None = None,
        transaction_version: int = 0,
    ) -> Appended:
        """Stage a batch that a coordinator built, of records or a marker; raises ApiError.

        `transaction_version` selects the rules for the epochs of a marker's producer.
        """
        self.check_leader()
        self.check_append()
        try:
            appended = self.log.append(
                ValidBatch(data, read_header(data)),
                self.leader_epoch,
                now_ms,
                epoch_per_transaction=transaction_version >= EPOCH_PER_TRANSACTION_VERSION,
                verification=verification,
            )
        except StorageFault as fault:
            raise self._storage_error(fault) from fault
        self._schedule(self.log)
        return appended

    def check_append(self) -> None:
        """Raise the ApiError with which an append that all in-sync replicas must acknowledge is refused."""
        if len(self.isr) < self._min_insync_replicas and self._under_min_isr():
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def append_marker(
        self,
        marker: EndTxnMarker,
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        *,
        transaction_version: int = 0,
    ) -> Appended:
        """End a producer's transaction in this partition; raises ApiError if a fencing rule applies."""
        batch = build_end_txn_batch(
            marker, timestamp=now_ms, producer_id=producer_id, producer_epoch=producer_epoch
        )
        return self.append_own(memoryview(bytearray(batch)), now_ms, transaction_version=transaction_version)

    def verify(self, producer_id: int, epoch: int, base_sequence: int, now_ms: int) -> Verification | None:
        """Start the verification of a transaction before its first batch; None if it has begun in this partition."""
        self.check_leader()
        return self.log.producers.start_verification(producer_id, epoch, base_sequence, now_ms)

    def bulk_limits(self, acks: int, now_ms: int) -> AppendLimits | None:
        """Return the limits of a bulk append; None if the next batch must be appended singly."""
        rules = self._rules
        if self.leader != self.node_id or not rules.keeps_plain:
            return None
        if acks == ACKS_ALL and len(self.isr) < self._min_insync_replicas and self._under_min_isr():
            return None
        return self.log.bulk_limits(self.leader_epoch, rules, now_ms)

    def append_bulk(self, bulk: BulkAppend, requests: int) -> None:
        """Stage a bulk append of so many requests, within the limits of `bulk_limits`."""
        traffic = self.traffic
        traffic.produce_requests += requests
        traffic.messages_in += bulk.next_offset - self.log.log_end_offset
        traffic.bytes_in += len(bulk.data)
        self.log.append_bulk(bulk)
        self._schedule(self.log)

    @property
    def min_in_sync(self) -> int:
        """How many in-sync replicas acks=all requires."""
        # A topic with fewer replicas than the setting requires could never be written to: the limit is capped.
        return min(self._min_insync_replicas, len(self.replicas))

    def _under_min_isr(self) -> bool:
        return len(self.isr) < self.min_in_sync

    def wait_committed(self, end_offset: int, waiter: AppendWaiter) -> None:
        """Notify `waiter` when all records below `end_offset` are committed, however small the ISR is meanwhile."""
        if end_offset > self.log.high_watermark:
            self._commit_waiters.append((end_offset, waiter))
        else:
            waiter.append_done(ErrorCode.NONE)

    def wait_append(self, end_offset: int, acks: int, waiter: AppendWaiter) -> None:
        """Notify `waiter` when all records below `end_offset` are acknowledged, at once if they are already."""
        if acks == ACKS_ALL:
            if end_offset > self.log.high_watermark:
                self._all_waiters.append((end_offset, waiter))
                return
        elif end_offset > self.log.committable_offset:
            self._local_waiters.append((end_offset, waiter))
            return
        waiter.append_done(ErrorCode.NONE)

    def progressed(self) -> None:
        """The local log has more committable records: advance the high watermark and notify the waiters."""
        if self.leader != self.node_id:
            if self.follower is not None:
                self.follower.log_progressed()
            return
        committable = self.log.committable_offset
        self._wake(self._local_waiters, committable)
        leading = self._leading
        if leading is not None:
            self._notify(self.replica_waiters)
            committable = leading.high_watermark(committable, self.log.high_watermark)
        # Without followers the committable records are committed.
        if committable > self.log.high_watermark:
            self._move_high_watermark(committable)

    def _move_high_watermark(self, offset: int) -> None:
        self.log.high_watermark = offset
        self._wake(self._all_waiters, offset)
        if self._commit_waiters:
            self._wake(self._commit_waiters, offset)
        self._notify(self.read_waiters)
        if self.replica_waiters:
            self._report_offsets()

    def _report_offsets(self) -> None:
        """Followers get the new high watermark or log start offset with their next responses."""
        for waiter in list(self.replica_waiters):
            waiter.high_watermark_moved(self)

    def write_started(self) -> None:
        """Records are being written: followers can copy them meanwhile."""
        if self._leading is not None:
            self._notify(self.replica_waiters)

    def follow_high_watermark(self, offset: int) -> None:
        """As a follower, take over the leader's high watermark as far as the local log has the records."""
        reached = min(offset, self.log.log_end_offset)
        if self.leader != self.node_id and reached > self.log.high_watermark:
            self._move_high_watermark(reached)

    # Followers

    def check_replica(self, replica_id: int, claimed_epoch: int) -> None:
        """Raise ApiError unless this broker leads in the claimed epoch and the other has a replica."""
        self.check_leader(claimed_epoch)
        if self._leading is None or replica_id not in self._leading.followers:
            # With an epoch the replica may be one of a newer image than this broker's: it tries again.
            known = claimed_epoch == NO_EPOCH
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"broker {replica_id} has no replica of {self.topic}-{self.index}",
            )

    def fetched_by(self, replica_id: int, broker_epoch: int, offset: int, log_start_offset: int) -> None:
        """A follower fetches from `offset`: it has everything below, durably. Raises ApiError if it is fenced."""
        leading, cluster, log = self._leading, self._cluster, self.log
        if leading is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        leading.fetched(
            replica_id,
            broker_epoch,
            offset,
            log_start_offset,
            leader_end=log.readable_offset,
            brokers=cluster.brokers,
            now=cluster.clock.monotonic(),
            lag_max=cluster.lag_max_s,
        )
        requests = cluster.isr_requests
        if requests is not None and replica_id not in self.isr:
            self._submit(
                leading.propose_expansion(
                    replica_id, log.high_watermark, cluster.brokers, requests.broker_epoch
                )
            )
        self._advance()
        self._check_deletions()

    def fetched_at_end(
        self,
        replica_id: int,
        broker_epoch: int,
        offset: int,
        log_start_offset: int,
        *,
        leader_epoch: int,
        last_fetched_epoch: int,
    ) -> bool:
        """Record the fetch of a follower that has all readable records; False, and nothing is recorded, otherwise.

        False also if records are being written, which the follower may copy, or if the fetch may be refused.
        """
        log = self.log
        if (
            offset != log.readable_offset
            or leader_epoch != self.leader_epoch
            or last_fetched_epoch != log.latest_epoch
            or log.job_outstanding
            or log.offline
        ):
            return False
        try:
            self.fetched_by(replica_id, broker_epoch, offset, log_start_offset)
        except ApiError:
            return False
        return True

    def fetched_before(self, replica_id: int, at: float) -> None:
        """A follower had all readable records at the time of its last fetch, which did not list this partition."""
        if self._leading is not None:
            self._leading.fetched_before(replica_id, at)

    def check_isr(self) -> None:
        """Propose to remove followers that lag; called periodically."""
        leading, cluster = self._leading, self._cluster
        if leading is None:
            return
        now, lag_max = cluster.clock.monotonic(), cluster.lag_max_s
        if leading.review(cluster.brokers, now, lag_max):
            self._advance()
        requests = cluster.isr_requests
        if requests is not None:
            end = self.log.readable_offset
            self._submit(leading.propose_shrink(end, now, lag_max, requests.broker_epoch))
            self._propose_idle(leading)

    def _propose_idle(self, leading: LeaderState) -> None:
        """Propose a follower that has all records: it does not list the partition again until there are more."""
        requests = self._cluster.isr_requests
        if requests is None:
            return
        for replica_id in leading.caught_up_outside(self.log.readable_offset):
            self._submit(
                leading.propose_expansion(
                    replica_id, self.log.high_watermark, self._cluster.brokers, requests.broker_epoch
                )
            )

    def brokers_changed(self) -> None:
        """Brokers were fenced or unfenced: no deletion, and no high watermark, waits for a fenced one."""
        leading, cluster = self._leading, self._cluster
        if leading is None:
            return
        self._check_deletions()
        if leading.review(cluster.brokers, cluster.clock.monotonic(), cluster.lag_max_s):
            self._advance()
        self._propose_idle(leading)

    def wants(self, proposal: IsrProposal) -> bool:
        """Whether the proposed change of the ISR is still pending."""
        return self._leading is not None and self._leading.pending == proposal

    def withdraw(self, proposal: IsrProposal) -> None:
        """The controller has refused a change of the ISR."""
        if self._leading is not None and self._leading.withdraw(proposal):
            self._advance()

    def _submit(self, proposal: IsrProposal | None) -> None:
        if proposal is not None and self._cluster.isr_requests is not None:
            self._cluster.isr_requests.submit(self, proposal)

    def _advance(self) -> None:
        log, leading = self.log, self._leading
        if leading is not None:
            reached = leading.high_watermark(log.committable_offset, log.high_watermark)
            if reached > log.high_watermark:
                self._move_high_watermark(reached)

    @property
    def low_watermark(self) -> int:
        """The smallest log start of the replicas on live brokers: what is below is deleted on all of them."""
        start, leading = self.log.log_start_offset, self._leading
        return start if leading is None else leading.low_watermark(start, self._cluster.brokers)

    def delete_records(self, offset: int) -> Promise[int]:
        """Delete the records below `offset`; the result is the low watermark, when it has reached `offset`."""
        if not self.log.config.deleted:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "the topic's cleanup.policy does not delete")
        if offset < 0:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.log.increment_log_start_offset(offset)
        deleted: Promise[int] = Promise()
        self._deletions.append((offset, deleted))
        for waiter in list(self.replica_waiters):
            waiter.log_start_moved(self)
        self._check_deletions()
        return deleted

    def _check_deletions(self) -> None:
        """Complete the deletions that all live replicas have made."""
        if not self._deletions:
            return
        low_watermark, waiting = self.low_watermark, self._deletions
        self._deletions = [one for one in waiting if one[0] > low_watermark]
        for offset, deleted in waiting:
            if offset <= low_watermark:
                deleted.keep(low_watermark)

    def failed(self) -> None:
        """The log directory went offline."""
        self._fail_waiters(ErrorCode.KAFKA_STORAGE_ERROR)

    def stop(self) -> None:
        """This broker no longer has a replica of the partition."""
        self.leader = -1
        self._leading = None
        self._fail_waiters(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _fail_waiters(self, error: ErrorCode) -> None:
        for waiters in (self._local_waiters, self._all_waiters, self._commit_waiters):
            self._fail(waiters, error)
        deletions, self._deletions = self._deletions, []
        for _, deleted in deletions:
            deleted.fail(ApiError(error))
        self._notify(self.read_waiters)
        self._notify(self.replica_waiters)

    @staticmethod
    def _fail(waiters: deque[tuple[int, AppendWaiter]], error: ErrorCode) -> None:
        while waiters:
            waiters.popleft()[1].append_done(error)

    @staticmethod
    def _wake(waiters: deque[tuple[int, AppendWaiter]], reached: int) -> None:
        while waiters and waiters[0][0] <= reached:
            waiters.popleft()[1].append_done(ErrorCode.NONE)

    def _notify(self, waiters: Iterable[ReadWaiter]) -> None:
        for waiter in list(waiters):
            waiter.partition_moved(self)
