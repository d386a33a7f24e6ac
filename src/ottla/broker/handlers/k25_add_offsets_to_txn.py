"""AddOffsetsToTxn (key 25), versions 0-4: announces that a transaction will commit offsets of a group.

The partition of __consumer_offsets to which the group is mapped is added to the transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.access import check
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import GroupCoordinator, TxnCoordinator
from ottla.broker.coordination.txn_requests import client_error
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.coordinator.txn.transaction import Producer
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_KNOWS_FENCED: Final = 2


@handles(
    ApiKey.ADD_OFFSETS_TO_TXN,
    AddOffsetsToTxnRequest,
    versions=(0, 4),
    requires=resources(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID), (Operation.READ, ResourceType.GROUP)
    ),
)
@dataclass(frozen=True)
class AddOffsetsToTxn:
    """Adds the partition of a group to a transaction through its coordinator."""

    authorization: Authorization
    groups: GroupCoordinator
    transactions: TxnCoordinator

    async def handle(self, request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse:
        name = request.transactional_id
        partition = TopicPartition(self.groups.topic, self.groups.partition_for(request.group_id))
        producer = Producer(request.producer_id, request.producer_epoch)
        try:
            check(self.authorization, call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
            check(self.authorization, call, Operation.READ, ResourceType.GROUP, request.group_id)
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST)
            code = await self.transactions.write(
                name, lambda machine: machine.add_partitions(name, producer, frozenset({partition}))
            )
        except ApiError as error:
            code = error.code
        knows_fenced = call.api_version >= _KNOWS_FENCED
        return AddOffsetsToTxnResponse(error_code=client_error(code, knows_fenced=knows_fenced))
