"""The exchange of OAUTHBEARER: both sides, and the two steps of a refusal."""

from __future__ import annotations

import pytest

from ottla.base.clock import SystemClock
from ottla.base.promise import Promise
from ottla.security.sasl.exchange import SaslFailed, SaslRefused, run_client
from ottla.security.sasl.oauth.jwks import KeySet, parse_jwks
from ottla.security.sasl.oauth.jwt import Rules
from ottla.security.sasl.oauth.oauthbearer import OauthServer, oauth_client
from tests.support.tokens import AUDIENCE, ISSUER, Provider

PROVIDER = Provider()
KEYS = parse_jwks(PROVIDER.jwks())
INVALID = b'{"status":"invalid_token"}'


def server(reasons: list[str] | None = None, keys: Promise[KeySet] | None = None) -> OauthServer:
    rules = Rules(ISSUER, frozenset({AUDIENCE}))
    found = keys or Promise.kept(KEYS)
    return OauthServer(
        rules, lambda _: found, SystemClock().now_ms, (reasons if reasons is not None else []).append
    )


def respond(side: OauthServer, message: bytes) -> bytes:
    response = side.respond(message)
    return response.result() if isinstance(response, Promise) else response


def first(token: str, authzid: str = "", extensions: str = "") -> bytes:
    return f"n,{authzid},\x01auth=Bearer {token}\x01{extensions}\x01".encode()


def test_client_and_server() -> None:
    side = server()
    run_client(oauth_client(PROVIDER.token), lambda message: respond(side, message))
    assert side.identity is not None
    assert side.identity.name == "alice"
    assert side.identity.expires_ms is not None
    assert not side.identity.token_authenticated


def test_extensions_and_the_subject_as_authorization_id() -> None:
    side = server()
    assert respond(side, first(PROVIDER.token(), "a=alice", "traceId=7\x01")) == b""
    assert side.identity is not None


def test_another_authorization_id() -> None:
    with pytest.raises(SaslRefused, match="authorization id"):
        respond(server(), first(PROVIDER.token(), "a=admin"))


def test_a_refusal_has_two_steps() -> None:
    reasons: list[str] = []
    side = server(reasons)
    assert respond(side, first(PROVIDER.token(aud="other"))) == INVALID
    assert reasons == ["the token has another audience"]
    with pytest.raises(SaslRefused) as refused:
        side.respond(b"\x01")
    assert refused.value.shown == INVALID.decode()
    assert side.identity is None


def test_no_second_token_after_a_refusal() -> None:
    side = server()
    respond(side, first("a.b.c"))
    with pytest.raises(SaslRefused):
        side.respond(first(PROVIDER.token()))
    assert side.identity is None


def test_no_message_after_the_token() -> None:
    side = server(keys=Promise())
    side.respond(first(PROVIDER.token()))
    with pytest.raises(SaslRefused):
        side.respond(first(PROVIDER.token()))


def test_the_client_ends_a_refusal() -> None:
    sent: list[bytes] = []

    def send(message: bytes) -> bytes:
        sent.append(message)
        return INVALID if len(sent) == 1 else b""

    with pytest.raises(SaslFailed, match="refused the token"):
        run_client(oauth_client(PROVIDER.token), send)
    assert sent[1] == b"\x01"


def test_an_error_of_the_keys_fails_the_response() -> None:
    keys: Promise[KeySet] = Promise()
    response = server(keys=keys).respond(first(PROVIDER.token()))
    assert isinstance(response, Promise)
    keys.fail(ZeroDivisionError())
    assert isinstance(response.error, ZeroDivisionError)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,a=,\x01auth=Bearer a.b.c\x01\x01",
        b"\xff",
    ],
)
def test_malformed_messages(message: bytes) -> None:
    with pytest.raises(SaslRefused):
        server().respond(message)
