"""The login of a node: the mechanism of its credentials, and results that are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.base.promise import Promise
from ottla.security.sasl.exchange import Work, run_client
from ottla.security.sasl.login import NodeLogin
from ottla.security.sasl.settings import Credentials
from ottla.testing.executor import InlineExecutor

USER = {"username": "alice", "password": "wonder"}


def login(mechanism: str = "PLAIN", token: Callable[[], str] | None = None, **options: str) -> NodeLogin:
    return NodeLogin(Credentials(mechanism, USER | options), lambda: "nonce", InlineExecutor(), token)


@pytest.mark.parametrize(
    ("mechanism", "options", "first"),
    [
        ("PLAIN", {}, b"\0alice\0wonder"),
        ("SCRAM-SHA-256", {}, b"n,,n=alice,r=nonce"),
        ("SCRAM-SHA-512", {"tokenauth": "false"}, b"n,,n=alice,r=nonce"),
        ("SCRAM-SHA-512", {"tokenauth": "TRUE"}, b"n,,n=alice,r=nonce,tokenauth=true"),
    ],
)
def test_the_first_message_of_each_mechanism(mechanism: str, options: dict[str, str], first: bytes) -> None:
    made = login(mechanism, **options)
    assert made.mechanism == mechanism
    assert next(made.new_exchange("broker")) == first


def test_oauthbearer_sends_the_token() -> None:
    sent: list[bytes] = []

    def send(message: bytes) -> bytes:
        sent.append(message)
        return b""

    run_client(login("OAUTHBEARER", lambda: "header.claims.signature").new_exchange("broker"), send)
    assert b"auth=Bearer header.claims.signature" in sent[0]


class Counted:
    def __init__(self) -> None:
        self.runs = 0

    def __call__(self) -> int:
        self.runs += 1
        return self.runs


def test_the_result_of_the_last_key_is_kept() -> None:
    made, work = login(), Counted()

    def run(key: object) -> Any:
        result: Promise[Any] = made.run(Work(work, key))
        return result.result()

    assert [run(key) for key in ("a", "a", "b", "b", "a")] == [1, 1, 2, 2, 3]


def test_work_without_a_key_is_repeated_and_keeps_what_is_kept() -> None:
    made, work = login(), Counted()
    results = [made.run(Work(work, key)).result() for key in ("a", None, None, "a")]
    assert results == [1, 2, 3, 1]


def test_work_that_fails_is_repeated() -> None:
    def fail() -> int:
        raise OSError("no route")

    made = login()
    with pytest.raises(OSError, match="no route"):
        made.run(Work(fail, "a")).result()
    assert made.run(Work(Counted(), "a")).result() == 1
