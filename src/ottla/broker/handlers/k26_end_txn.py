"""EndTxn (key 26), versions 0-5: commits or aborts a transaction.

The response is sent when the decision is committed; the markers follow. From version 5 on the response contains the
producer id and epoch of the next transaction: every end raises the epoch (KIP-890).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import check
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import TxnCoordinator
from ottla.broker.coordination.producer_ids import ProducerIds
from ottla.broker.coordination.txn_requests import client_error, write_with_producer_id
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.coordinator.txn.responses import EndTxnResult
from ottla.coordinator.txn.transaction import EPOCH_PER_TRANSACTION, Producer
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

_KNOWS_FENCED: Final = 2
_RAISES_EPOCH: Final = 5


@handles(
    ApiKey.END_TXN,
    EndTxnRequest,
    versions=(0, 5),
    requires=resources((Operation.WRITE, ResourceType.TRANSACTIONAL_ID)),
)
@dataclass(frozen=True)
class EndTxn:
    """Ends a transaction through its coordinator."""

    authorization: Authorization
    transactions: TxnCoordinator
    producer_ids: ProducerIds

    async def handle(self, request: EndTxnRequest, call: Call) -> EndTxnResponse:
        name = request.transactional_id
        producer = Producer(request.producer_id, request.producer_epoch)
        version = EPOCH_PER_TRANSACTION if call.api_version >= _RAISES_EPOCH else 0
        try:
            check(self.authorization, call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST)
            ended = await write_with_producer_id(
                self.transactions,
                self.producer_ids,
                name,
                lambda machine, new_id: machine.end(
                    name, producer, committed=request.committed, client_version=version, fresh_id=new_id
                ),
            )
        except ApiError as error:
            ended = EndTxnResult(error.code)
        return EndTxnResponse(
            error_code=client_error(ended.error, knows_fenced=call.api_version >= _KNOWS_FENCED),
            producer_id=ended.producer.id,
            producer_epoch=ended.producer.epoch,
        )
