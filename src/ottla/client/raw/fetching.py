"""Fetching one partition's batches as bytes, with the next request under way while the last answer is worked on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.client.raw.connection import Connection, Ticket
from ottla.client.raw.errors import (
    ConnectionLost,
    OffsetOutOfRange,
    Refused,
    Throttled,
    TryAgain,
    code_name,
    is_retriable,
)
from ottla.client.raw.settings import ClientSettings
from ottla.records.batch import HEADER_SIZE
from ottla.records.columns import end_of
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

if TYPE_CHECKING:
    from ottla.client.raw.cluster import Cluster

_NAMES_UP_TO = 12
"""The newest version that names topics; newer ones use ids."""


class Limits(NamedTuple):
    """How much to fetch, and how long to wait for it."""

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
        """What is left out comes from the settings."""
        return cls(
            min(settings.partition_fetch_bytes, settings.fetch_max_bytes) if max_bytes is None else max_bytes,
            settings.fetch_max_wait_ms if max_wait_ms is None else max_wait_ms,
            settings.fetch_min_bytes if min_bytes is None else min_bytes,
            settings.read_committed if committed is None else committed,
        )


class Fetched(NamedTuple):
    """One answer. `data` starts with the batch that holds the offset, and may end in the middle of one."""

    data: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    """Aborted transactions among these records: producer id, first offset. Empty unless asked for committed ones."""

    def end(self, offset: int) -> int:
        """The offset after the last whole batch, which is where to fetch on; `offset` if there is none."""
        return end_of(self.data, offset)


class _Asked(NamedTuple):
    connection: Connection
    ticket: Ticket
    offset: int


def fetch(cluster: Cluster, tp: TopicPartition, offset: int, limits: Limits) -> Fetched:
    """One answer; tries again at leader moves, raises OffsetOutOfRange, UnknownTopic, Refused or TimedOut."""
    patience = cluster.patience(f"fetching {tp} at offset {offset}")
    while True:
        try:
            return _answer(tp, _ask(cluster, tp, offset, limits), limits)
        except Throttled as error:
            patience.rest(error.seconds)
        except (ConnectionLost, TryAgain) as error:
            cluster.forget_topic(tp.topic)
            patience.again(error)


def stream(
    cluster: Cluster, tp: TopicPartition, offset: int, end_offset: int, limits: Limits
) -> Iterator[tuple[int, Fetched]]:
    """Answers one after another, each with the offset it was asked for, until one reaches `end_offset`.

    The next request is sent before an answer is handed out, so the broker reads while the caller decodes. Stops at an
    answer without a whole batch too: then there is nothing more up to the end that may be read now.
    """
    asked: _Asked | None = None
    try:
        while offset < end_offset:
            try:
                asked = asked or _ask(cluster, tp, offset, limits)
                fetched = _answer(tp, asked, limits)
            except Throttled as error:
                cluster.patience(str(error)).rest(error.seconds)
                fetched = fetch(cluster, tp, offset, limits)
            except (ConnectionLost, TryAgain):
                cluster.forget_topic(tp.topic)
                fetched = fetch(cluster, tp, offset, limits)
            asked = None
            following = fetched.end(offset)
            if following < end_offset and following > offset:
                asked = _ask_ahead(cluster, tp, following, limits)
            yield offset, fetched
            if following == offset:
                return
            offset = following
    finally:
        if asked is not None:
            asked.connection.forget(asked.ticket)


def _ask_ahead(cluster: Cluster, tp: TopicPartition, offset: int, limits: Limits) -> _Asked | None:
    try:
        return _ask(cluster, tp, offset, limits)
    except (ConnectionLost, TryAgain):
        return None


def _ask(cluster: Cluster, tp: TopicPartition, offset: int, limits: Limits) -> _Asked:
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
    return _Asked(connection, connection.send(request, newest=newest), offset)


def _answer(tp: TopicPartition, asked: _Asked, limits: Limits) -> Fetched:
    answer = asked.connection.receive(asked.ticket, FetchResponse, patience_s=limits.max_wait_ms / 1000)
    what = f"fetching {tp} at offset {asked.offset} from {asked.connection.address}"
    found = [one for topic in answer.responses for one in topic.partitions]
    if not found and not answer.error_code:
        # Apache Kafka's answer to a client above its quota: a time to wait, and no partition.
        if answer.throttle_time_ms > 0:
            raise Throttled(what, answer.throttle_time_ms / 1000)
        raise TryAgain(f"{what}: the answer lacks the partition")
    code = answer.error_code or found[0].error_code
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        raise OffsetOutOfRange(what, code)
    if is_retriable(code):
        raise TryAgain(f"{what}: {code_name(code)}")
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
