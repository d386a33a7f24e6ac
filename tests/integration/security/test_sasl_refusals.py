"""What a broker with SASL refuses, request by request, over real sockets.

Each test has a name in the list of negative tests. A refusal closes the connection, with a response before that where
Kafka sends one, and nothing of a refused client reaches a handler.
"""

from __future__ import annotations

import base64
import hmac
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from ottla.security.sasl.exchange import ClientExchange, SaslError, Work, run_client
from ottla.security.sasl.scram import scram_client
from ottla.security.scram_keys import MECHANISMS, ScramMechanism
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import ProduceResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from ottla.wire.schema import Message
from tests.support.asking import PRODUCE_VERSION, produce_frame, produce_request
from tests.support.raw import CLOSED, Closed
from tests.support.sasl import USERS, SaslClient, oauth_settings, sasl_settings, scram_users
from tests.support.tokens import ISSUER, Provider
from tests.support.waiting import wait_until

PROVIDER = Provider()
ALL = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
SHA_256 = ScramMechanism.SCRAM_SHA_256
SCRAM = "SCRAM-SHA-256"
INVALID_TOKEN = b'{"status":"invalid_token"}'
GENERIC = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
)


def settings_of(port: int, folder: Path, **more: str) -> dict[str, str]:
    settings = sasl_settings(port, ",".join(ALL), connection_failed_authentication_delay_ms="10", **more)
    return {
        **settings,
        **oauth_settings(PROVIDER.write_jwks(folder / "jwks.json")),
        "delegation.token.secret.key": "token-key",
    }


@pytest.fixture(scope="module")
def sasl_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder, port = tmp_path_factory.mktemp("refusals"), free_port()
    settings = settings_of(port, folder)
    with BrokerProcess(folder / "data", settings, port=port, arguments=scram_users()) as process:
        yield process


