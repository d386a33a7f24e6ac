"""SCRAM with the examples of its RFCs, and with invalid brokers."""

from __future__ import annotations

import pytest

from ottla.client.raw.errors import AuthenticationFailed
from ottla.client.raw.sasl import ITERATIONS_MAX, exchange_of
from ottla.client.raw.settings import Sasl

NONCE = "rOprNGfwEbeRWgbNEkqO"
# RFC 7677, section 3.
FIRST = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SIGNATURE = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
PENCIL = Sasl("SCRAM-SHA-256", "user", "pencil")


def test_plain() -> None:
    exchange = exchange_of(Sasl("PLAIN", "ü", "p,w"), lambda: NONCE)
    assert next(exchange) == b"\0" + "ü".encode() + b"\0p,w"
    with pytest.raises(StopIteration):
        exchange.send(b"")


def test_the_example_of_the_standard() -> None:
    exchange = exchange_of(PENCIL, lambda: NONCE)
    assert next(exchange) == f"n,,n=user,r={NONCE}".encode()
    final = exchange.send(FIRST.encode()).decode()
    assert final == f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p={PROOF}"
    with pytest.raises(StopIteration):
        exchange.send(f"v={SIGNATURE}".encode())


def test_names_with_commas_are_escaped() -> None:
    exchange = exchange_of(Sasl("SCRAM-SHA-512", "a=b,c", "x"), lambda: "n")
    assert next(exchange) == b"n,,n=a=3Db=2Cc,r=n"


@pytest.mark.parametrize(
    "first",
    [
        "r=other,s=W22Z,i=4096",
        f"r={NONCE},s=W22Z,i=4096",
        f"r={NONCE}x,s=W22Z,i=0",
        f"r={NONCE}x,s=W22Z,i={ITERATIONS_MAX + 1}",
        "e=other-error",
        "",
    ],
)
def test_an_invalid_first_message_of_the_broker_is_rejected(first: str) -> None:
    exchange = exchange_of(PENCIL, lambda: NONCE)
    next(exchange)
    with pytest.raises(AuthenticationFailed):
        exchange.send(first.encode())


@pytest.mark.parametrize("last", ["v=AAAA", "v=", "", "e=invalid-proof"])
def test_a_broker_that_does_not_prove_the_password_is_rejected(last: str) -> None:
    exchange = exchange_of(PENCIL, lambda: NONCE)
    next(exchange)
    exchange.send(FIRST.encode())
    with pytest.raises(AuthenticationFailed):
        exchange.send(last.encode())
