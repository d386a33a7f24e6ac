"""Delegation tokens: created, used to log in, renewed, expired; on one broker and on three."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from ottla.base.errors import ErrorCode
from ottla.local.broker_process import BrokerProcess
from ottla.local.cluster import LocalCluster
from ottla.local.ports import free_port
from ottla.security.sasl.exchange import run_client
from ottla.security.sasl.scram import scram_client
from ottla.security.scram_keys import ScramMechanism
from ottla.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.wire.schema import Message
from tests.support.raw import Address, Closed, RawClient
from tests.support.sasl import SaslClient, sasl_settings

R = TypeVar("R", bound=Message)
KEY = {"delegation.token.secret.key": "canary-of-the-key"}
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def asked(client: RawClient, request: Message, version: int, response: type[R]) -> R:
    answer = client.ask(request, version, response)
    assert not isinstance(answer, Closed)
    return answer


def create(
    client: RawClient, *renewers: str, lifetime_ms: int = -1, owner: str = ""
) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest(
        owner_principal_type="User" if owner else "",
        owner_principal_name=owner,
        renewers=[CreatableRenewers(principal_type="User", principal_name=name) for name in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    return asked(client, request, 3, CreateDelegationTokenResponse)


def describe(client: RawClient) -> dict[str, int]:
    answer = asked(client, DescribeDelegationTokenRequest(owners=None), 3, DescribeDelegationTokenResponse)
    assert answer.error_code == 0
    return {each.token_id: each.expiry_timestamp for each in answer.tokens}


def log_in(client: SaslClient, token_id: str, secret: bytes, mechanism: str = "SCRAM-SHA-256") -> bool:
    """Authenticate with a token; False if it is refused."""
    client.handshake(mechanism)
    kind = ScramMechanism.SCRAM_SHA_256 if mechanism.endswith("256") else ScramMechanism.SCRAM_SHA_512
    exchange = scram_client(kind, token_id, base64.b64encode(secret).decode(), "a-nonce", token=True)

    def send(message: bytes) -> bytes:
        answer = client.token(message)
        if isinstance(answer, Closed) or answer.error_code:
            raise PermissionError
        return answer.auth_bytes

    try:
        run_client(exchange, send)
    except PermissionError:
        return False
    return True


@pytest.fixture(scope="module")
def token_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    port = free_port()
    settings = sasl_settings(port, "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512") | KEY
    with BrokerProcess(tmp_path_factory.mktemp("tokens") / "data", settings, port=port) as process:
        yield process


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_client_acts_for_the_owner_of_a_token(token_broker: BrokerProcess, mechanism: str) -> None:
    with SaslClient(token_broker.bootstrap) as alice, SaslClient(token_broker.bootstrap) as other:
        alice.login("alice")
        made = create(alice, "bob")
        assert (made.error_code, made.principal_name, len(made.hmac)) == (0, "alice", 64)
        assert log_in(other, made.token_id, made.hmac, mechanism)
        assert asked(other, MetadataRequest(topics=[]), 12, MetadataResponse).error_code == 0
        # A stolen token cannot be used to create another one, nor to find or change tokens.
        assert create(other).error_code == NOT_ALLOWED
        renewal = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=-1)
        assert asked(other, renewal, 2, RenewDelegationTokenResponse).error_code == NOT_ALLOWED
        expiry = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)
        assert asked(other, expiry, 2, ExpireDelegationTokenResponse).error_code == NOT_ALLOWED
        listed = asked(other, DescribeDelegationTokenRequest(owners=None), 3, DescribeDelegationTokenResponse)
        assert (listed.error_code, listed.tokens) == (NOT_ALLOWED, [])


def test_renewal_and_expiry(token_broker: BrokerProcess) -> None:
    with SaslClient(token_broker.bootstrap) as alice, SaslClient(token_broker.bootstrap) as bob:
        alice.login("alice")
        bob.login("bob")
        made = create(alice, "bob")
        assert describe(alice)[made.token_id] == describe(bob)[made.token_id] == made.expiry_timestamp_ms
        renewal = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=1000)
        renewed = asked(bob, renewal, 1, RenewDelegationTokenResponse)
        assert renewed.error_code == 0
        assert made.issue_timestamp_ms < renewed.expiry_timestamp_ms < made.expiry_timestamp_ms
        assert describe(alice)[made.token_id] == renewed.expiry_timestamp_ms
        expiry = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)
        assert asked(alice, expiry, 1, ExpireDelegationTokenResponse).error_code == 0
        assert made.token_id not in describe(alice)
        again = asked(alice, expiry, 2, ExpireDelegationTokenResponse)
        assert again.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_removed_or_expired_token_is_refused(token_broker: BrokerProcess) -> None:
    with SaslClient(token_broker.bootstrap) as alice:
        alice.login("alice")
        removed, expired = create(alice), create(alice)
        for made, period_ms in ((removed, -1), (expired, 0)):
            change = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=period_ms)
            assert asked(alice, change, 2, ExpireDelegationTokenResponse).error_code == 0
            with SaslClient(token_broker.bootstrap) as other:
                assert not log_in(other, made.token_id, made.hmac)
    with SaslClient(token_broker.bootstrap) as other:
        assert not log_in(other, removed.token_id, b"guess")


@pytest.mark.parametrize("version", [1, 2])
def test_old_versions(token_broker: BrokerProcess, version: int) -> None:
    with SaslClient(token_broker.bootstrap) as alice:
        alice.login("alice")
        request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=60_000)
        made = asked(alice, request, version, CreateDelegationTokenResponse)
        assert made.error_code == 0
        assert made.max_timestamp_ms == made.issue_timestamp_ms + 60_000
        listed = asked(
            alice, DescribeDelegationTokenRequest(owners=None), version, DescribeDelegationTokenResponse
        )
        assert made.token_id in [each.token_id for each in listed.tokens]


def test_the_key_is_not_stored(token_broker: BrokerProcess) -> None:
    with SaslClient(token_broker.bootstrap) as alice:
        alice.login("alice")
        made = create(alice)
    stored = b"".join(path.read_bytes() for path in token_broker.data.rglob("*") if path.is_file())
    assert made.token_id.encode() in stored
    assert made.hmac not in stored
    assert b"canary-of-the-key" not in stored
    assert "canary-of-the-key" not in token_broker.output().replace("--override", "")


def test_without_a_key_tokens_are_disabled(tmp_path: Path) -> None:
    port = free_port()
    with (
        BrokerProcess(tmp_path / "data", sasl_settings(port), port=port) as process,
        SaslClient(process.bootstrap) as alice,
    ):
        alice.login("alice")
        assert create(alice).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_clients_without_an_identity_cannot_use_tokens(broker: BrokerProcess) -> None:
    with RawClient(Address.parse(broker.bootstrap)) as client:
        assert create(client).error_code == NOT_ALLOWED


def test_three_brokers(tmp_path: Path) -> None:
    """Each broker checks the listener of the client."""
    with LocalCluster(tmp_path, 3, config=KEY) as cluster:
        for node in range(3):
            with RawClient(Address.parse(cluster.address(node))) as client:
                assert create(client).error_code == NOT_ALLOWED
