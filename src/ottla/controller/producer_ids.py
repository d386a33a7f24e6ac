"""Decisions about producer ids: they are allocated in blocks, so that no id is used twice."""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.decision import Decision
from ottla.controller.port import ProducerIdBlock
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import ProducerIdsRecord
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

BLOCK_SIZE: Final = 1000
_ID_MAX: Final = 2**63 - 1


def decide_allocate_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """Allocate the next block to the broker that sends the request."""
    records, block = decide_allocate(image, request.broker_id, request.broker_epoch)
    return Decision(
        records, AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.size)
    )


def decide_allocate(image: MetadataImage, broker_id: int, broker_epoch: int) -> Decision[ProducerIdBlock]:
    """Allocate the next block; it belongs to the broker once committed, even if the response is lost."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")
    if broker.epoch != broker_epoch:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is at epoch {broker.epoch}")
    first = image.next_producer_id
    if first > _ID_MAX - BLOCK_SIZE:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are allocated")
    record = ProducerIdsRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    return Decision([record], ProducerIdBlock(first, BLOCK_SIZE))
