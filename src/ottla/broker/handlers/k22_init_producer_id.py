"""InitProducerId (key 22), versions 0-5: an id for an idempotent producer.

Without a transactional id every call gets a fresh id with epoch 0, also if the client names one it had. An id
without an epoch, or the reverse, is invalid, and so is an empty transactional id. There is no transaction
coordinator yet: a transactional id gets COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


@handles(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest, versions=(0, 5))
async def init_producer_id(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    if request.transactional_id == "" or (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    try:
        producer_id = await call.broker.producer_ids.take()
    except ApiError:
        # The client tries again; it does not know the controller's errors.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
