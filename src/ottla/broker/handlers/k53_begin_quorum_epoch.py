"""BeginQuorumEpoch (key 53), versions 0-1: a new leader of the quorum announces itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.base.promise import Promise
from ottla.broker.quorum_responses import remove_endpoints, without
from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from ottla.wire.schema import Message

_FIRST_ENDPOINTS: Final = 1


@handles(
    ApiKey.BEGIN_QUORUM_EPOCH,
    BeginQuorumEpochRequest,
    versions=(0, 1),
    listeners=CONTROLLER,
    requires=cluster(Operation.CLUSTER_ACTION),
)
@dataclass(frozen=True)
class BeginQuorumEpoch:
    """Passes the request to the quorum."""

    quorum_requests: Callable[[Message], Promise[Message]]

    def handle(self, request: BeginQuorumEpochRequest, call: Call) -> Promise[Message]:
        response = self.quorum_requests(request)
        return response if call.api_version >= _FIRST_ENDPOINTS else without(response, remove_endpoints)
