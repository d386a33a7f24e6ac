"""Vote (key 52), versions 0-2: a candidate requests the vote of this node. Pre-votes from version 2 on."""

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
from ottla.wire.messages.vote import VoteRequest
from ottla.wire.schema import Message

_FIRST_ENDPOINTS: Final = 1


@handles(
    ApiKey.VOTE,
    VoteRequest,
    versions=(0, 2),
    listeners=CONTROLLER,
    requires=cluster(Operation.CLUSTER_ACTION),
)
@dataclass(frozen=True)
class Vote:
    """Passes the request to the quorum."""

    quorum_requests: Callable[[Message], Promise[Message]]

    def handle(self, request: VoteRequest, call: Call) -> Promise[Message]:
        response = self.quorum_requests(request)
        return response if call.api_version >= _FIRST_ENDPOINTS else without(response, remove_endpoints)
