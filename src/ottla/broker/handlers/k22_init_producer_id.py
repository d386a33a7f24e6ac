"""InitProducerId (key 22), versions 0-6: an id for an idempotent producer, or for a transactional one.

Without a transactional id every call gets a fresh id with epoch 0, also if the client names one it had. An id
without an epoch, or the reverse, is invalid, and so is an empty transactional id. With one, the coordinator of
transactions decides (`coordinator.txn.init_producer_id`).

Version 6 is two-phase commit (KIP-939). Kafka 4.3 holds it back as unstable; it is answered here, and listed where
`transaction.two.phase.commit.enable` is on.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.coordination.txn_requests import ask_with_id, take_id, told
from ottla.broker.registry import Call, handles
from ottla.coordinator.txn.init_producer_id import InitParameters
from ottla.coordinator.txn.responses import InitProducerIdResult
from ottla.coordinator.txn.transaction import NO_EPOCH, NO_PRODUCER, NO_PRODUCER_ID, Producer
from ottla.wire.apis import ApiKey
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_KNOWS_FENCED: Final = 4


@handles(
    ApiKey.INIT_PRODUCER_ID,
    InitProducerIdRequest,
    versions=(0, 6),
    newest_needs="transaction.two.phase.commit.enable",
)
async def init_producer_id(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    try:
        answer = await _initialised(request, call)
    except ApiError as error:
        answer = InitProducerIdResult(error.code)
    return InitProducerIdResponse(
        error_code=told(answer.error, knows_fenced=call.api_version >= _KNOWS_FENCED),
        producer_id=answer.producer.id,
        producer_epoch=answer.producer.epoch,
        ongoing_txn_producer_id=answer.ongoing.id,
        ongoing_txn_producer_epoch=answer.ongoing.epoch,
    )


async def _initialised(request: InitProducerIdRequest, call: Call) -> InitProducerIdResult:
    transactional_id = request.transactional_id
    named = Producer(request.producer_id, request.producer_epoch)
    half_named = (named.id == NO_PRODUCER_ID) != (named.epoch == NO_EPOCH)
    if transactional_id == "" or half_named:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if transactional_id is None:
        return InitProducerIdResult(ErrorCode.NONE, Producer(await take_id(call.broker), 0))
    parameters = InitParameters(
        request.transaction_timeout_ms,
        None if named == NO_PRODUCER else named,
        two_phase=request.enable2_pc,
        keep_prepared=request.keep_prepared_txn,
    )
    return await ask_with_id(
        call.broker,
        transactional_id,
        lambda machine, fresh_id: machine.init_producer_id(transactional_id, parameters, fresh_id),
    )
