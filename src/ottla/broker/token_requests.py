"""Which clients may use delegation tokens, and the checks of requests about them.

A client that has logged in with a token cannot create or change tokens, so a stolen token does not outlive its maximum
time. Neither can a client without an identity: on a PLAINTEXT listener, or by TLS without a certificate. The listener
of a forwarded request is that of the broker, which has checked it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ottla.base.errors import ErrorCode
from ottla.broker.authorization import Authorization
from ottla.broker.net.origin import Origin
from ottla.broker.registry import Call
from ottla.controller.security.tokens import creation_response, in_version, owner_of
from ottla.security.principal import ANONYMOUS, USER
from ottla.security.protocol import SecurityProtocol
from ottla.security.resources import Operation, ResourceType
from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenResponse
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenResponse

_Changed = TypeVar("_Changed", RenewDelegationTokenResponse, ExpireDelegationTokenResponse)
_NO_TIME: Final = -1
"""The timestamps of a response without a token."""


def may_use_tokens(origin: Origin) -> bool:
    """Whether the client of a request may create, change and describe tokens."""
    if origin.principal.token_authenticated:
        return False
    if origin.forwarded:
        return True
    protocol = origin.listener.protocol
    return protocol is not SecurityProtocol.PLAINTEXT and not (
        protocol is SecurityProtocol.SSL and origin.principal == ANONYMOUS
    )


async def create_allowed(
    authorization: Authorization,
    request: CreateDelegationTokenRequest,
    call: Call,
    create: Callable[[], Awaitable[CreateDelegationTokenResponse]],
) -> CreateDelegationTokenResponse:
    """Create a token if the client may; otherwise the error response. Either has the fields of the version."""
    response = refuse_creation(authorization, request, call) or await create()
    return in_version(response, call.api_version)


async def change_allowed(
    kind: type[_Changed], call: Call, change: Callable[[], Awaitable[_Changed]]
) -> _Changed:
    """Change a token if the client may use tokens; otherwise the error response."""
    if not may_use_tokens(call.origin):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return kind(error_code=code, expiry_timestamp_ms=_NO_TIME)
    return await change()


def refuse_creation(
    authorization: Authorization, request: CreateDelegationTokenRequest, call: Call
) -> CreateDelegationTokenResponse | None:
    """The error response to a request for a new token; None if it is allowed."""
    requester = call.origin.principal
    owner = owner_of(request, requester)
    if not may_use_tokens(call.origin):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif owner.text != requester.text and not authorization.allows(
        call.origin, Operation.CREATE_TOKENS, ResourceType.USER, owner.text
    ):
        code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    elif any(each.principal_type != USER for each in request.renewers):
        code = ErrorCode.INVALID_PRINCIPAL_TYPE
    else:
        return None
    return creation_response(owner, requester, code, _NO_TIME)
