"""DescribeDelegationToken (key 41), versions 1-3: tokens with their secrets, for those who may use them (KIP-48).

A client sees the tokens that it owns, has requested or may renew. It sees others if it may describe the token
(Describe on DelegationToken) or the tokens of their owner (DescribeTokens on User). The others are left out.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import resources
from ottla.broker.token_requests import may_use_tokens
from ottla.config.broker import BrokerConfig
from ottla.metadata.records import DelegationTokenRecord
from ottla.security.resources import Operation, ResourceType
from ottla.security.tokens import SECRET_KEY, belongs_to, token_hmac
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

_FIRST_REQUESTER: Final = 3


@handles(
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    DescribeDelegationTokenRequest,
    versions=(1, 3),
    listeners=BROKER_AND_CONTROLLER,
    requires=resources(
        (Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN), (Operation.DESCRIBE_TOKENS, ResourceType.USER)
    ),
)
class DescribeDelegationToken:
    """Describes the tokens of the newest image."""

    def __init__(self, metadata: MetadataCache, config: BrokerConfig, authorization: Authorization) -> None:
        secret = config.value(SECRET_KEY)
        self._secret = secret if isinstance(secret, str) else ""
        self._metadata = metadata
        self._authorization = authorization

    def handle(self, request: DescribeDelegationTokenRequest, call: Call) -> DescribeDelegationTokenResponse:
        if not may_use_tokens(call.origin):
            return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        if not self._secret:
            return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        owners = None
        if request.owners is not None:
            owners = [f"{each.principal_type}:{each.principal_name}" for each in request.owners]
        tokens = [
            _described(token, token_hmac(self._secret, token.token_id), call.api_version)
            for token in self._metadata.image.tokens.values()
            if owners is None or any(belongs_to(token, owner) for owner in owners)
            if self._sees(call, token)
        ]
        return DescribeDelegationTokenResponse(tokens=tokens)

    def _sees(self, call: Call, token: DelegationTokenRecord) -> bool:
        origin, allows = call.origin, self._authorization.allows
        return (
            belongs_to(token, origin.principal.text)
            or allows(origin, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
            or allows(origin, Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
        )


def _described(token: DelegationTokenRecord, secret: bytes, version: int) -> DescribedDelegationToken:
    owner_type, _, owner = token.owner.partition(":")
    shown = token.requester if version >= _FIRST_REQUESTER else ""
    requester_type, _, requester = shown.partition(":")
    renewers = [each.partition(":") for each in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=secret,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in renewers
        ],
    )
