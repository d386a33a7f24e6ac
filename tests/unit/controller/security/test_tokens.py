"""Responses as Apache Kafka 4.3.1 gives them."""

from __future__ import annotations

import random

import pytest

from ottla.base.errors import ErrorCode
from ottla.config.broker import BrokerConfig
from ottla.controller.security.tokens import TokenManager, creation_response, in_version, owner_of
from ottla.controller.settings.features import initial_records
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import DelegationTokenRecord, RemoveDelegationTokenRecord
from ottla.security.principal import Principal, user
from ottla.security.tokens import token_hmac
from ottla.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.wire.schema import Message
from tests.support.metadata import replayed

SECRET = "the key"
ALICE, BOB, CAROL = user("alice"), user("bob"), user("carol")
DAY_MS, WEEK_MS = 86_400_000, 604_800_000
NOW = 1_000_000
IMAGE = replayed(initial_records())


def manager(**settings: str) -> TokenManager:
    texts = {"node.id": "1", "delegation.token.secret.key": SECRET}
    texts |= {key.replace("_", "."): value for key, value in settings.items()}
    return TokenManager(BrokerConfig(texts), random.Random(1))


def applied(image: MetadataImage, records: list[Message]) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(image.offset + 1, 1)


def renewer(name: str, kind: str = "User") -> CreatableRenewers:
    return CreatableRenewers(principal_type=kind, principal_name=name)


def created(
    lifetime_ms: int = -1, *, by: Principal = ALICE, now_ms: int = NOW
) -> tuple[TokenManager, MetadataImage, CreateDelegationTokenResponse]:
    made = manager()
    request = CreateDelegationTokenRequest(renewers=[renewer("bob")], max_lifetime_ms=lifetime_ms)
    records, response = made.decide_create(IMAGE, request, by, now_ms)
    return made, applied(IMAGE, records), response


def test_a_new_token() -> None:
    _, image, response = created()
    (token,) = image.tokens.values()
    assert token == DelegationTokenRecord(
        owner="User:alice",
        requester="User:alice",
        renewers=["User:bob"],
        issue_timestamp=NOW,
        max_timestamp=NOW + WEEK_MS,
        expiration_timestamp=NOW + DAY_MS,
        token_id=response.token_id,
    )
    assert response.hmac == token_hmac(SECRET, token.token_id)
    assert (response.error_code, response.principal_type, response.principal_name) == (0, "User", "alice")
    assert response.token_requester_principal_name == ALICE.name
    times = (response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms)
    assert times == (NOW, NOW + DAY_MS, NOW + WEEK_MS)


@pytest.mark.parametrize(
    ("lifetime_ms", "expiry", "most"),
    [
        (1000, 1000, 1000),
        (2 * DAY_MS, DAY_MS, 2 * DAY_MS),
        (2**63 - 1, DAY_MS, WEEK_MS),
        (0, DAY_MS, WEEK_MS),
    ],
)
def test_the_lifetime_of_a_new_token(lifetime_ms: int, expiry: int, most: int) -> None:
    _, _, response = created(lifetime_ms)
    assert (response.expiry_timestamp_ms - NOW, response.max_timestamp_ms - NOW) == (expiry, most)


def test_a_token_for_another_owner() -> None:
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="carol")
    records, response = manager().decide_create(IMAGE, request, ALICE, NOW)
    (token,) = applied(IMAGE, records).tokens.values()
    assert (token.owner, token.requester) == ("User:carol", "User:alice")
    assert (response.principal_name, response.token_requester_principal_name) == ("carol", "alice")
    assert owner_of(CreateDelegationTokenRequest(owner_principal_name=None), BOB) == BOB


@pytest.mark.parametrize(("version", "requester"), [(2, ("", "")), (3, ("User", "alice"))])
def test_older_versions_do_not_name_the_requester(version: int, requester: tuple[str, str]) -> None:
    response = in_version(creation_response(CAROL, ALICE, ErrorCode.NONE), version)
    named = (response.token_requester_principal_type, response.token_requester_principal_name)
    assert (named, response.principal_name) == (requester, "carol")