@pytest.fixture(scope="module")
def session_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Sessions of two seconds."""
    folder, port = tmp_path_factory.mktemp("sessions"), free_port()
    settings = settings_of(port, folder, connections_max_reauth_ms="2000")
    with BrokerProcess(folder / "data", settings, port=port, arguments=scram_users()) as process:
        yield process


@pytest.fixture
def client(sasl_broker: BrokerProcess) -> Iterator[SaslClient]:
    with SaslClient(sasl_broker.bootstrap) as made:
        yield made


@pytest.fixture
def other(sasl_broker: BrokerProcess) -> Iterator[SaslClient]:
    with SaslClient(sasl_broker.bootstrap) as made:
        yield made


def is_open(client: SaslClient) -> bool:
    """Whether the broker handles requests of this connection."""
    return not isinstance(client.ask(MetadataRequest(topics=[]), 5, MetadataResponse), Closed)


def refused(client: SaslClient, token: bytes) -> str | None:
    """The text with which a token is refused; the connection must be closed after it."""
    response = client.token(token)
    assert not isinstance(response, Closed)
    assert response.error_code == 58
    assert client.read_frame() is CLOSED
    return response.error_message


def accepted(response: SaslAuthenticateResponse | Closed) -> SaslAuthenticateResponse:
    assert not isinstance(response, Closed)
    assert response.error_code == 0
    return response


class Scram:
    """A client whose messages the test can change."""

    def __init__(self, client: SaslClient, user: str, password: str, nonce: str = "fixed-nonce") -> None:
        self.client = client
        self.exchange: ClientExchange = scram_client(SHA_256, user, password, nonce)
        first = next(self.exchange)
        assert isinstance(first, bytes)
        self.first = first
        client.handshake(SCRAM)

    def server_first(self) -> bytes:
        return bytes(accepted(self.client.token(self.first)).auth_bytes)

    def final(self, server_first: bytes) -> bytes:
        work = self.exchange.send(server_first)
        assert isinstance(work, Work)
        final = self.exchange.send(work.run())
        assert isinstance(final, bytes)
        return final


class TestOrder:
    def test_metadata_before_authentication(self, client: SaslClient) -> None:
        assert not is_open(client)

    @pytest.mark.parametrize(
        "request_",
        [MetadataRequest(topics=[]), ApiVersionsRequest(), SaslHandshakeRequest(mechanism="PLAIN")],
        ids=["metadata", "versions", "handshake"],
    )
    def test_any_request_between_handshake_and_authenticate(
        self, client: SaslClient, request_: Message
    ) -> None:
        client.handshake("PLAIN")
        assert client.ask(request_, 0, MetadataResponse) is CLOSED

    def test_an_unlisted_mechanism_gets_33_and_the_list(self, client: SaslClient) -> None:
        response = client.handshake("GSSAPI")
        assert not isinstance(response, Closed)
        assert (response.error_code, response.mechanisms) == (33, ALL)
        assert client.read_frame() is CLOSED

    def test_handshake_and_authenticate_after_authentication_get_34(self, client: SaslClient) -> None:
        accepted(client.login())
        response = client.handshake("PLAIN")
        assert not isinstance(response, Closed)
        assert (response.error_code, response.mechanisms) == (34, [])
        token = client.token(b"\0alice\0alice-secret")
        assert not isinstance(token, Closed)
        assert token.error_code == 34
        assert is_open(client)

    def test_http_on_the_port(self, client: SaslClient) -> None:
        client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.read_frame() is CLOSED

    @pytest.mark.parametrize("size", [512 * 1024 + 1, 100 << 20], ids=["512 KiB and 1", "100 MiB"])
    def test_a_large_frame_before_authentication(self, client: SaslClient, size: int) -> None:
        client.send(struct.pack(">i", size))
        assert client.read_frame() is CLOSED


class TestPasswords:
    def test_a_wrong_password(self, client: SaslClient) -> None:
        client.handshake("PLAIN")
        text = refused(client, b"\0alice\0guess")
        assert text == "Authentication failed: Invalid username or password"

    def test_an_unknown_user_of_plain_is_indistinguishable(
        self, client: SaslClient, other: SaslClient
    ) -> None:
        for each in (client, other):
            each.handshake("PLAIN")
        assert refused(client, b"\0alice\0guess") == refused(other, b"\0mallory\0guess")

    @pytest.mark.parametrize(
        "message",
        [b"\0alice", b"\0alice\0alice-secret\0more", b"\0\0alice-secret", b"\0alice\0", b"", b"\0\0"],
        ids=["2 parts", "4 parts", "no user", "no password", "nothing", "all empty"],
    )
    def test_plain_with_other_parts(self, client: SaslClient, message: bytes) -> None:
        client.handshake("PLAIN")
        assert refused(client, message)

    def test_cve_2017_12610_another_authorization_id_with_plain(self, client: SaslClient) -> None:
        client.handshake("PLAIN")
        assert "authorization id" in (refused(client, b"admin\0alice\0alice-secret") or "")

    def test_a_bare_token_that_is_wrong_gets_no_response(self, client: SaslClient) -> None:
        client.handshake("PLAIN", version=0)
        client.send_frame(b"\0alice\0guess")
        assert client.read_frame() is CLOSED

    def test_a_bare_token_that_is_right(self, client: SaslClient) -> None:
        client.handshake("PLAIN", version=0)
        client.send_frame(b"\0alice\0alice-secret")
        assert client.read_frame() == b""
        assert is_open(client)


class TestScram:
    def test_a_wrong_password(self, client: SaslClient) -> None:
        scram = Scram(client, "alice", "guess")
        assert refused(client, scram.final(scram.server_first())) == GENERIC

    def test_an_unknown_user_is_indistinguishable(
        self, sasl_broker: BrokerProcess, client: SaslClient, other: SaslClient
    ) -> None:
        """The same form of the first response, always the same salt, and the same text at the end."""
        known, unknown = Scram(client, "alice", "guess"), Scram(other, "mallory", "guess")
        first = [known.server_first(), unknown.server_first()]
        parts = [dict(part.split("=", 1) for part in each.decode().split(",")) for each in first]
        assert parts[0]["i"] == parts[1]["i"]
        assert len(base64.b64decode(parts[0]["s"])) == len(base64.b64decode(parts[1]["s"]))
        with SaslClient(sasl_broker.bootstrap) as again:
            repeated = Scram(again, "mallory", "guess").server_first().decode()
            assert f"s={parts[1]['s']}," in repeated
        assert refused(client, known.final(first[0])) == refused(other, unknown.final(first[1])) == GENERIC

    def test_a_failed_proof_then_produce(self, client: SaslClient) -> None:
        scram = Scram(client, "alice", "guess")
        final = scram.final(scram.server_first())
        response = client.token(final)
        assert not isinstance(response, Closed)
        assert response.error_code == 58
        assert client.ask(produce_request("stolen", 0), PRODUCE_VERSION, ProduceResponse) is CLOSED

    def test_cve_2024_56128_the_nonce_of_another_exchange(
        self, client: SaslClient, other: SaslClient
    ) -> None:
        """The final message of one exchange, with its proof, is not one of another exchange."""
        first, second = Scram(client, "alice", USERS["alice"]), Scram(other, "alice", USERS["alice"])
        final = first.final(first.server_first())
        second.server_first()
        assert refused(other, final) == GENERIC

    def test_a_replayed_final_message(self, client: SaslClient) -> None:
        scram = Scram(client, "alice", USERS["alice"])
        final = scram.final(scram.server_first())
        accepted(client.token(final))
        replayed = client.token(final)
        assert not isinstance(replayed, Closed)
        assert replayed.error_code == 34

    def test_cve_2017_12610_another_authorization_id_with_scram(self, client: SaslClient) -> None:
        client.handshake(SCRAM)
        assert "authorization id" in (refused(client, b"n,a=admin,n=alice,r=abc") or "")

    def test_channel_binding_is_not_offered(self, client: SaslClient) -> None:
        client.handshake(SCRAM)
        assert refused(client, b"p=tls-unique,,n=alice,r=abc") == GENERIC

    def test_a_user_of_plain_is_no_user_of_scram_with_another_password(self, client: SaslClient) -> None:
        scram = Scram(client, "admin", "another")
        assert refused(client, scram.final(scram.server_first())) == GENERIC


def encoded(data: Any) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unsecured() -> str:
    return f"{encoded({'alg': 'none'})}.{encoded(PROVIDER.claims())}."


def symmetric() -> str:
    signed = f"{encoded({'alg': 'HS256', 'kid': 'rsa'})}.{encoded(PROVIDER.claims())}"
    return f"{signed}.{encoded(hmac.digest(PROVIDER.jwks('rsa').encode(), signed.encode(), 'sha256'))}"


class TestTokens:
    def bearer(self, client: SaslClient, token: str) -> bytes:
        client.handshake("OAUTHBEARER")
        response = accepted(client.token(b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"))
        return bytes(response.auth_bytes)

    def test_a_valid_token(self, client: SaslClient) -> None:
        assert self.bearer(client, PROVIDER.token()) == b""
        assert is_open(client)

    @pytest.mark.parametrize(
        "token",
        [
            symmetric(),
            PROVIDER.token(iss="https://other.example"),
            PROVIDER.token(aud="other"),
            PROVIDER.token(exp=1_700_000_000),
            PROVIDER.token(headers={"crit": ["x"], "x": 1}),
            PROVIDER.token(headers={"kid": "unknown"}),
            Provider().token(),
            f"{encoded({'alg': 'none'})}.{encoded(PROVIDER.claims())}.AAAA",
        ],
        ids=["HS256", "issuer", "audience", "expiry", "crit", "unknown key id", "another provider", "none"],
    )
    def test_an_invalid_token(self, client: SaslClient, token: str) -> None:
        assert self.bearer(client, token) == INVALID_TOKEN
        assert refused(client, b"\x01") == INVALID_TOKEN.decode()

    def test_an_unsecured_token(self, client: SaslClient) -> None:
        assert self.bearer(client, unsecured()) == INVALID_TOKEN

    def test_a_request_after_a_refused_token(self, client: SaslClient) -> None:
        assert self.bearer(client, unsecured()) == INVALID_TOKEN
        assert not is_open(client)

    def test_a_flood_of_unknown_key_ids(self, sasl_broker: BrokerProcess) -> None:
        """Each is refused, and a valid token is accepted meanwhile."""
        for number in range(50):
            with SaslClient(sasl_broker.bootstrap) as flooding:
                token = PROVIDER.token(headers={"kid": f"unknown-{number}"})
                assert self.bearer(flooding, token) == INVALID_TOKEN
        with SaslClient(sasl_broker.bootstrap) as good:
            assert self.bearer(good, PROVIDER.token()) == b""

    def test_no_jwks_url_no_start(self, tmp_path: Path) -> None:
        settings = sasl_settings(free_port(), "OAUTHBEARER")
        with pytest.raises(RuntimeError, match="cannot verify tokens"):
            BrokerProcess(tmp_path / "data", settings).start()

    def test_cve_2025_27817_a_url_that_is_not_allowed(self, tmp_path: Path) -> None:
        settings = sasl_settings(free_port(), "OAUTHBEARER") | oauth_settings("file:///etc/passwd")
        settings["org.apache.kafka.sasl.oauthbearer.allowed.urls"] = ISSUER
        with pytest.raises(RuntimeError, match=r"allowed\.urls"):
            BrokerProcess(tmp_path / "data", settings).start()


class TestDelegationTokens:
    def log_in(self, client: SaslClient, token_id: str, secret: bytes) -> bool:
        client.handshake(SCRAM)
        exchange = scram_client(
            MECHANISMS[SCRAM], token_id, base64.b64encode(secret).decode(), "nonce", token=True
        )

        def send(message: bytes) -> bytes:
            response = client.token(message)
            assert not isinstance(response, Closed)
            return bytes(response.auth_bytes)

        try:
            run_client(exchange, send)
        except SaslError:
            return False
        return True

    def create(self, client: SaslClient) -> CreateDelegationTokenResponse:
        accepted(client.login())
        request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
        made = client.ask(request, 3, CreateDelegationTokenResponse)
        assert not isinstance(made, Closed)
        assert made.error_code == 0
        return made

    def test_a_removed_token(self, sasl_broker: BrokerProcess, client: SaslClient) -> None:
        made = self.create(client)
        with SaslClient(sasl_broker.bootstrap) as user:
            assert self.log_in(user, made.token_id, bytes(made.hmac))
        expire = ExpireDelegationTokenRequest(hmac=bytes(made.hmac), expiry_time_period_ms=-1)
        ended = client.ask(expire, 2, ExpireDelegationTokenResponse)
        assert not isinstance(ended, Closed)
        assert ended.error_code == 0

        def is_refused() -> bool:
            with SaslClient(sasl_broker.bootstrap) as user:
                return not self.log_in(user, made.token_id, bytes(made.hmac))

        wait_until(is_refused, "the end of the token")

    def test_an_expired_token(self, sasl_broker: BrokerProcess, client: SaslClient) -> None:
        made = self.create(client)
        expire = ExpireDelegationTokenRequest(hmac=bytes(made.hmac), expiry_time_period_ms=1)
        ended = client.ask(expire, 2, ExpireDelegationTokenResponse)
        assert not isinstance(ended, Closed)
        assert ended.error_code == 0

        def is_refused() -> bool:
            with SaslClient(sasl_broker.bootstrap) as user:
                return not self.log_in(user, made.token_id, bytes(made.hmac))

        wait_until(is_refused, "the end of the token")

    def test_a_token_with_a_wrong_secret(self, sasl_broker: BrokerProcess, client: SaslClient) -> None:
        made = self.create(client)
        with SaslClient(sasl_broker.bootstrap) as user:
            assert not self.log_in(user, made.token_id, b"guess")


class TestSessions:
    @pytest.fixture
    def client(self, session_broker: BrokerProcess) -> Iterator[SaslClient]:
        with SaslClient(session_broker.bootstrap) as made:
            response = accepted(made.login())
            assert response.session_lifetime_ms == 2000
            yield made

    def test_re_authentication_as_another_principal(self, client: SaslClient) -> None:
        client.handshake("PLAIN")
        text = refused(client, b"\0bob\0bob-secret")
        assert text == "Cannot change principals during re-authentication from User.alice: User.bob"

    def test_re_authentication_by_another_mechanism(self, client: SaslClient) -> None:
        response = client.handshake(SCRAM)
        assert not isinstance(response, Closed)
        assert response.error_code == 0
        assert client.token(b"n,,n=alice,r=abc") is CLOSED

    def test_re_authentication_continues_the_connection(self, client: SaslClient) -> None:
        accepted(client.login())
        assert is_open(client)

    def test_an_expired_session_closes_at_its_next_request(self, client: SaslClient) -> None:
        assert is_open(client)
        wait_until(lambda: not is_open(client), "the end of the session")

    def test_an_expired_session_closes_the_bulk_path_of_produce(
        self, session_broker: BrokerProcess, client: SaslClient
    ) -> None:
        producer = Producer(
            {
                "bootstrap.servers": session_broker.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": USERS["alice"],
            }
        )
        producer.produce("bulk", b"first")
        assert producer.flush(30) == 0
        frames = produce_frame("bulk", 0) * 2

        def is_closed() -> bool:
            try:
                client.send(frames)
            except ConnectionError:
                return True
            return CLOSED in (client.read_frame(), client.read_frame())

        assert not is_closed()
        wait_until(is_closed, "the end of the session")
