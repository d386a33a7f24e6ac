"""One followed partition: performs the steps of `replication.follower` on its log.

The fetcher of the leader sends the position and passes the response. Appends are staged and written by group commit;
`log_progressed` is called when records are durable. A truncation starts when the log is idle and runs in the executor;
meanwhile the partition has no position.

Invariant: nothing is done to the log after the partition has got another leader epoch (`is_current`). A truncation that
has started is completed first: `Replicas` waits for it before it changes the role of the partition.

Failure: a damaged or unexpected batch delays this partition. An error of the disk takes its directory offline.

Concurrency: the event loop only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import structlog

from ottla.base.errors import ApiError, StorageFault
from ottla.base.promise import Promise
from ottla.broker.replica.leader_offsets import look_up_offsets
from ottla.broker.replica.ports import FetcherEnvironment
from ottla.records.batch import HEADER_SIZE, read_header
from ottla.replication.follower import Action, Fetched, FetchPosition, FollowerState, Step
from ottla.replication.quota import is_throttled
from ottla.wire.fetch_response import FetchedPartition

if TYPE_CHECKING:
    from ottla.replication.partition import Partition

_log = structlog.get_logger(__name__)
_NO_RECORDS = memoryview(b"")


class Fetcher(Protocol):
    """The fetcher of the leader of a partition."""

    def ready(self, followed: FollowedPartition) -> None:
        """The partition can be fetched again, or no longer: its position has changed."""
        ...


class FollowedPartition:
    """A partition that this broker follows in one leader epoch."""

    __slots__ = ("_environment", "_fetcher", "key", "partition", "request_number", "sent", "state")

    def __init__(self, partition: Partition, environment: FetcherEnvironment, fetcher: Fetcher) -> None:
        self.partition = partition
        self.key = (partition.topic_id.bytes, partition.index)
        self.state = FollowerState(partition.leader, partition.leader_epoch)
        self.sent: FetchPosition | None = None
        """The position in the fetch session, None if the session does not contain the partition ..."""
        self.request_number = -1
        """... and the request that sent it."""
        self._environment = environment
        self._fetcher = fetcher

    @property
    def is_current(self) -> bool:
        """Whether the partition still has the leader and the leader epoch of this object."""
        partition, state = self.partition, self.state
        return partition.leader == state.leader_id and partition.leader_epoch == state.leader_epoch

    @property
    def is_writing(self) -> bool:
        """Whether appended records will become durable."""
        log = self.partition.log
        return self.is_current and not log.offline and not log.closed

    @property
    def is_throttled(self) -> bool:
        """Whether the limit of followers includes the partition."""
        replicas = self.partition.log.config.follower_replication_throttled_replicas
        return is_throttled(replicas, self.partition.index, self._environment.node_id)

    @property
    def is_behind(self) -> bool:
        """Whether the leader has committed records that the log lacks, or may have."""
        return self.state.is_behind(self.partition.log)

    def position(self) -> FetchPosition | None:
        """What to fetch next; None if nothing can be fetched now."""
        log = self.partition.log
        if log.offline or log.closed or log.truncating or not self.is_current:
            return None
        return self.state.position(log)

    def stop(self) -> None:
        """The partition is no longer followed in this leader epoch."""
        self.state.stop()
        if self.partition.follower is self:
            self.partition.follower = None

    # Responses

    def fetched(self, position: FetchPosition, data: FetchedPartition) -> bool:
        """Process the response to the fetch of `position`; returns whether records are being written now."""
        log = self.partition.log
        if not self.is_current or log.truncating:
            return False
        response = Fetched(data.error_code, data.high_watermark, data.log_start_offset, data.diverging)
        step = self.state.fetched(position, response, log)
        if step.action is Action.APPEND:
            if self.partition.replaces_lost:
                self.partition.replaces_lost = False
                self._environment.on_replaced(self.partition)
            if len(data.records) and not self._append(data.records):
                return False
            self._take_over_offsets()
            return len(data.records) > 0
        if data.error_code and step.action is not Action.NONE:
            _log.debug("fetch refused", partition=str(log.topic_partition), error_code=data.error_code)
        self._perform(step)
        return False

    def log_progressed(self) -> None:
        """Records of the log are durable."""
        if self.is_current:
            self._take_over_offsets()
            self._fetcher.ready(self)

    def _append(self, records: memoryview) -> bool:
        log, state, environment = self.partition.log, self.state, self._environment
        if len(records) >= HEADER_SIZE:
            first = read_header(records)
            if first.base_offset < log.log_end_offset:
                step = state.begins_below(first.base_offset, first.last_offset, log)
                self._perform(step, records)
                return False
        try:
            log.append_raw(records, environment.clock.now_ms(), epoch_max=state.leader_epoch)
        except StorageFault as fault:
            state.stop()
            environment.logs.fail(fault)
            return False
        except ApiError as error:
            _log.warning("fetched records refused", partition=str(log.topic_partition), error=str(error))
            self._perform(state.failed())
            return False
        environment.schedule(log)
        return True

    def _take_over_offsets(self) -> None:
        """Move the high watermark and the log start to the leader's, as far as the log is durable."""
        partition, state = self.partition, self.state
        log = partition.log
        watermark = state.high_watermark(log)
        if watermark > log.high_watermark:
            partition.follow_high_watermark(watermark)
        start = state.log_start(log)
        if start > log.log_start_offset:
            log.increment_log_start_offset(start)

    # Steps

    def _perform(self, step: Step, records: memoryview = _NO_RECORDS) -> None:
        action = step.action
        if action is Action.DELAY:
            self._environment.loop.call_later(
                self.state.backoff_s(self._environment.settings.backoff_s), self._resume
            )
        elif action is Action.LOOK_UP:
            self._look_up()
        elif action is not Action.NONE:
            self._truncate(step, records)

    def _resume(self) -> None:
        self.state.resume()
        self._fetcher.ready(self)

    def _truncate(self, step: Step, records: memoryview) -> None:
        """Truncate or restart the log once it is idle, then append `records`."""
        log = self.partition.log
        if log.log_start_offset < log.log_end_offset and step.offset < log.high_watermark:
            _log.warning(
                "records below the high watermark are removed",
                partition=str(log.topic_partition),
                offset=step.offset,
                high_watermark=log.high_watermark,
            )

        def start() -> None:
            if log.offline or log.closed or not self.is_current:
                return
            logs, now_ms = self._environment.logs, self._environment.clock.now_ms()
            change = logs.truncate if step.action is Action.TRUNCATE else logs.restart
            promise: Promise[None] = change(log, step.offset, now_ms)
            promise.when_done(lambda _, error: self._truncated(records, error))

        log.when_idle(start)

    def _truncated(self, records: memoryview, error: BaseException | None) -> None:
        log = self.partition.log
        if error is not None or log.offline:
            self.state.stop()
            return
        self.state.truncated()
        if self.is_current and len(records) and self._append(records):
            self._take_over_offsets()
        self._fetcher.ready(self)

    def _look_up(self) -> None:
        def found(offsets: tuple[int, int] | None, _: BaseException | None) -> None:
            if not self.is_current:
                return
            if offsets is None:
                self._perform(self.state.failed())
                return
            self._perform(self.state.found_offsets(*offsets, self.partition.log))
            self._fetcher.ready(self)

        environment, partition = self._environment, self.partition
        look_up_offsets(
            environment.peers,
            environment.node_id,
            partition,
            timeout_s=environment.settings.timeout_s,
        ).when_done(found)
