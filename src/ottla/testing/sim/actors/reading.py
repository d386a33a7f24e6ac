"""Fetching records as a client does: whole batches, aborted transactions filtered out; each answer is checked.

Rules: C1 nothing beyond the high watermark, or the last stable offset, is seen, nor anything of an aborted
transaction; C2 what is seen is exactly what the log holds between two positions.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.records.batch import iter_batches
from ottla.records.control import read_end_txn
from ottla.records.record import iter_records
from ottla.testing.sim.actors.actor import BROKER_TROUBLE, Actor, by_topic
from ottla.testing.sim.client import Wire
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

_VERSION: Final = 12  # the last with topic names
_PARTITION_BYTES: Final = 4096
Seen = list[tuple[int, str]]


async def fetch(
    actor: Actor, wire: Wire, positions: dict[TopicPartition, int], *, committed: bool, wait_ms: int
) -> dict[TopicPartition, Seen]:
    """Records at the positions, which move on; raises Unanswered."""
    topics = [
        FetchTopic(
            topic=topic,
            partitions=[
                FetchPartition(
                    partition=index,
                    fetch_offset=positions[TopicPartition(topic, index)],
                    partition_max_bytes=_PARTITION_BYTES,
                )
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(list(positions)).items()
    ]
    request = FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, isolation_level=1 if committed else 0, topics=topics
    )
    answer = await wire.ask(request, _VERSION, FetchResponse, wait_ms + 3000)
    actor.expect(answer.error_code, ErrorCode.NONE, doing="Fetch")
    found: dict[TopicPartition, Seen] = {}
    for topic_data in answer.responses:
        for data in topic_data.partitions:
            place = TopicPartition(topic_data.topic, data.partition_index)
            if actor.expect(data.error_code, ErrorCode.NONE, BROKER_TROUBLE, doing="Fetch"):
                continue
            if place in positions:
                found[place] = _take(actor, place, data, positions, committed=committed)
    return found


def _take(
    actor: Actor,
    place: TopicPartition,
    data: PartitionData,
    positions: dict[TopicPartition, int],
    *,
    committed: bool,
) -> Seen:
    """The records of one partition, checked against the log; moves its position."""
    start = end = positions[place]
    aborted = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or [])
    excluded: set[int] = set()
    seen: Seen = []
    view = memoryview(data.records or b"")
    for position, header in iter_batches(view):
        batch = view[position : position + header.size_in_bytes]
        end = max(end, header.last_offset + 1)
        while aborted and aborted[0][0] <= header.last_offset:
            excluded.add(aborted.pop(0)[1])
        if header.is_control:
            marker = next(iter_records(batch, header))
            ended = read_end_txn(marker.key, marker.value)
            if ended is not None and not ended.committed:
                excluded.discard(header.producer_id)
        elif not (committed and header.is_transactional and header.producer_id in excluded):
            seen += [
                (header.base_offset + record.offset_delta, (record.value or b"").decode())
                for record in iter_records(batch, header)
                if header.base_offset + record.offset_delta >= start
            ]
    limit = data.last_stable_offset if committed else data.high_watermark
    kernel = actor.kernel
    kernel.check(end <= max(limit, start), "C1 nothing undecided is read", f"{place}: {end}, limit {limit}")
    expected = actor.world.txns.visible(place, start, end, committed=committed)
    kernel.check(
        seen == expected,
        "C1 C2 a reader sees exactly the log",
        f"{actor.name} {place} from {start} to {end}: {seen}, not {expected}",
    )
    positions[place] = end
    return seen
