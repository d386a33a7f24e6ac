"""Vote (key 52), versions 0-2: a candidate requests the vote of this node. Pre-votes from version 2 on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.base.promise import Promise
from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.vote import VoteRequest
from ottla.wire.schema import Message


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
        return self.quorum_requests(request)
