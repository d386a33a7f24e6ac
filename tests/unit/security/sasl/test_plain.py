"""PLAIN: the message of RFC 4616 and every refusal, with the texts of Kafka."""

from __future__ import annotations

import hmac

import pytest

from ottla.security.sasl.exchange import Identity, SaslRefused, run_client
from ottla.security.sasl.plain import PlainServer, plain_client

USERS = {"alice": "wonder", "bob": "builder"}


def test_the_client_and_the_server() -> None:
    side = PlainServer(USERS)
    run_client(plain_client("alice", "wonder"), side.respond)
    assert side.identity == Identity("alice")


def test_the_user_as_authorization_id() -> None:
    side = PlainServer(USERS)
    assert side.respond(b"bob\0bob\0builder") == b""
    assert side.identity == Identity("bob")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0wonder\0more", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0\0\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0\0wonder", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0builder", "Authentication failed: Invalid username or password"),
        (b"\0mallory\0wonder", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0wonder",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"\0alice\0\xff", "Invalid SASL/PLAIN response: not UTF-8"),
    ],
)
def test_refusals(message: bytes, shown: str) -> None:
    side = PlainServer(USERS)
    with pytest.raises(SaslRefused) as refused:
        side.respond(message)
    assert refused.value.shown == shown
    assert side.identity is None


def test_no_secret_in_a_refusal() -> None:
    with pytest.raises(SaslRefused) as refused:
        PlainServer(USERS).respond(b"\0alice\0guess")
    assert "guess" not in str(refused.value)
    assert "wonder" not in str(refused.value)


def test_passwords_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2021-38153: the time of the comparison must not depend on the password, nor on whether the user exists."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(given: bytes, expected: bytes) -> bool:
        compared.append((given, expected))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for message in (b"\0alice\0wonder", b"\0mallory\0wonder"):
        with pytest.raises(SaslRefused):
            PlainServer(USERS).respond(message)
    assert [given for given, _ in compared] == [b"wonder", b"wonder"]
