"""Fetch of the batches of one partition as bytes, one request ahead of the caller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.client.raw.connection import Connection, PendingRequest
from ottla.client.raw.errors import (
    ConnectionLost,
    OffsetOutOfRange,
    Refused,
    RetriableError,
    Throttled,
    error_name,
    is_retriable,
)
from ottla.client.raw.settings import ClientSettings
from ottla.records.batch import HEADER_SIZE
from ottla.records.columns import end_of
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

if TYPE_CHECKING:
    from ottla.client.raw.cluster import Cluster

_NAMES_UP_TO = 12
"""The newest version with topic names; newer ones have topic ids."""


class Limits(NamedTuple):
    """Size, wait time and isolation of a fetch."""

    max_bytes: int
    max_wait_ms: int
    min_bytes: int
    committed: bool

    @classmethod
    def of(
        cls,
        settings: ClientSettings,
        max_bytes: int | None = None,
        max_wait_ms: int | None = None,
        min_bytes: int | None = None,
        committed: bool | None = None,
    ) -> Limits:
        """Limits with defaults from the settings."""
        return cls(
            min(settings.partition_fetch_bytes, settings.fetch_max_bytes) if max_bytes is None else max_bytes,
            settings.fetch_max_wait_ms if max_wait_ms is None else max_wait_ms,
            settings.fetch_min_bytes if min_bytes is None else min_bytes,
            settings.read_committed if committed is None else committed,
        )


class Fetched(NamedTuple):
    """One response. `data` starts with the batch that contains the fetch offset; its last batch may be incomplete."""

    data: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    """Aborted transactions: producer id, first offset. Empty unless only committed records were requested."""

    def end(self, offset: int) -> int:
        """The offset after the last complete batch, which is the next fetch offset; `offset` if there is none."""
        return end_of(self.data, offset)


class _Sent(NamedTuple):
    connection: Connection
    pending: PendingRequest
    offset: int


def fetch(cluster: Cluster, tp: TopicPartition, offset: int, limits: Limits) -> Fetched:
    """Fetch once, with retries. Raise OffsetOutOfRange, UnknownTopic, Refused or TimedOut."""
    retry = cluster.retry(f"fetching {tp} at offset {offset}")
    while True:
        try:
            return _receive(tp, _send(cluster, tp, offset, limits), limits)
        except Throttled as error:
            retry.pause(error.seconds)
        except (ConnectionLost, RetriableError) as error:
            cluster.forget_topic(tp.topic)
            retry.backoff(error)


def stream(
    cluster: Cluster, tp: TopicPartition, offset: int, end_offset: int, limits: Limits
) -> Iterator[tuple[int, Fetched]]:
    """Fetch until `end_offset` is reached; yield each response with its fetch offset.

    The next request is sent before a response is yielded, so the broker reads while the caller decodes. End early at a
    response without a complete batch: no more records up to `end_offset` can be read now.
    """
    sent: _Sent | None = None
    try:
        while offset < end_offset:
            try:
                sent = sent or _send(cluster, tp, offset, limits)
                fetched = _receive(tp, sent, limits)
            except Throttled as error:
                cluster.retry(str(error)).pause(error.seconds)
                fetched = fetch(cluster, tp, offset, limits)
            except (ConnectionLost, RetriableError):
                cluster.forget_topic(tp.topic)
                fetched = fetch(cluster, tp, offset, limits)
            sent = None
            following = fetched.end(offset)
            if following < end_offset and following > offset:
                sent = _send_ahead(cluster, tp, following, limits)
            yield offset, fetched
            if following == offset:
                return
            offset = following
    finally:
        if sent is not None:
            sent.connection.discard(sent.pending)


def _send_ahead(cluster: Cluster, tp: TopicPartition, offset: int, limits: Limits) -> _Sent | None:
    try:
        return _send(cluster, tp, offset, limits)
    except (ConnectionLost, RetriableError):
        return None


def _send(cluster: Cluster, tp: TopicPartition, offset: int, limits: Limits) -> _Sent:
    leader = cluster.leader(tp)
    topic_id = cluster.topic_id(tp.topic)
    connection = cluster.connection(leader.leader)
    wanted = FetchPartition(
        partition=tp.partition,
        current_leader_epoch=leader.leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=limits.max_bytes,
    )
    request = FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=max(limits.max_bytes, HEADER_SIZE),
        isolation_level=int(limits.committed),
        topics=[FetchTopic(topic=tp.topic, topic_id=topic_id, partitions=[wanted])],
    )
    newest = None if topic_id.int else _NAMES_UP_TO
    return _Sent(connection, connection.send(request, newest=newest), offset)


def _receive(tp: TopicPartition, sent: _Sent, limits: Limits) -> Fetched:
    response = sent.connection.receive(sent.pending, FetchResponse, extra_timeout_s=limits.max_wait_ms / 1000)
    what = f"fetching {tp} at offset {sent.offset} from {sent.connection.address}"
    found = [one for topic in response.responses for one in topic.partitions]
    if not found and not response.error_code:
        # Apache Kafka responds to a throttled client with a time to wait and without partitions.
        if response.throttle_time_ms > 0:
            raise Throttled(what, response.throttle_time_ms / 1000)
        raise RetriableError(f"{what}: the response does not contain the partition")
    code = response.error_code or found[0].error_code
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        raise OffsetOutOfRange(what, code)
    if is_retriable(code):
        raise RetriableError(f"{what}: {error_name(code)}")
    if code != ErrorCode.NONE:
        raise Refused(what, code)
    (partition,) = found
    records = partition.records
    return Fetched(
        memoryview(b"" if records is None else records),
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log_start_offset,
        [(one.producer_id, one.first_offset) for one in partition.aborted_transactions or ()],
    )
