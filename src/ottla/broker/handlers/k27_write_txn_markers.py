"""WriteTxnMarkers (key 27), versions 1-2: a coordinator, or an administrator, ends transactions in partitions.

Each marker is answered when it is committed in all its partitions, a partition that is not here with
UNKNOWN_TOPIC_OR_PARTITION. A marker of a fenced producer is refused with INVALID_PRODUCER_EPOCH, one of a
coordinator that has been replaced with TRANSACTION_COORDINATOR_FENCED. From version 2 on a marker says by which
generation of the protocol its producer's epochs rise (KIP-890, KIP-1228). Markers without partitions are left out
of the answer, those of one producer are put together.
"""

from __future__ import annotations

import asyncio

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.registry import Call, handles
from ottla.coordinator.txn.completion import TxnMarkerEntry
from ottla.wire.apis import ApiKey
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

MarkerResults = dict[TopicPartition, ErrorCode]


@handles(ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest, versions=(1, 2))
async def write_txn_markers(request: WriteTxnMarkersRequest, call: Call) -> WriteTxnMarkersResponse:
    waiting = [(each.producer_id, _write(each, call)) for each in request.markers]
    by_producer: dict[int, MarkerResults] = {}
    for producer_id, results in waiting:
        made = await results
        if made:
            by_producer.setdefault(producer_id, {}).update(made)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(producer_id=producer_id, topics=_topics(results))
            for producer_id, results in by_producer.items()
        ]
    )


def _write(wanted: WritableTxnMarker, call: Call) -> asyncio.Future[MarkerResults]:
    told: asyncio.Future[MarkerResults] = asyncio.get_running_loop().create_future()
    partitions = dict.fromkeys(
        TopicPartition(topic.name, index) for topic in wanted.topics for index in topic.partition_indexes
    )
    if not partitions:
        told.set_result({})
        return told
    marker = TxnMarkerEntry(
        wanted.producer_id,
        wanted.producer_epoch,
        wanted.coordinator_epoch,
        wanted.transaction_result,
        list(partitions),
        wanted.transaction_version,
    )
    call.broker.markers.send(marker, told.set_result)
    return told


def _topics(results: MarkerResults) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, WritableTxnMarkerTopicResult] = {}
    for (name, index), error in results.items():
        topic = topics.setdefault(name, WritableTxnMarkerTopicResult(name=name, partitions=[]))
        topic.partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=error))
    return list(topics.values())
