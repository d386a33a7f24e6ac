"""Fetches all partitions that follow one leader, over one fetch session (KIP-227).

A request contains only what has changed since the one before: new positions, and partitions to forget. A response is
processed in passes of limited size, so that a follower that catches up does not delay other work of the event loop.

The next request is sent when all records of the response are durable, because the position of a partition moves only
then. It does not wait for a slow write longer than `SLOW_WRITE_S`: the partition is taken out of the session and
returns when it is written. If a partition gets a position while a request waits at the leader, the next request is sent
at once; the leader then responds to the waiting one (`Connection.on_next_request`). At most two are in flight.

A throttled partition that is behind is taken out of the session while the limit of this broker is exceeded
(`replication.quota`).

Failure: an error of the connection or of the session starts a new session after `RETRY_S`. The connection limits the
rate of attempts itself.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Final, NamedTuple

import structlog

from ottla.base.errors import ErrorCode, RemoteProtocolError
from ottla.base.ids import Uuid
from ottla.base.timer import ReusedTimer, TimerHandle
from ottla.broker.replica.followed import FollowedPartition
from ottla.broker.replica.ports import FetcherEnvironment
from ottla.peer.exchange import RawResponse
from ottla.replication.follower import FetchPosition
from ottla.wire import fetch
from ottla.wire.fetch_response import FetchedPartition, FetchedResponse, parse_response
from ottla.wire.frames import EncodedRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState

SLOW_WRITE_S: Final = 0.01
RETRY_S: Final = 0.05
PASS_BYTES: Final = 1 << 20
VERSIONS: Final = range(17, 18)
_NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1
_IN_FLIGHT_MAX: Final = 2

Key = tuple[bytes, int]
_logger = structlog.get_logger(__name__)


class _Request(NamedTuple):
    number: int
    starts_session: bool


class LeaderFetcher:
    """The fetch session with one leader."""

    def __init__(self, leader_id: int, environment: FetcherEnvironment) -> None:
        self.leader_id = leader_id
        self._environment = environment
        self._partitions: dict[Key, FollowedPartition] = {}
        self._changed: dict[
            Key, FollowedPartition
        ] = {}  # partitions whose position in the session may be outdated
        self._forgotten: dict[Key, None] = {}
        self._in_session = 0
        self._broker_epoch = environment.broker_epoch()
        self._session_id = _NO_SESSION
        self._session_epoch = _INITIAL_EPOCH
        self._number = 0
        self._in_flight: deque[_Request] = deque()
        self._received: deque[tuple[int, FetchedPartition]] = deque()
        self._writing: set[FollowedPartition] = set()
        self._slow_timer = ReusedTimer(environment.loop.call_later, environment.clock.monotonic)
        self._retry_timer: TimerHandle | None = None
        self._throttled: dict[Key, FollowedPartition] = {}
        self._throttle_timer: TimerHandle | None = None
        self._scheduled = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, followed: FollowedPartition) -> None:
        """Fetch a partition from now on."""
        self._partitions[followed.key] = self._changed[followed.key] = followed
        self._schedule()

    def remove(self, followed: FollowedPartition) -> None:
        """Fetch a partition no longer; responses that arrive later have no effect."""
        if self._partitions.get(followed.key) is not followed:
            return
        del self._partitions[followed.key]
        self._changed.pop(followed.key, None)
        self._throttled.pop(followed.key, None)
        self._writing.discard(followed)
        self._forget(followed)
        self._schedule()

    def ready(self, followed: FollowedPartition) -> None:
        """The position of a partition may have changed."""
        if self._partitions.get(followed.key) is not followed:
            return
        self._changed[followed.key] = followed
        if followed in self._writing:
            self._writing.discard(followed)
            if not self._writing and not self._in_flight:
                self._continue()
                return
        self._schedule()

    def close(self) -> None:
        """Send nothing more."""
        self._closed = True
        self._slow_timer.cancel()
        for timer in (self._retry_timer, self._throttle_timer):
            if timer is not None:
                timer.cancel()

    def _schedule(self) -> None:
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._environment.loop.call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        self._continue()

    def _continue(self) -> None:
        """Send the next request, if it may be sent now."""
        if self._closed or self._retry_timer is not None or self._received:
            return
        in_flight = self._in_flight
        if not in_flight:
            if not self._writing:
                self._send()
        elif len(in_flight) < _IN_FLIGHT_MAX and not in_flight[0].starts_session and self._has_news():
            self._send()

    def _has_news(self) -> bool:
        """Whether a partition has a position that the leader does not know."""
        return any(self._position(one) not in (None, one.sent) for one in self._changed.values())

    # Requests

    def _send(self) -> None:
        self._slow_timer.cancel()
        broker_epoch = self._environment.broker_epoch()
        if broker_epoch != self._broker_epoch:
            # Registered again: the leader learns the new epoch of a replica only from a request that lists it.
            self._broker_epoch = broker_epoch
            self._restart_session()
        positions = self._take_positions()
        if not self._in_session:
            self._restart_session()
            return
        starts = self._session_epoch == _INITIAL_EPOCH
        settings = self._environment.settings
        if starts:
            self._forgotten.clear()
        single = len(positions) == 1 and not self._forgotten
        message = self._encode_one(*positions[0]) if single else self._encode(positions)
        request = _Request(self._number, starts)
        self._number += 1
        self._session_epoch = 1 if self._session_epoch == _EPOCH_MAX else self._session_epoch + 1
        self._in_flight.append(request)
        timeout_s = settings.timeout_s + settings.wait_max_ms / 1000
        promise = self._environment.peers.request_raw(
            self.leader_id, message, timeout_s=timeout_s, versions=VERSIONS
        )
        promise.when_done(partial(self._completed, request))

    def _take_positions(self) -> list[tuple[bytes, fetch.FetchPartition]]:
        """The positions that the session does not have yet, with the ids of their topics."""
        taken: list[tuple[bytes, fetch.FetchPartition]] = []
        max_bytes = self._environment.settings.partition_bytes_max
        changed, self._changed = self._changed, {}
        for key, followed in changed.items():
            position = self._position(followed)
            if position is None:
                self._forget(followed)
            elif position != followed.sent:
                self._in_session += followed.sent is None
                followed.sent, followed.request_number = position, self._number
                self._forgotten.pop(key, None)
                taken.append((key[0], fetch.FetchPartition(key[1], *position[1:], max_bytes)))
        return taken

    def _encode_one(self, topic_id: bytes, position: fetch.FetchPartition) -> EncodedRequest:
        """The request for one partition, as nearly all are."""
        settings = self._environment.settings
        body = fetch.encode_one_partition(
            (settings.wait_max_ms, settings.min_bytes, settings.response_bytes_max),
            (self._session_id, self._session_epoch),
            topic_id,
            position,
            (self._environment.node_id, self._broker_epoch),
        )
        return EncodedRequest(FetchRequest.SPEC, FetchRequest.__name__, body)

    def _encode(self, positions: list[tuple[bytes, fetch.FetchPartition]]) -> FetchRequest:
        by_topic: dict[bytes, FetchTopic] = {}
        for topic_id, position in positions:
            topic = by_topic.get(topic_id)
            if topic is None:
                topic = by_topic[topic_id] = FetchTopic(topic_id=Uuid(bytes=topic_id), partitions=[])
            topic.partitions.append(
                FetchPartition(
                    partition=position.partition,
                    current_leader_epoch=position.current_leader_epoch,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=position.max_bytes,
                )
            )
        settings, node_id = self._environment.settings, self._environment.node_id
        return FetchRequest(
            replica_state=ReplicaState(replica_id=node_id, replica_epoch=self._broker_epoch),
            max_wait_ms=settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_bytes_max,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(by_topic.values()),
            forgotten_topics_data=self._take_forgotten(),
        )

    def _position(self, followed: FollowedPartition) -> FetchPosition | None:
        """What to fetch next of a partition; None if nothing can be fetched now. A throttled one is tried again."""
        position, environment = followed.position(), self._environment
        quota = environment.quota
        if not quota.limited or position is None or not followed.is_throttled or not followed.is_behind:
            return position
        if not quota.exceeded:
            return position
        self._throttled[followed.key] = followed
        if self._throttle_timer is None:
            self._throttle_timer = environment.loop.call_later(quota.wait_s(), self._return_throttled)
        return None

    def _return_throttled(self) -> None:
        self._throttle_timer = None
        throttled, self._throttled = self._throttled, {}
        self._changed.update(throttled)
        self._schedule()

    def _forget(self, followed: FollowedPartition) -> None:
        if followed.sent is not None:
            followed.sent = None
            self._in_session -= 1
            self._forgotten[followed.key] = None

    def _take_forgotten(self) -> list[ForgottenTopic]:
        forgotten, self._forgotten = self._forgotten, {}
        by_topic: dict[bytes, ForgottenTopic] = {}
        for topic_id, index in forgotten:
            topic = by_topic.get(topic_id)
            if topic is None:
                topic = by_topic[topic_id] = ForgottenTopic(topic_id=Uuid(bytes=topic_id), partitions=[])
            topic.partitions.append(index)
        return list(by_topic.values())

    def _restart_session(self) -> None:
        """Send all positions with the next request, which closes the current session if there is one."""
        for followed in self._partitions.values():
            followed.sent = None
        self._in_session = 0
        self._session_epoch = _INITIAL_EPOCH
        self._forgotten.clear()
        self._changed.update(self._partitions)

    # Responses

    def _completed(self, request: _Request, raw: RawResponse | None, error: BaseException | None) -> None:
        if self._closed or request not in self._in_flight:
            return
        self._in_flight.popleft()
        if raw is None:
            self._failed(str(error))
            return
        try:
            response = parse_response(raw.frame, raw.body_start)
        except RemoteProtocolError as damage:
            self._failed(str(damage))
            return
        if response.error_code:
            self._refused(response)
            return
        if request.starts_session:
            self._session_id = response.session_id
        self._received.extend((request.number, data) for data in response.partitions)
        self._process()

    def _refused(self, response: FetchedResponse) -> None:
        """The session is lost, for instance because the leader has restarted."""
        self._session_id = _NO_SESSION
        if response.error_code in (
            ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ):
            self._in_flight.clear()
            self._restart_session()
            self._schedule()
        else:
            self._failed(f"error code {response.error_code}")

    def _failed(self, reason: str) -> None:
        """No response: start a new session after a pause."""
        _logger.info("fetch from the leader failed", leader=self.leader_id, reason=reason)
        self._in_flight.clear()
        self._session_id = _NO_SESSION
        self._restart_session()
        if self._retry_timer is None:
            self._retry_timer = self._environment.loop.call_later(RETRY_S, self._retry)

    def _retry(self) -> None:
        self._retry_timer = None
        self._continue()

    def _process(self) -> None:
        """Process received partitions, about `PASS_BYTES` in one iteration of the event loop."""
        received, left = self._received, PASS_BYTES
        while received and left > 0:
            number, data = received.popleft()
            followed = self._partitions.get((data.topic_id, data.partition))
            if followed is None or followed.sent is None:
                continue
            # What is not appended must not be fetched again and again: the next request has the new position or none.
            self._changed[followed.key] = followed
            left -= len(data.records)
            if self._environment.quota.limited and followed.is_throttled:
                self._environment.quota.record(len(data.records))
            if followed.request_number > number:
                continue
            if followed.fetched(followed.sent, data):
                self._writing.add(followed)
            if data.error_code:
                # The leader has not recorded the position: the next request lists it, although it is the same.
                self._forget(followed)
        if received:
            self._environment.loop.call_soon(self._process_rest)
        else:
            self._processed()

    def _process_rest(self) -> None:
        if not self._closed:
            self._process()

    def _processed(self) -> None:
        if self._session_id == _NO_SESSION:
            self._restart_session()  # the leader has no room for a session
        if self._writing:
            self._watch_writes()
        else:
            self._continue()

    def _writes_are_slow(self) -> None:
        """Fetch the other partitions of the session, if there are any."""
        self._writing = {one for one in self._writing if one.is_writing}
        if self._writing and len(self._writing) == len(self._partitions):
            self._watch_writes()
        else:
            self._writing.clear()
            self._continue()

    def _watch_writes(self) -> None:
        if not self._slow_timer.active:
            self._slow_timer.start(SLOW_WRITE_S, self._writes_are_slow)
