"""Lag of the groups that this broker coordinates, in records and in seconds.

The end of a partition is its high watermark: known here if this broker leads the partition, else requested from the
leader. The lag in seconds is the age of the record at the committed offset, the first that the group has not
processed; 0 if there is none. The timestamp at an offset does not change, so each is read once: from the local log, or
with a Fetch request for one batch. One refresh reads a limited number of timestamps; the others follow with the
next ones, and their partitions have no lag in seconds until then.

`refresh` is called before a scrape. Failures leave values out, they do not fail the scrape. Concurrency: the event
loop; batches are decoded in the executor.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode, OttlaError
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.base.settled import settled
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.records.batch import iter_batches
from ottla.records.record import iter_records, record_timestamp
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from ottla.base.clock import Clock
    from ottla.base.executor import Executor
    from ottla.broker.coordination.coordinators import GroupCoordinator
    from ottla.broker.dependencies import MetadataCache
    from ottla.coordinator.group.group_state_machine import GroupStateMachine
    from ottla.peer.peers import PeerRequests
    from ottla.replication.replicas import Replicas
    from ottla.storage.log.log_slice import LogSlice, StagedSlice

_LATEST: Final = -1
_NO_REPLICA: Final = -1
_TIMEOUT_S: Final = 2.0
_TIMESTAMPS_MAX: Final = 200
"""Timestamps that one refresh reads."""
_FETCH_VERSIONS: Final = range(4, 13)
"""Versions of Fetch with topic names."""
_ONE_BATCH_BYTES: Final = 1
_SLICE: Final = 500
"""Offsets that are handled without a break."""


class GroupPartition(NamedTuple):
    """The position of a group in a partition."""

    group: str
    topic: str
    partition: int
    committed: int
    end: int | None
    """None if the leader of the partition did not respond."""
    lag_seconds: float | None
    """None if the timestamp has not been read yet."""

    @property
    def lag(self) -> int | None:
        return None if self.end is None else max(0, self.end - self.committed)


class _Committed(NamedTuple):
    group: str
    topic: str
    partition: int
    offset: int


def _read_groups(machine: GroupStateMachine) -> tuple[list[_Committed], dict[str, int]]:
    """The committed offsets and the numbers of members of the groups of a shard."""
    offsets = [
        _Committed(group, topic, partition, committed.offset)
        for group, topic, partition, committed in machine.offsets.store.committed
    ]
    members = {
        name: len(group.members)
        for name, group in machine.context.groups.items()
        if isinstance(group, ClassicGroup | ConsumerGroup)
    }
    return offsets, members


class GroupLag:
    """The lag of the groups, as of the last refresh."""

    def __init__(
        self,
        node_id: int,
        groups: GroupCoordinator,
        replicas: Replicas,
        metadata: MetadataCache,
        peers: PeerRequests,
        clock: Clock,
        executor: Executor,
    ) -> None:
        self._node_id = node_id
        self._groups = groups
        self._replicas = replicas
        self._metadata = metadata
        self._peers = peers
        self._clock = clock
        self._executor = executor
        self._timestamps: dict[tuple[str, int], tuple[int, int]] = {}
        """By partition: an offset, and the timestamp of the record there."""
        self.partitions: list[GroupPartition] = []
        self.members: dict[str, int] = {}

    async def refresh(self) -> None:
        offsets: list[_Committed] = []
        members: dict[str, int] = {}
        for promise in self._groups.runtime.read_all(_read_groups):
            try:
                found, counted = await settled(promise)
            except ApiError:
                continue  # another broker coordinates these groups now, or they are being loaded
            offsets += found
            members.update(counted)
        ends = await self._ends(offsets)
        await self._read_timestamps(offsets, ends)
        now_ms = self._clock.now_ms()
        self.partitions = [self._position(each, ends, now_ms) async for each in _in_slices(offsets)]
        self.members = members

    def _position(self, one: _Committed, ends: dict[TopicPartition, int], now_ms: int) -> GroupPartition:
        end = ends.get(TopicPartition(one.topic, one.partition))
        seconds: float | None = None
        if end is not None and one.offset >= end:
            seconds = 0.0
        else:
            offset, timestamp = self._timestamps.get((one.topic, one.partition), (-1, -1))
            if offset == one.offset:
                seconds = max(0, now_ms - timestamp) / 1000 if timestamp >= 0 else 0.0
        return GroupPartition(one.group, one.topic, one.partition, one.offset, end, seconds)

    # Ends of partitions

    async def _ends(self, offsets: list[_Committed]) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        remote: dict[int, dict[TopicPartition, None]] = {}
        async for one in _in_slices(offsets):
            tp = TopicPartition(one.topic, one.partition)
            leader = self._leader(tp)
            if leader != self._node_id:
                remote.setdefault(leader, {})[tp] = None
            if leader != self._node_id or tp in found:
                continue
            try:
                found[tp] = self._replicas.get(*tp).high_watermark
            except ApiError:
                continue
        remote.pop(-1, None)
        for response in await _all(self._list_offsets(leader, list(tps)) for leader, tps in remote.items()):
            for topic in response.topics:
                for result in topic.partitions:
                    if result.error_code == ErrorCode.NONE:
                        found[TopicPartition(topic.name, result.partition_index)] = result.offset
        return found

    def _leader(self, tp: TopicPartition) -> int:
        topic = self._metadata.image.topics.by_name.get(tp.topic)
        partition = None if topic is None else topic.partitions.get(tp.partition)
        return -1 if partition is None else partition.leader

    def _list_offsets(self, leader: int, partitions: list[TopicPartition]) -> Promise[ListOffsetsResponse]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for tp in partitions:
            wanted = ListOffsetsPartition(partition_index=tp.partition, timestamp=_LATEST)
            topics.setdefault(tp.topic, []).append(wanted)
        request = ListOffsetsRequest(
            replica_id=_NO_REPLICA,
            topics=[ListOffsetsTopic(name=name, partitions=theirs) for name, theirs in topics.items()],
        )
        return self._peers.request(leader, request, ListOffsetsResponse, timeout_s=_TIMEOUT_S)

    # Timestamps

    async def _read_timestamps(self, offsets: list[_Committed], ends: dict[TopicPartition, int]) -> None:
        left = _TIMESTAMPS_MAX
        async for one in _in_slices(offsets):
            end = ends.get(TopicPartition(one.topic, one.partition))
            known = self._timestamps.get((one.topic, one.partition), (-1, -1))[0]
            if end is None or one.offset >= end or known == one.offset or not left:
                continue
            left -= 1
            try:
                timestamp = await self._timestamp(one)
            except OttlaError:
                continue
            self._timestamps[one.topic, one.partition] = (one.offset, timestamp)
        kept = {(one.topic, one.partition) for one in offsets}
        self._timestamps = {key: value for key, value in self._timestamps.items() if key in kept}

    async def _timestamp(self, one: _Committed) -> int:
        tp = TopicPartition(one.topic, one.partition)
        leader = self._leader(tp)
        if leader == self._node_id:
            partition = self._replicas.get(*tp)
            start = max(one.offset, partition.log.log_start_offset)
            found = partition.read(start, _ONE_BATCH_BYTES, committed=False).slice
            return -1 if found is None else await self._decode(partial(_load, found), start)
        wanted = FetchPartition(
            partition=tp.partition, fetch_offset=one.offset, partition_max_bytes=_ONE_BATCH_BYTES
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_ONE_BATCH_BYTES,
            topics=[FetchTopic(topic=tp.topic, partitions=[wanted])],
        )
        sent = self._peers.request(
            leader, request, FetchResponse, timeout_s=_TIMEOUT_S, versions=_FETCH_VERSIONS
        )
        data = (await settled(sent)).responses[0].partitions[0]
        if data.error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode(data.error_code))
        return await self._decode(lambda: bytes(data.records or b""), one.offset)

    async def _decode(self, read: Callable[[], bytes], offset: int) -> int:
        """Read and decode a batch in the executor."""
        result: list[int] = []
        done: Promise[None] = Promise()

        def work() -> None:
            result.append(timestamp_at(read(), offset))

        def finish(error: BaseException | None) -> None:
            if error is None:
                done.keep(None)
            else:
                done.fail(error)

        self._executor.submit(work, finish)
        await settled(done)
        return result[0]


def _load(found: LogSlice | StagedSlice) -> bytes:
    buffer = bytearray(found.size)
    found.load(memoryview(buffer), wait=True)
    return bytes(buffer)


def timestamp_at(data: bytes, offset: int) -> int:
    """The timestamp of the first record at or after an offset in these batches; -1 if there is none."""
    for position, header in iter_batches(data):
        if header.last_offset < offset or header.is_control:
            continue
        for record in iter_records(memoryview(data)[position : position + header.size_in_bytes], header):
            if header.base_offset + record.offset_delta >= offset:
                return record_timestamp(header, record)
    return -1


async def _in_slices(offsets: list[_Committed]) -> AsyncIterator[_Committed]:
    """The offsets, with breaks in which the event loop serves others."""
    loop = asyncio.get_running_loop()
    for number, one in enumerate(offsets, 1):
        yield one
        if number % _SLICE == 0:
            pause = loop.create_future()
            loop.call_soon(pause.set_result, None)
            await pause


async def _all(promises: Iterable[Promise[ListOffsetsResponse]]) -> list[ListOffsetsResponse]:
    """The responses that arrive; failed requests are left out."""
    found = await asyncio.gather(*(settled(promise) for promise in promises), return_exceptions=True)
    return [each for each in found if isinstance(each, ListOffsetsResponse)]
