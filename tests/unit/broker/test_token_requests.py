"""Requests about delegation tokens: which clients may send them, and which tokens they see."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.handlers.k41_describe_delegation_token import DescribeDelegationToken
from ottla.broker.net.listeners import Listener
from ottla.broker.net.origin import Origin
from ottla.broker.registry import Call
from ottla.broker.token_requests import may_use_tokens, refuse_creation
from ottla.config.broker import BrokerConfig
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import DelegationTokenRecord
from ottla.security.principal import ANONYMOUS, Principal, user
from ottla.security.protocol import SecurityProtocol
from ottla.security.resources import Operation, ResourceType
from ottla.security.tokens import token_hmac
from ottla.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)

ALICE = user("alice")
BY_TOKEN = Principal("User", "alice", token_authenticated=True)
SECRET = "the key"
PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = SecurityProtocol


class Allowing(Authorization):
    """Allows what is listed."""

    def __init__(self, *allowed: tuple[Operation, ResourceType, str]) -> None:
        self.allowed = allowed

    def allows(
        self, origin: Origin, operation: Operation, resource_type: ResourceType, name: str, **_: Any
    ) -> bool:
        return (operation, resource_type, name) in self.allowed


def call(
    principal: Principal = ALICE,
    protocol: SecurityProtocol = SASL_SSL,
    port: int | None = 1,
    version: int = 3,
) -> Call:
    listener = Listener("CLIENTS", "", 0, "", 0, protocol=protocol)
    return Call(version, 0, None, Origin(listener, "10.0.0.1", port, principal))


@pytest.mark.parametrize(
    ("principal", "protocol", "port", "allowed"),
    [
        (ALICE, SASL_SSL, 1, True),
        (ALICE, SASL_PLAINTEXT, 1, True),
        (ALICE, SSL, 1, True),
        (ANONYMOUS, SSL, 1, False),
        (ANONYMOUS, PLAINTEXT, 1, False),
        (ANONYMOUS, SASL_SSL, 1, True),
        (ALICE, PLAINTEXT, 1, False),
        (BY_TOKEN, SASL_SSL, 1, False),
        (ALICE, PLAINTEXT, None, True),
        (BY_TOKEN, SASL_SSL, None, False),
    ],
)
def test_who_may_use_tokens(
    principal: Principal, protocol: SecurityProtocol, port: int | None, allowed: bool
) -> None:
    assert may_use_tokens(call(principal, protocol, port).origin) is allowed


def test_creation() -> None:
    own = CreateDelegationTokenRequest()
    other = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob")
    odd = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type="Group", principal_name="x")]
    )
    may_act_for_bob = Allowing((Operation.CREATE_TOKENS, ResourceType.USER, "User:bob"))
    assert refuse_creation(Allowing(), own, call()) is None
    assert refuse_creation(may_act_for_bob, other, call()) is None
    for authorization, request, code in (
        (Allowing(), other, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
        (Allowing(), odd, ErrorCode.INVALID_PRINCIPAL_TYPE),
    ):
        refusal = refuse_creation(authorization, request, call())
        assert refusal is not None
        assert (refusal.error_code, refusal.issue_timestamp_ms, refusal.hmac) == (code, -1, b"")
    refusal = refuse_creation(Authorization(), own, call(BY_TOKEN))
    assert refusal is not None
    assert refusal.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


TOKENS = {
    "own": DelegationTokenRecord(token_id="own", owner="User:alice", requester="User:alice"),
    "asked": DelegationTokenRecord(token_id="asked", owner="User:bob", requester="User:alice"),
    "renewed": DelegationTokenRecord(
        token_id="renewed",
        owner="User:bob",
        requester="User:bob",
        renewers=["User:alice"],
        expiration_timestamp=7,
    ),
    "foreign": DelegationTokenRecord(token_id="foreign", owner="User:bob", requester="User:bob"),
}


def described(
    authorization: Authorization,
    owners: list[str] | None = None,
    *,
    secret: str | None = SECRET,
    **options: Any,
) -> tuple[int, list[str]]:
    settings = {"node.id": "1"} | ({} if secret is None else {"delegation.token.secret.key": secret})
    cache = MetadataCache(MetadataImage(tokens=TOKENS))
    handler = DescribeDelegationToken(cache, BrokerConfig(settings), authorization)
    wanted = None
    if owners is not None:
        wanted = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
    response = handler.handle(DescribeDelegationTokenRequest(owners=wanted), call(**options))
    for each in response.tokens:
        assert each.hmac == token_hmac(SECRET, each.token_id)
    return response.error_code, [each.token_id for each in response.tokens]


def test_descriptions() -> None:
    nothing = Allowing()
    assert described(nothing) == (0, ["own", "asked", "renewed"])
    assert described(nothing, []) == (0, [])
    assert described(nothing, ["alice"]) == (0, ["own", "asked", "renewed"])
    assert described(nothing, ["bob"]) == (0, ["asked", "renewed"])
    one = Allowing((Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "foreign"))
    of_bob = Allowing((Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob"))
    assert described(one)[1] == described(of_bob)[1] == list(TOKENS)
    assert described(of_bob, principal=user("carol")) == (0, ["asked", "renewed", "foreign"])
    assert described(nothing, secret=None) == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, [])
    assert described(nothing, principal=BY_TOKEN) == (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, [])
