"""ExpireDelegationToken (key 40), versions 1-2: sets the expiry of a token, or removes it (KIP-48)."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.forwarding.forwarder import Forwarder
from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import NOTHING
from ottla.broker.token_requests import change_allowed
from ottla.controller.port import ControllerPort
from ottla.wire.apis import ApiKey
from ottla.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


@handles(ApiKey.EXPIRE_DELEGATION_TOKEN, ExpireDelegationTokenRequest, versions=(1, 2), requires=NOTHING)
@dataclass(frozen=True)
class ExpireDelegationToken:
    """Checks the client and forwards its request to the active controller, which knows the owner of the token."""

    forwarder: Forwarder

    async def handle(
        self, request: ExpireDelegationTokenRequest, call: Call
    ) -> ExpireDelegationTokenResponse:
        response = ExpireDelegationTokenResponse
        return await change_allowed(
            response, call, lambda: self.forwarder.request_of_client(request, response, call)
        )


@handles(
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ExpireDelegationTokenRequest,
    versions=(1, 2),
    listeners=CONTROLLER,
    forwarded=True,
    requires=NOTHING,
)
@dataclass(frozen=True)
class ControllerExpireDelegationToken:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(
        self, request: ExpireDelegationTokenRequest, call: Call
    ) -> ExpireDelegationTokenResponse:
        return await change_allowed(
            ExpireDelegationTokenResponse,
            call,
            lambda: self.controller.expire_delegation_token(request, call.origin.principal),
        )
