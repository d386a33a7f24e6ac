"""AddPartitionsToTxn (key 24), versions 0-5: adds the partitions that a transaction will write to.

Clients send versions up to 3, with one transaction. Brokers send later versions, with several transactions, and can
verify without adding (`verify_only`). All partitions of a transaction are added or none: if one does not exist, the
others get OPERATION_NOT_ATTEMPTED. Clients cannot add internal topics.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.access import allows_cluster, name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import TxnCoordinator
from ottla.broker.coordination.txn_requests import client_error
from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.coordinator.txn.transaction import EPOCH_PER_TRANSACTION, Producer, by_topic
from ottla.metadata.topic_names import INTERNAL_TOPICS
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_KNOWS_FENCED: Final = 2
_FROM_BROKERS: Final = 4

PartitionErrors = dict[TopicPartition, ErrorCode]


@handles(
    ApiKey.ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    versions=(0, 5),
    requires=resources(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        (Operation.WRITE, ResourceType.TOPIC),
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
)
@dataclass(frozen=True)
class AddPartitionsToTxn:
    """Adds partitions to transactions, or verifies them, through the coordinators."""

    authorization: Authorization
    metadata: MetadataCache
    transactions: TxnCoordinator

    async def handle(self, request: AddPartitionsToTxnRequest, call: Call) -> AddPartitionsToTxnResponse:
        if call.api_version >= _FROM_BROKERS and not allows_cluster(
            self.authorization, call, Operation.CLUSTER_ACTION
        ):
            return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if call.api_version < _FROM_BROKERS:
            only = AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await self._results(only, call))
        results = await asyncio.gather(*(self._results(each, call) for each in request.transactions))
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=result)
                for each, result in zip(request.transactions, results, strict=True)
            ]
        )

    async def _results(
        self, transaction: AddPartitionsToTxnTransaction, call: Call
    ) -> list[AddPartitionsToTxnTopicResult]:
        partitions = [
            TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions
        ]
        if call.api_version < _FROM_BROKERS and not self.authorization.allows(
            call.origin, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id
        ):
            denied = dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return _repeated(transaction.topics, denied)
        refused = self._refused(partitions, call)
        if refused:
            return _listed(dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | refused)
        try:
            results = await self._decide(transaction, frozenset(partitions), call)
        except ApiError as error:
            results = dict.fromkeys(partitions, error.code)
        knows_fenced = call.api_version >= _KNOWS_FENCED
        codes = {each: client_error(code, knows_fenced=knows_fenced) for each, code in results.items()}
        return _listed(codes) if transaction.verify_only else _repeated(transaction.topics, codes)

    def _refused(self, partitions: list[TopicPartition], call: Call) -> PartitionErrors:
        """Return the errors of partitions that do not exist or that clients may not write to."""
        refused: PartitionErrors = {}
        topics = self.metadata.image.topics.by_name
        is_client = call.api_version < _FROM_BROKERS
        writable = name_filter(self.authorization, call, Operation.WRITE, ResourceType.TOPIC)
        for each in partitions:
            if is_client and (
                each.topic in INTERNAL_TOPICS or (writable is not None and not writable(each.topic))
            ):
                refused[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif each.topic not in topics or each.partition not in topics[each.topic].partitions:
                refused[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return refused

    async def _decide(
        self, transaction: AddPartitionsToTxnTransaction, partitions: frozenset[TopicPartition], call: Call
    ) -> PartitionErrors:
        name = transaction.transactional_id
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        if transaction.verify_only:
            return await self.transactions.read(
                name, lambda machine: machine.verify(name, producer, partitions)
            )
        version = EPOCH_PER_TRANSACTION if call.api_version >= _FROM_BROKERS else 0
        code = await self.transactions.write(
            name, lambda machine: machine.add_partitions(name, producer, partitions, client_version=version)
        )
        return dict.fromkeys(partitions, code)


def _repeated(
    topics: list[AddPartitionsToTxnTopic], codes: PartitionErrors
) -> list[AddPartitionsToTxnTopicResult]:
    """The topics and partitions as they are in the request, also if it repeats them."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[TopicPartition(topic.name, index)]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _listed(results: PartitionErrors) -> list[AddPartitionsToTxnTopicResult]:
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
