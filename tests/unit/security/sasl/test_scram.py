"""SCRAM: the vectors of RFC 5802's successors, the library scramp as the other side, and every refusal."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import scramp

from ottla.base.promise import Promise
from ottla.security.sasl.exchange import ClientExchange, Identity, SaslError, SaslFailed, SaslRefused, Work
from ottla.security.sasl.scram import Credential, Found, ScramServer, scram_client
from ottla.security.scram_keys import MECHANISMS, ScramMechanism, derive_keys, salted_password

SHA_256 = ScramMechanism.SCRAM_SHA_256
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
NONCE = CLIENT_NONCE + SERVER_NONCE
FIRST = f"n,,n=user,r={CLIENT_NONCE}".encode()
SERVER_FIRST = f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
FINAL = f"c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def made(mechanism: ScramMechanism, password: str, salt: bytes = SALT, iterations: int = 4096) -> Credential:
    salted = salted_password(mechanism, password, salt, iterations)
    return Credential(salt, *derive_keys(mechanism, salted), iterations)


PENCIL = made(SHA_256, "pencil")


def server(found: Found | Promise[Found] | None = None, nonce: str = SERVER_NONCE) -> ScramServer:
    return ScramServer(SHA_256, lambda user, token: found or Found(PENCIL, Identity(user)), nonce)


def proof_of(response: bytes, password: str = "pencil") -> bytes:
    """The final message of a client after this response of the server."""
    exchange = scram_client(SHA_256, "user", password, CLIENT_NONCE)
    next(exchange)
    work = exchange.send(response)
    assert isinstance(work, Work)
    message = exchange.send(work.run())
    assert isinstance(message, bytes)
    return message


class TestVectors:
    """The exchange of RFC 7677, section 3."""

    def test_server(self) -> None:
        side = server()
        assert side.respond(FIRST) == SERVER_FIRST
        assert side.identity is None
        assert side.respond(FINAL) == SERVER_FINAL
        assert side.identity == Identity("user")

    def test_client(self) -> None:
        exchange = scram_client(SHA_256, "user", "pencil", CLIENT_NONCE)
        assert next(exchange) == FIRST
        work = exchange.send(SERVER_FIRST)
        assert isinstance(work, Work)
        assert exchange.send(work.run()) == FINAL
        with pytest.raises(StopIteration):
            exchange.send(SERVER_FINAL)


class TestOracle:
    """scramp is the other side."""

    @pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
    @pytest.mark.parametrize("user", ["alice", "a,b=c", "Jürgen"])
    def test_our_server(self, name: str, user: str) -> None:
        kept = made(MECHANISMS[name], "s3cret", b"0123456789abcdef", 5000)
        side = ScramServer(MECHANISMS[name], lambda found, _: Found(kept, Identity(found)), "nonce")
        client = scramp.ScramClient([name], user, "s3cret")
        client.set_server_first(_bytes(side.respond(client.get_client_first().encode())).decode())
        client.set_server_final(_bytes(side.respond(client.get_client_final().encode())).decode())
        assert side.identity == Identity(user)

    @pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
    def test_our_client(self, name: str) -> None:
        mechanism = scramp.ScramMechanism(name)
        salt, stored, server_key, iterations = mechanism.make_auth_info("s3cret", iteration_count=4096)
        side = mechanism.make_server(lambda user: (salt, stored, server_key, iterations))
        exchange = scram_client(MECHANISMS[name], "alice", "s3cret", "nonce")
        side.set_client_first(_bytes(next(exchange)).decode())
        work = exchange.send(side.get_server_first().encode())
        assert isinstance(work, Work)
        side.set_client_final(_bytes(exchange.send(work.run())).decode())
        with pytest.raises(StopIteration):
            exchange.send(side.get_server_final().encode())


def _bytes(value: Any) -> bytes:
    assert isinstance(value, bytes)
    return value


class TestServerRefuses:
    def test_a_wrong_password(self) -> None:
        side = server()
        response = _bytes(side.respond(FIRST))
        with pytest.raises(SaslRefused) as refused:
            side.respond(proof_of(response, "pencils"))
        assert refused.value.shown is None
        assert side.identity is None

    def test_an_unknown_user_as_a_wrong_password(self) -> None:
        """Even the right proof of the fake credential is refused."""
        side = server(Found(PENCIL, None))
        response = _bytes(side.respond(FIRST))
        with pytest.raises(SaslRefused) as refused:
            side.respond(proof_of(response))
        assert (str(refused.value), refused.value.shown) == ("wrong proof or unknown user", None)

    def test_another_nonce(self) -> None:
        side = server(nonce="other")
        side.respond(FIRST)
        with pytest.raises(SaslRefused, match="nonce"):
            side.respond(FINAL)

    def test_a_replayed_final_message(self) -> None:
        first = server()
        first.respond(FIRST)
        first.respond(FINAL)
        with pytest.raises(SaslRefused, match="after the last"):
            first.respond(FINAL)
        second = server(nonce="fresh")
        second.respond(FIRST)
        with pytest.raises(SaslRefused):
            second.respond(FINAL)

    def test_a_second_attempt_after_a_wrong_proof(self) -> None:
        side = server()
        response = _bytes(side.respond(FIRST))
        with pytest.raises(SaslRefused):
            side.respond(proof_of(response, "pencils"))
        with pytest.raises(SaslRefused):
            side.respond(FINAL)
        assert side.identity is None

    def test_another_authorization_id(self) -> None:
        with pytest.raises(SaslRefused) as refused:
            server().respond(f"n,a=admin,n=user,r={CLIENT_NONCE}".encode())
        assert "authorization id" in (refused.value.shown or "")

    def test_channel_binding(self) -> None:
        with pytest.raises(SaslRefused):
            server().respond(f"p=tls-unique,,n=user,r={CLIENT_NONCE}".encode())

    def test_another_channel_binding_header_in_the_final_message(self) -> None:
        side = server()
        side.respond(f"y,,n=user,r={CLIENT_NONCE}".encode())
        with pytest.raises(SaslRefused, match="channel binding"):
            side.respond(FINAL)

    @pytest.mark.parametrize(
        "message",
        [
            b"",
            b"n,,",
            b"n,,n=,r=x",
            b"n,,n=user",
            b"n,,n=user,r=",
            b"n,,m=x,n=user,r=x",
            b"n,,n=us=er,r=x",
            b"x,,n=user,r=x",
            b"\xff\xfe",
            b"n,,n=user,r=" + b"x" * 5000,
        ],
    )
    def test_a_malformed_first_message(self, message: bytes) -> None:
        with pytest.raises(SaslRefused):
            server().respond(message)

    @pytest.mark.parametrize(
        "message",
        [
            b"",
            f"c=biws,r={NONCE}".encode(),
            f"c=biws,r={NONCE},p=".encode(),
            f"c=biws,r={NONCE},p=AAAA".encode(),
            f"c=biws,r={NONCE},p=====".encode(),
            f"c=!,r={NONCE},p=AAAA".encode(),
        ],
    )
    def test_a_malformed_final_message(self, message: bytes) -> None:
        side = server()
        side.respond(FIRST)
        with pytest.raises(SaslRefused):
            side.respond(message)


class TestServerAccepts:
    def test_the_user_as_authorization_id(self) -> None:
        side = server()
        assert _bytes(side.respond(f"n,a=user,n=user,r={CLIENT_NONCE}".encode())) == SERVER_FIRST

    def test_a_credential_that_is_found_later(self) -> None:
        later: Promise[Found] = Promise()
        side = server(later)
        response = side.respond(FIRST)
        assert isinstance(response, Promise)
        later.keep(Found(PENCIL, Identity("owner", token_authenticated=True)))
        assert response.result() == SERVER_FIRST
        side.respond(FINAL)
        assert side.identity == Identity("owner", token_authenticated=True)

    def test_an_error_of_the_credential_fails_the_response(self) -> None:
        later: Promise[Found] = Promise()
        response = server(later).respond(FIRST)
        assert isinstance(response, Promise)
        later.fail(OSError("disk"))
        assert isinstance(response.error, OSError)

    @pytest.mark.parametrize(
        ("extension", "token"), [(",tokenauth=true", True), (",tokenauth=no", False), ("", False)]
    )
    def test_the_extension_for_delegation_tokens(self, extension: str, token: bool) -> None:
        seen: list[tuple[str, bool]] = []

        def find(user: str, is_token: bool) -> Found:
            seen.append((user, is_token))
            return Found(PENCIL, Identity(user))

        ScramServer(SHA_256, find, "x").respond(f"n,,n=id,r=abc{extension}".encode())
        assert seen == [("id", token)]

    def test_our_client_with_a_token(self) -> None:
        assert b",tokenauth=true" in _bytes(next(scram_client(SHA_256, "id", "hmac", "nonce", token=True)))


class TestClientRefuses:
    def exchange(self) -> ClientExchange:
        exchange = scram_client(SHA_256, "user", "pencil", CLIENT_NONCE)
        next(exchange)
        return exchange

    @pytest.mark.parametrize(
        "response",
        [
            b"r=other,s=AAAA,i=4096",
            f"r={CLIENT_NONCE},s=AAAA,i=4096".encode(),
            f"r={NONCE},s=AAAA,i=0".encode(),
            f"r={NONCE},s=AAAA,i=9999999".encode(),
            f"r={NONCE},s=AAAA,i=x".encode(),
            f"r={NONCE},s=!,i=4096".encode(),
            b"\xff",
        ],
    )
    def test_a_wrong_first_response(self, response: bytes) -> None:
        with pytest.raises(SaslError):
            self.exchange().send(response)

    @pytest.mark.parametrize("response", [b"v=AAAA", b"", b"e=other-error"])
    def test_a_server_without_the_credential(self, response: bytes) -> None:
        exchange = self.exchange()
        work = exchange.send(SERVER_FIRST)
        assert isinstance(work, Work)
        exchange.send(work.run())
        with pytest.raises(SaslFailed):
            exchange.send(response)
