"""RenewDelegationToken (key 39), versions 1-2: moves the expiry of a token to a later time (KIP-48)."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.errors import ErrorCode
from ottla.broker.forwarding.forwarder import Forwarder
from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import NOTHING
from ottla.broker.token_requests import NO_TIME, may_use_tokens
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
        if not may_use_tokens(call.origin):
            return _not_allowed()
        return await self.forwarder.request_of_client(request, RenewDelegationTokenResponse, call)


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
        if not may_use_tokens(call.origin):
            return _not_allowed()
        return await self.controller.renew_delegation_token(request, call.origin.principal)


def _not_allowed() -> RenewDelegationTokenResponse:
    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME)
