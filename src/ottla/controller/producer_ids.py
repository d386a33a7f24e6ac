"""Decisions about producer ids: they are allocated in blocks, so that no id is used twice."""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.decision import Decision
from ottla.controller.partitions.cluster_view import ClusterView
from ottla.metadata.records import ProducerIdsRecord
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

BLOCK_SIZE: Final = 1000
_ID_MAX: Final = 2**63 - 1


def decide_allocate(
    view: ClusterView, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """Allocate the next block; it belongs to the broker once committed, even if the response is lost."""
    broker = view.check_epoch(request.broker_id, request.broker_epoch)
    first = view.image.next_producer_id
    if first > _ID_MAX - BLOCK_SIZE:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are allocated")
    record = ProducerIdsRecord(
        broker_id=broker.broker_id, broker_epoch=broker.epoch, next_producer_id=first + BLOCK_SIZE
    )
    return Decision(
        [record], AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    )
