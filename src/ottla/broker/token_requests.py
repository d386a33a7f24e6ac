"""Which clients may use delegation tokens, and the checks of requests about them.

A client that has logged in with a token cannot create or change tokens, so a stolen token does not outlive its maximum
time. Neither can a client without an identity: on a PLAINTEXT listener, or by TLS without a certificate. The listener
of a forwarded request is that of the broker, which has checked it.
"""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.broker.authorization import Authorization
from ottla.broker.net.origin import Origin
from ottla.broker.registry import Call
from ottla.controller.security.tokens import creation_response, owner_of
from ottla.security.principal import ANONYMOUS, USER
from ottla.security.protocol import SecurityProtocol
from ottla.security.resources import Operation, ResourceType
from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

NO_TIME = -1
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
    return creation_response(owner, requester, code, NO_TIME)
