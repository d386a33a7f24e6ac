"""Fetch of records as a client implements it: whole batches, without aborted transactions; every response is checked.

Rules: C1 no record beyond the high watermark or the last stable offset is seen, and none of an aborted transaction;
C2 what is seen is exactly what the log contains between two positions.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.records.batch import iter_batches
from ottla.records.control import read_end_txn
from ottla.records.record import iter_records
from ottla.testing.sim.clients.client import BROKER_ERRORS, Client, by_topic
from ottla.testing.sim.clients.process import Connection
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

_VERSION: Final = 12  # the last one with topic names
_PARTITION_BYTES: Final = 4096
Seen = list[tuple[int, str]]


async def fetch(
    client: Client,
    connection: Connection,
    positions: dict[TopicPartition, int],
    *,
    committed: bool,
    wait_ms: int,
) -> dict[TopicPartition, Seen]:
    """Fetch records at the positions, and advance the positions; raises NoResponse."""
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
    response = await connection.request(request, _VERSION, FetchResponse, wait_ms + 3000)
    client.expect(response.error_code, ErrorCode.NONE, doing="Fetch")
    found: dict[TopicPartition, Seen] = {}
    for topic_data in response.responses:
        for data in topic_data.partitions:
            tp = TopicPartition(topic_data.topic, data.partition_index)
            if client.expect(data.error_code, ErrorCode.NONE, BROKER_ERRORS, doing="Fetch"):
                continue
            if tp in positions:
                found[tp] = _take(client, tp, data, positions, committed=committed)
    return found


def _take(
    client: Client,
    tp: TopicPartition,
    data: PartitionData,
    positions: dict[TopicPartition, int],
    *,
    committed: bool,
) -> Seen:
    """The records of one partition, compared with the log; advances its position."""
    start = end = positions[tp]
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
    kernel = client.kernel
    kernel.check(end <= max(limit, start), "C1 no undecided record is read", f"{tp}: {end}, limit {limit}")
    expected = client.cluster.txns.visible(tp, start, end, committed=committed)
    kernel.check(
        seen == expected,
        "C1 C2 a reader sees exactly the log",
        f"{client.name} {tp} from {start} to {end}: {seen} instead of {expected}",
    )
    positions[tp] = end
    return seen