def test_refused_creations() -> None:
    request = CreateDelegationTokenRequest()
    disabled = manager(delegation_token_secret_key="")
    assert not disabled.enabled
    for made, image, asked, code in (
        (disabled, IMAGE, request, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        (manager(), MetadataImage(), request, ErrorCode.UNSUPPORTED_VERSION),
        (
            manager(),
            IMAGE,
            CreateDelegationTokenRequest(renewers=[renewer("x", "Group")]),
            ErrorCode.INVALID_PRINCIPAL_TYPE,
        ),
    ):
        assert made.decide_create(image, asked, ALICE, NOW) == ([], creation_response(ALICE, ALICE, code))


def renew(period_ms: int, by: Principal, at_ms: int) -> tuple[int, int]:
    made, image, token = created()
    request = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=period_ms)
    records, response = made.decide_renew(image, request, by, at_ms)
    after = applied(image, records).tokens[token.token_id]
    if not response.error_code:
        assert after.expiration_timestamp == response.expiry_timestamp_ms
    else:
        assert records == []
    return response.error_code, response.expiry_timestamp_ms


@pytest.mark.parametrize(
    ("period_ms", "by", "at_ms", "code", "expiry_ms"),
    [
        (-1, ALICE, NOW + 500, 0, NOW + 500 + DAY_MS),
        (1000, BOB, NOW + 500, 0, NOW + 1500),
        (2**63 - 1, BOB, NOW, 0, NOW + DAY_MS),
        (-1, CAROL, NOW, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0),
        (-1, ALICE, NOW + DAY_MS, 0, NOW + 2 * DAY_MS),
        (-1, ALICE, NOW + DAY_MS + 1, ErrorCode.DELEGATION_TOKEN_EXPIRED, 0),
    ],
)
def test_renewals(period_ms: int, by: Principal, at_ms: int, code: int, expiry_ms: int) -> None:
    assert renew(period_ms, by, at_ms) == (code, expiry_ms)


def test_a_token_cannot_outlive_its_maximum_time() -> None:
    made, image, token = created(1000)
    request = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1)
    _, response = made.decide_renew(image, request, ALICE, NOW + 900)
    assert response.expiry_timestamp_ms == NOW + 1000


def test_a_token_can_be_used_until_its_maximum_time() -> None:
    made, image, token = created(1000)
    request = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1)
    assert made.decide_renew(image, request, ALICE, NOW + 1000).response.error_code == 0
    code = made.decide_renew(image, request, ALICE, NOW + 1001).response.error_code
    assert code == ErrorCode.DELEGATION_TOKEN_EXPIRED


@pytest.mark.parametrize(
    ("period_ms", "by", "at_ms", "code", "expiry_ms"),
    [
        (-1, BOB, NOW + 5, 0, NOW + 5),
        (-1, BOB, NOW + 2 * WEEK_MS, 0, NOW + 2 * WEEK_MS),
        (0, ALICE, NOW + 5, 0, NOW + 5),
        (1000, ALICE, NOW, 0, NOW + 1000),
        (2**63 - 1, ALICE, NOW, 0, NOW + WEEK_MS),
        (1000, CAROL, NOW, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0),
        (1000, ALICE, NOW + DAY_MS + 1, ErrorCode.DELEGATION_TOKEN_EXPIRED, 0),
    ],
)
def test_expiry(period_ms: int, by: Principal, at_ms: int, code: int, expiry_ms: int) -> None:
    made, image, token = created()
    request = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=period_ms)
    records, response = made.decide_expire(image, request, by, at_ms)
    assert (response.error_code, response.expiry_timestamp_ms) == (code, expiry_ms)
    assert len(records) == (not code)
    if period_ms < 0:
        assert records == [RemoveDelegationTokenRecord(token_id=token.token_id)]


def test_unknown_tokens() -> None:
    made, image, _ = created()
    for wrong in (b"", b"guess", token_hmac(SECRET, "another")):
        _, renewed = made.decide_renew(image, RenewDelegationTokenRequest(hmac=wrong), ALICE, NOW)
        _, expired = made.decide_expire(image, ExpireDelegationTokenRequest(hmac=wrong), ALICE, NOW)
        assert {renewed.error_code, expired.error_code} == {ErrorCode.DELEGATION_TOKEN_NOT_FOUND}


def test_expired_tokens_are_removed() -> None:
    tokens: list[Message] = [
        DelegationTokenRecord(token_id=f"{n:04}", max_timestamp=NOW * 2, expiration_timestamp=NOW + n % 2)
        for n in range(2400)
    ]
    image = applied(IMAGE, tokens)
    assert TokenManager.decide_sweep(image, NOW).records == []
    records, has_more = TokenManager.decide_sweep(image, NOW + 1)
    assert (len(records), has_more) == (1000, True)
    image = applied(image, records)
    records, has_more = TokenManager.decide_sweep(image, NOW + 1)
    assert (len(records), has_more) == (200, False)
