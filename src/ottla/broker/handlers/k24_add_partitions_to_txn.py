"""AddPartitionsToTxn (key 24), versions 0-5: which partitions a transaction will write to.

Clients send versions up to 3, one transaction at a time; brokers send the later ones, many transactions at a time,
and may ask only whether partitions are in them. All partitions of a transaction are added or none: if one does
not exist, the others are told that nothing was attempted. Clients cannot name internal topics.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.coordination.txn_requests import told
from ottla.broker.registry import Call, handles
from ottla.coordinator.txn.transaction import EPOCH_PER_TRANSACTION, Producer, by_topic
from ottla.metadata.topic_names import INTERNAL_TOPICS
from ottla.wire.apis import ApiKey
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_KNOWS_FENCED: Final = 2
_FROM_BROKERS: Final = 4

Results = dict[TopicPartition, ErrorCode]


@handles(ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest, versions=(0, 5))
async def add_partitions_to_txn(request: AddPartitionsToTxnRequest, call: Call) -> AddPartitionsToTxnResponse:
    if call.api_version < _FROM_BROKERS:
        only = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _answer(only, call))
    answers = await asyncio.gather(*(_answer(each, call) for each in request.transactions))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=answer)
            for each, answer in zip(request.transactions, answers, strict=True)
        ]
    )


async def _answer(
    transaction: AddPartitionsToTxnTransaction, call: Call
) -> list[AddPartitionsToTxnTopicResult]:
    partitions = [
        TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions
    ]
    refused = _refused(partitions, call)
    if refused:
        return _listed(dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | refused)
    try:
        results = await _decided(transaction, frozenset(partitions), call)
    except ApiError as error:
        results = dict.fromkeys(partitions, error.code)
    knows_fenced = call.api_version >= _KNOWS_FENCED
    listed = _listed({each: told(code, knows_fenced=knows_fenced) for each, code in results.items()})
    if not transaction.verify_only:
        listed += [
            AddPartitionsToTxnTopicResult(name=each.name)
            for each in transaction.topics
            if not each.partitions
        ]
    return listed


def _refused(partitions: list[TopicPartition], call: Call) -> Results:
    """The partitions that nobody, or no client, can write to."""
    refused: Results = {}
    topics = call.broker.image.topics.by_name
    for each in partitions:
        if call.api_version < _FROM_BROKERS and each.topic in INTERNAL_TOPICS:
            refused[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif each.topic not in topics or each.partition not in topics[each.topic].partitions:
            refused[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


async def _decided(
    transaction: AddPartitionsToTxnTransaction, partitions: frozenset[TopicPartition], call: Call
) -> Results:
    name = transaction.transactional_id
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    coordinator = call.broker.transactions
    if transaction.verify_only:
        return await coordinator.read(name, lambda machine: machine.verify(name, producer, partitions))
    version = EPOCH_PER_TRANSACTION if call.api_version >= _FROM_BROKERS else 0
    code = await coordinator.write(
        name, lambda machine: machine.add_partitions(name, producer, partitions, client_version=version)
    )
    return dict.fromkeys(partitions, code)


def _listed(results: Results) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=results[TopicPartition(topic, index)]
                )
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(results)
    ]
