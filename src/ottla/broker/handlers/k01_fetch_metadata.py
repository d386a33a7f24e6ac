"""Fetch (key 1) on the controller listener, versions 4-18: a replica of the quorum fetches the metadata log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from ottla.base.promise import Promise
from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    SnapshotId,
)
from ottla.wire.schema import Message

_FIRST_QUORUM_FIELDS: Final = 12


@handles(
    ApiKey.FETCH,
    FetchRequest,
    versions=(4, 18),
    listeners=CONTROLLER,
    requires=cluster(Operation.CLUSTER_ACTION),
)
@dataclass(frozen=True)
class FetchMetadata:
    """Passes the request to the quorum."""

    quorum_requests: Callable[[Message], Promise[Message]]

    def handle(self, request: FetchRequest, call: Call) -> Promise[Message]:
        response = self.quorum_requests(request)
        return response if call.api_version >= _FIRST_QUORUM_FIELDS else _without_quorum_fields(response)


def _without_quorum_fields(promise: Promise[Message]) -> Promise[Message]:
    """The response without the fields that old versions do not have: they cannot be encoded there."""
    found: Promise[Message] = Promise()

    def done(response: Message | None, error: BaseException | None) -> None:
        if error is not None:
            found.fail(error)
            return
        for topic in cast(FetchResponse, response).responses:
            for partition in topic.partitions:
                partition.current_leader = LeaderIdAndEpoch()
                partition.diverging_epoch = EpochEndOffset()
                partition.snapshot_id = SnapshotId()
        found.keep(cast(FetchResponse, response))

    promise.when_done(done)
    return found
