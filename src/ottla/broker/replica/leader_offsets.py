"""Looks up the start and the end of the log of a partition's leader, after a fetch offset was out of range."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.broker.replica.ports import FetchPeers
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from ottla.replication.partition import Partition

_LATEST: Final = -1
_EARLIEST: Final = -2


def look_up_offsets(
    peers: FetchPeers, node_id: int, partition: Partition, *, timeout_s: float
) -> Promise[tuple[int, int]]:
    """Return (start, end) of the leader's log; the promise fails if the leader does not report them.

    The end is that of the log, not the high watermark: the request has the id of a replica.
    """
    result: Promise[tuple[int, int]] = Promise()
    found: dict[int, int] = {}

    def received(timestamp: int, response: ListOffsetsResponse | None, error: BaseException | None) -> None:
        if result.done:
            return
        if response is None:
            result.fail(error or ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        partitions = [one for topic in response.topics for one in topic.partitions]
        if len(partitions) != 1 or partitions[0].error_code or partitions[0].offset < 0:
            code = partitions[0].error_code if partitions else ErrorCode.UNKNOWN_SERVER_ERROR
            result.fail(ApiError(ErrorCode(code), "the leader did not report its offsets"))
            return
        found[timestamp] = partitions[0].offset
        if len(found) == 2:
            result.keep((found[_EARLIEST], found[_LATEST]))

    for timestamp in (_EARLIEST, _LATEST):
        wanted = ListOffsetsPartition(
            partition_index=partition.index,
            current_leader_epoch=partition.leader_epoch,
            timestamp=timestamp,
        )
        request = ListOffsetsRequest(
            replica_id=node_id, topics=[ListOffsetsTopic(name=partition.topic, partitions=[wanted])]
        )
        promise = peers.request(partition.leader, request, ListOffsetsResponse, timeout_s=timeout_s)
        promise.when_done(partial(received, timestamp))
    return result
