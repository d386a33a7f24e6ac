"""RenewDelegationToken (key 39), versions 1-2: moves the expiry of a token to a later time (KIP-48)."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.forwarding.forwarder import Forwarder
from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import NOTHING
from ottla.broker.token_requests import change_allowed
from ottla.controller.port import ControllerPort
from ottla.wire.apis import ApiKey
from ottla.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


@handles(ApiKey.RENEW_DELEGATION_TOKEN, RenewDelegationTokenRequest, versions=(1, 2), requires=NOTHING)
@dataclass(frozen=True)
class RenewDelegationToken:
    """Checks the client and forwards its request to the active controller, which knows the owner of the token."""

    forwarder: Forwarder

    async def handle(self, request: RenewDelegationTokenRequest, call: Call) -> RenewDelegationTokenResponse:
        response = RenewDelegationTokenResponse
        return await change_allowed(
            response, call, lambda: self.forwarder.request_of_client(request, response, call)
        )


@handles(
    ApiKey.RENEW_DELEGATION_TOKEN,
    RenewDelegationTokenRequest,
    versions=(1, 2),
    listeners=CONTROLLER,
    forwarded=True,
    requires=NOTHING,
)
@dataclass(frozen=True)
class ControllerRenewDelegationToken:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(self, request: RenewDelegationTokenRequest, call: Call) -> RenewDelegationTokenResponse:
        return await change_allowed(
            RenewDelegationTokenResponse,
            call,
            lambda: self.controller.renew_delegation_token(request, call.origin.principal),
        )
