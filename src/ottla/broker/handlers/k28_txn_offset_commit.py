"""TxnOffsetCommit (key 28), versions 0-5: offsets that count if and when a transaction commits.

Before version 5 AddOffsetsToTxn has made the group's partition part of the transaction; from then on this request
does. Versions before 2 do not know that a coordinator may be loading.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.coordination.group_requests import TopicAnswers, by_name, code_of
from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_KNOWS_LOADING: Final = 2


@handles(ApiKey.TXN_OFFSET_COMMIT, TxnOffsetCommitRequest, versions=(0, 5))
async def txn_offset_commit(request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse:
    answers = TopicAnswers(_answer)
    request.topics = answers.existing(request.topics, call.broker.image, by_name)
    decided: list[TxnOffsetCommitResponseTopic] = []
    if request.topics:
        try:
            if not request.group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID)
            response = await call.broker.groups.write_transactional(
                request.group_id,
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                lambda machine: machine.commit_transactional_offsets(request, call.api_version),
                api_version=call.api_version,
            )
            decided = response.topics
        except ApiError as error:
            code = code_of(error)
            if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and call.api_version < _KNOWS_LOADING:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            decided = [answers.refused(topic, code) for topic in request.topics]
    return TxnOffsetCommitResponse(topics=answers.joined(decided))


def _answer(
    topic: TxnOffsetCommitRequestTopic, partitions: list[tuple[int, ErrorCode]]
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)
            for index, code in partitions
        ],
    )
