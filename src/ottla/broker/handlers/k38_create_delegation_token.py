"""CreateDelegationToken (key 38), versions 1-3: a token with which clients can act for its owner (KIP-48, KIP-373)."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.authorization import Authorization
from ottla.broker.forwarding.forwarder import Forwarder
from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import resources
from ottla.broker.token_requests import create_allowed
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)


@handles(
    ApiKey.CREATE_DELEGATION_TOKEN,
    CreateDelegationTokenRequest,
    versions=(1, 3),
    requires=resources((Operation.CREATE_TOKENS, ResourceType.USER)),
)
@dataclass(frozen=True)
class CreateDelegationToken:
    """Checks the client and forwards its request to the active controller."""

    authorization: Authorization
    forwarder: Forwarder

    async def handle(
        self, request: CreateDelegationTokenRequest, call: Call
    ) -> CreateDelegationTokenResponse:
        return await create_allowed(
            self.authorization,
            request,
            call,
            lambda: self.forwarder.request_of_client(request, CreateDelegationTokenResponse, call),
        )


@handles(
    ApiKey.CREATE_DELEGATION_TOKEN,
    CreateDelegationTokenRequest,
    versions=(1, 3),
    listeners=CONTROLLER,
    forwarded=True,
    requires=resources((Operation.CREATE_TOKENS, ResourceType.USER)),
)
@dataclass(frozen=True)
class ControllerCreateDelegationToken:
    """Passes the request to the controller."""

    authorization: Authorization
    controller: ControllerPort

    async def handle(
        self, request: CreateDelegationTokenRequest, call: Call
    ) -> CreateDelegationTokenResponse:
        return await create_allowed(
            self.authorization,
            request,
            call,
            lambda: self.controller.create_delegation_token(request, call.origin.principal),
        )
