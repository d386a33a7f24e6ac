"""Envelope (key 58), version 0: client requests that brokers forward to the active controller."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.forwarding.envelope import EnvelopeServer, ForwardedResponse
from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.envelope import EnvelopeRequest


@handles(
    ApiKey.ENVELOPE,
    EnvelopeRequest,
    versions=(0, 0),
    listeners=CONTROLLER,
    requires=cluster(Operation.CLUSTER_ACTION),
)
@dataclass(frozen=True)
class Envelope:
    """Passes the request inside to its handler."""

    envelopes: EnvelopeServer

    async def handle(self, request: EnvelopeRequest, call: Call) -> ForwardedResponse:
        return await self.envelopes.handle(request, call.origin)
