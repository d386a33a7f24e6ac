"""Decisions about delegation tokens: create, renew, expire, and remove those that have expired.

A token has an expiry time, which its owner and its renewers can move, and a maximum time, which none of them can. The
image has the ids of tokens and never their secrets (`ottla.security.tokens`).
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import uuid_text
from ottla.base.rng import Random, random_uuid
from ottla.config.broker import BrokerConfig
from ottla.controller.decision import Decision
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import DelegationTokenRecord, RemoveDelegationTokenRecord
from ottla.security.principal import USER, Principal
from ottla.security.tokens import SECRET_KEY, TokenIndex, token_hmac
from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.wire.schema import Message

_FIRST_METADATA_VERSION: Final = 14
_FIRST_REQUESTER: Final = 3
_TIME_MAX: Final = 2**63 - 1
_REMOVED_MAX: Final = 1000
"""The most tokens that one decision removes."""


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """The owner of a new token: the principal that the request names, or the client."""
    if not request.owner_principal_name:
        return requester
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


def creation_response(
    owner: Principal, requester: Principal, code: ErrorCode, timestamp_ms: int = 0
) -> CreateDelegationTokenResponse:
    """The response without a token."""
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=timestamp_ms,
        expiry_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
    )


def in_version(response: CreateDelegationTokenResponse, api_version: int) -> CreateDelegationTokenResponse:
    """The response with the fields of a version: older ones do not name the requester."""
    if api_version < _FIRST_REQUESTER:
        response.token_requester_principal_type = response.token_requester_principal_name = ""
    return response


class TokenManager:
    """Decisions about tokens. Without a secret every request is refused."""

    def __init__(self, config: BrokerConfig, rng: Random) -> None:
        secret = config.value(SECRET_KEY)
        self._secret = secret if isinstance(secret, str) and secret else None
        self._index = None if self._secret is None else TokenIndex(self._secret)
        self._max_lifetime_ms = config.long("delegation.token.max.lifetime.ms")
        self._renewal_ms = config.long("delegation.token.expiry.time.ms")
        self._rng = rng

    @property
    def enabled(self) -> bool:
        return self._secret is not None

    def decide_create(
        self,
        image: MetadataImage,
        request: CreateDelegationTokenRequest,
        requester: Principal,
        now_ms: int,
    ) -> Decision[CreateDelegationTokenResponse]:
        """Create a token for the owner that the request names."""
        owner = owner_of(request, requester)
        response = creation_response(owner, requester, ErrorCode.NONE)
        try:
            secret, _ = self._check(image)
            if any(each.principal_type != USER for each in request.renewers):
                raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        except ApiError as error:
            response.error_code = error.code
            return Decision([], response)
        lifetime_ms = self._max_lifetime_ms
        if request.max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
        max_ms = min(now_ms + lifetime_ms, _TIME_MAX)
        token = DelegationTokenRecord(
            owner=owner.text,
            requester=requester.text,
            renewers=[f"{each.principal_type}:{each.principal_name}" for each in request.renewers],
            issue_timestamp=now_ms,
            max_timestamp=max_ms,
            expiration_timestamp=min(now_ms + self._renewal_ms, max_ms),
            token_id=uuid_text(random_uuid(self._rng)),
        )
        response.issue_timestamp_ms = now_ms
        response.expiry_timestamp_ms = token.expiration_timestamp
        response.max_timestamp_ms = max_ms
        response.token_id = token.token_id
        response.hmac = token_hmac(secret, token.token_id)
        return Decision([token], response)

    def decide_renew(
        self, image: MetadataImage, request: RenewDelegationTokenRequest, principal: Principal, now_ms: int
    ) -> Decision[RenewDelegationTokenResponse]:
        """Move the expiry of a token to a later time."""
        try:
            token = self._find(image, request.hmac)
            _check_alive(token, now_ms)
            _check_renewer(token, principal)
        except ApiError as error:
            return Decision([], RenewDelegationTokenResponse(error_code=error.code))
        period_ms = self._renewal_ms
        if request.renew_period_ms > 0:
            period_ms = min(period_ms, request.renew_period_ms)
        renewed = _expiring(token, now_ms + period_ms)
        return Decision(
            [renewed], RenewDelegationTokenResponse(expiry_timestamp_ms=renewed.expiration_timestamp)
        )

    def decide_expire(
        self, image: MetadataImage, request: ExpireDelegationTokenRequest, principal: Principal, now_ms: int
    ) -> Decision[ExpireDelegationTokenResponse]:
        """Set the expiry of a token, or remove it at once if the period is negative."""
        try:
            token = self._find(image, request.hmac)
            _check_renewer(token, principal)
            if request.expiry_time_period_ms >= 0:
                _check_alive(token, now_ms)
        except ApiError as error:
            return Decision([], ExpireDelegationTokenResponse(error_code=error.code))
        if request.expiry_time_period_ms < 0:
            removal = RemoveDelegationTokenRecord(token_id=token.token_id)
            return Decision([removal], ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms))
        changed = _expiring(token, now_ms + request.expiry_time_period_ms)
        return Decision(
            [changed], ExpireDelegationTokenResponse(expiry_timestamp_ms=changed.expiration_timestamp)
        )

    @staticmethod
    def decide_sweep(image: MetadataImage, now_ms: int) -> Decision[bool]:
        """Remove expired tokens; the response is whether there may be more."""
        expired: list[Message] = [
            RemoveDelegationTokenRecord(token_id=token.token_id)
            for token in image.tokens.values()
            if _has_expired(token, now_ms)
        ]
        return Decision(expired[:_REMOVED_MAX], len(expired) > _REMOVED_MAX)

    def _check(self, image: MetadataImage) -> tuple[str, TokenIndex]:
        if self._secret is None or self._index is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        if image.metadata_version < _FIRST_METADATA_VERSION:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        return self._secret, self._index

    def _find(self, image: MetadataImage, secret: bytes) -> DelegationTokenRecord:
        _, index = self._check(image)
        token = index.find(image.tokens, secret)
        if token is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token


def _has_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


def _check_alive(token: DelegationTokenRecord, now_ms: int) -> None:
    if _has_expired(token, now_ms):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _check_renewer(token: DelegationTokenRecord, principal: Principal) -> None:
    if principal.text != token.owner and principal.text not in token.renewers:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _expiring(token: DelegationTokenRecord, expiry_ms: int) -> DelegationTokenRecord:
    return replace(token, expiration_timestamp=min(token.max_timestamp, expiry_ms))
