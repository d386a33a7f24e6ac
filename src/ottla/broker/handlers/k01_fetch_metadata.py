"""Fetch (key 1) on the controller listener, versions 4-18: a replica of the quorum fetches the metadata log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.base.promise import Promise
from ottla.broker.quorum_responses import remove_endpoints, without
from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import EpochEndOffset, FetchRequest, LeaderIdAndEpoch, SnapshotId
from ottla.wire.schema import Message

_FIRST_TAGS: Final = 12
_FIRST_ENDPOINTS: Final = 17


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
        if call.api_version >= _FIRST_ENDPOINTS:
            return response
        has_tags = call.api_version >= _FIRST_TAGS
        return without(response, remove_endpoints if has_tags else _remove_endpoints_and_tags)


def _remove_endpoints_and_tags(response: Any) -> None:
    remove_endpoints(response)
    for topic in response.responses:
        for partition in topic.partitions:
            partition.current_leader = LeaderIdAndEpoch()
            partition.diverging_epoch = EpochEndOffset()
            partition.snapshot_id = SnapshotId()
