"""AddOffsetsToTxn (key 25), versions 0-4: a transaction will commit offsets of a group.

The partition of __consumer_offsets that holds the group becomes part of the transaction.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.coordination.txn_requests import told
from ottla.broker.registry import Call, handles
from ottla.coordinator.txn.transaction import Producer
from ottla.wire.apis import ApiKey
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_KNOWS_FENCED: Final = 2


@handles(ApiKey.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest, versions=(0, 4))
async def add_offsets_to_txn(request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse:
    groups, name = call.broker.groups, request.transactional_id
    partition = TopicPartition(groups.topic, groups.partition_for(request.group_id))
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        code = await call.broker.transactions.write(
            name, lambda machine: machine.add_partitions(name, producer, frozenset({partition}))
        )
    except ApiError as error:
        code = error.code
    return AddOffsetsToTxnResponse(error_code=told(code, knows_fenced=call.api_version >= _KNOWS_FENCED))
