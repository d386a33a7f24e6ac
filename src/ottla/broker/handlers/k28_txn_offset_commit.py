"""TxnOffsetCommit (key 28), versions 0-5: commits offsets that become effective when a transaction commits.

Before version 5 AddOffsetsToTxn adds the partition of the group to the transaction; from version 5 on this request
does. Clients before version 2 do not know COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import check, name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import GroupCoordinator
from ottla.broker.coordination.group_requests import TopicResponses, by_name, client_error
from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_KNOWS_LOADING: Final = 2


@handles(
    ApiKey.TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    versions=(0, 5),
    requires=resources(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        (Operation.READ, ResourceType.GROUP),
        (Operation.READ, ResourceType.TOPIC),
    ),
)
@dataclass(frozen=True)
class TxnOffsetCommit:
    """Commits transactional offsets of existing partitions through the coordinator of the group."""

    authorization: Authorization
    metadata: MetadataCache
    groups: GroupCoordinator

    async def handle(self, request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse:
        responses = TopicResponses(_response)
        try:
            name = request.transactional_id
            check(self.authorization, call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
            check(self.authorization, call, Operation.READ, ResourceType.GROUP, request.group_id)
        except ApiError as error:
            return TxnOffsetCommitResponse(topics=responses.all_refused(request.topics, error.code))
        readable = name_filter(self.authorization, call, Operation.READ, ResourceType.TOPIC)
        request.topics = responses.existing(request.topics, self.metadata.image, by_name, readable)
        decided: list[TxnOffsetCommitResponseTopic] = []
        if request.topics:
            try:
                if not request.group_id:
                    raise ApiError(ErrorCode.INVALID_GROUP_ID)
                response = await self.groups.write_transactional(
                    request.group_id,
                    request.transactional_id,
                    request.producer_id,
                    request.producer_epoch,
                    lambda machine: machine.commit_transactional_offsets(request, call.api_version),
                    api_version=call.api_version,
                )
                decided = response.topics
            except ApiError as error:
                code = client_error(error)
                if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and call.api_version < _KNOWS_LOADING:
                    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
                decided = [responses.refused(topic, code) for topic in request.topics]
        return TxnOffsetCommitResponse(topics=responses.joined(decided))


def _response(
    topic: TxnOffsetCommitRequestTopic, partitions: list[tuple[int, ErrorCode]]
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)
            for index, code in partitions
        ],
    )
