"""Sends the markers that end transactions to the leaders of all their partitions, on this broker and on others.

Partitions that this broker leads are written in this process (`marker_sender`), the others by WriteTxnMarkers. The
result is reported when every partition has one. A partition without a leader, a broker that cannot be reached, and a
leader that does not know the partition yet are results after which the transaction coordinator sends the marker again
(`coordinator.txn.completion`), as long as the partition exists.

A marker may arrive twice, or after the coordinator was replaced: the partition refuses it by the epoch of the
coordinator and of the producer, or it ends nothing (`storage.producers.producer_state`).

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.coordination.leader_requests import Entry, LeaderRequests, known_error
from ottla.broker.coordination.marker_sender import LocalMarkerSender, MarkerResults, PendingMarker
from ottla.coordinator.runtime.ports import Scheduler
from ottla.coordinator.txn.completion import TxnMarkerEntry
from ottla.coordinator.txn.transaction import by_topic
from ottla.metadata.image import NO_LEADER, MetadataImage
from ottla.peer.peers import PeerRequests
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.schema import Message


class RemoteMarkers:
    """`coordinator.txn.completion.MarkerSender` for the partitions of all brokers."""

    def __init__(
        self, node_id: int, local: LocalMarkerSender, peers: PeerRequests, scheduler: Scheduler
    ) -> None:
        self._node_id = node_id
        self._local = local
        self._remote: LeaderRequests[_MarkerOfPartition] = LeaderRequests(peers, scheduler, _MarkerFormat())

    def send(self, marker: TxnMarkerEntry, on_done: Callable[[MarkerResults], None]) -> None:
        """Write the marker to all its partitions and call `on_done` once with the error code of each."""
        pending = PendingMarker(len(marker.partitions), on_done)
        own = []
        for partition in marker.partitions:
            leader = self._remote.leader_of(partition)
            if leader == self._node_id:
                own.append(partition)
            elif leader == NO_LEADER:
                pending.done(partition, ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                self._remote.add(_MarkerOfPartition(marker, partition, partial(pending.done, partition)))
        if own:
            self._local.send(marker._replace(partitions=own), partial(_all_done, pending))

    def on_metadata_changed(self, image: MetadataImage) -> None:
        """Report the partitions whose leader has changed, so that their markers are sent to the new one."""
        self._remote.on_metadata_changed(image)


def _all_done(pending: PendingMarker, results: MarkerResults) -> None:
    for partition, error in results.items():
        pending.done(partition, error)


class _MarkerOfPartition(Entry):
    """A marker for one partition."""

    __slots__ = ("marker",)

    def __init__(
        self, marker: TxnMarkerEntry, partition: TopicPartition, on_done: Callable[[ErrorCode], None]
    ) -> None:
        super().__init__(partition, on_done)
        self.marker = marker


class _MarkerFormat:
    """Markers of several transactions in one WriteTxnMarkers request."""

    response: type[Message] = WriteTxnMarkersResponse
    versions: range = WriteTxnMarkersRequest.SPEC.versions

    def group(self, entry: _MarkerOfPartition) -> tuple[Hashable, Hashable]:
        # The response has one result for each partition of a producer.
        return entry.marker.producer_id, entry.marker[:4]

    def build(self, entries: list[_MarkerOfPartition]) -> WriteTxnMarkersRequest:
        partitions: dict[int, set[TopicPartition]] = {}
        for entry in entries:
            partitions.setdefault(entry.marker.producer_id, set()).add(entry.partition)
        markers = {entry.marker.producer_id: entry.marker for entry in entries}
        return WriteTxnMarkersRequest(
            markers=[_writable(markers[producer_id], each) for producer_id, each in partitions.items()]
        )

    def results(self, response: WriteTxnMarkersResponse) -> Callable[[_MarkerOfPartition], ErrorCode]:
        found = {
            (marker.producer_id, TopicPartition(topic.name, each.partition_index)): known_error(
                each.error_code
            )
            for marker in response.markers
            for topic in marker.topics
            for each in topic.partitions
        }
        return lambda entry: found.get(
            (entry.marker.producer_id, entry.partition), ErrorCode.UNKNOWN_SERVER_ERROR
        )


def _writable(marker: TxnMarkerEntry, partitions: set[TopicPartition]) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.committed,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(partitions)
        ],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )
