"""WriteTxnMarkers (key 27), versions 1-2: a coordinator, or an administrator, ends transactions in partitions.

The response is sent when all markers are committed. Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION if this broker
has no replica, INVALID_PRODUCER_EPOCH if the producer is fenced, TRANSACTION_COORDINATOR_FENCED if the coordinator has
been replaced. From version 2 on a marker contains the transaction version, by which the epochs of its producer rise
(KIP-890, KIP-1228). The response omits markers without partitions and merges those of one producer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.coordination.marker_sender import LocalMarkerSender
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import cluster
from ottla.coordinator.txn.completion import TxnMarkerEntry
from ottla.security.resources import Operation
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


@handles(
    ApiKey.WRITE_TXN_MARKERS,
    WriteTxnMarkersRequest,
    versions=(1, 2),
    requires=cluster(Operation.ALTER, Operation.CLUSTER_ACTION),
)
@dataclass(frozen=True)
class WriteTxnMarkers:
    """Appends markers to partitions of this broker."""

    markers: LocalMarkerSender

    async def handle(self, request: WriteTxnMarkersRequest, call: Call) -> WriteTxnMarkersResponse:
        pending = [(each.producer_id, self._write(each)) for each in request.markers]
        by_producer: dict[int, MarkerResults] = {}
        for producer_id, written in pending:
            errors = await written
            if errors:
                by_producer.setdefault(producer_id, {}).update(errors)
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(producer_id=producer_id, topics=_topics(errors))
                for producer_id, errors in by_producer.items()
            ]
        )

    def _write(self, wanted: WritableTxnMarker) -> asyncio.Future[MarkerResults]:
        written: asyncio.Future[MarkerResults] = asyncio.get_running_loop().create_future()
        partitions = dict.fromkeys(
            TopicPartition(topic.name, index) for topic in wanted.topics for index in topic.partition_indexes
        )
        if not partitions:
            written.set_result({})
            return written
        marker = TxnMarkerEntry(
            wanted.producer_id,
            wanted.producer_epoch,
            wanted.coordinator_epoch,
            wanted.transaction_result,
            list(partitions),
            wanted.transaction_version,
        )
        self.markers.send(marker, written.set_result)
        return written


def _topics(errors: MarkerResults) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, WritableTxnMarkerTopicResult] = {}
    for (name, index), error in errors.items():
        topic = topics.setdefault(name, WritableTxnMarkerTopicResult(name=name, partitions=[]))
        topic.partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=error))
    return list(topics.values())
