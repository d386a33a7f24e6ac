"""The token of a client is kept for most of its life."""

from __future__ import annotations

from ottla.security.sasl.oauth.token_source import TokenSource
from tests.support.tokens import Provider

PROVIDER = Provider()


class Fetches:
    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.now_s = 1000.0

    def __call__(self) -> str:
        return self.tokens.pop(0)


def test_a_token_is_kept_and_renewed() -> None:
    first, second = (PROVIDER.token(iat=900, exp=1100, jti=name) for name in "ab")
    fetches = Fetches(first, second)
    source = TokenSource(fetches, lambda: fetches.now_s)
    assert source.get() == first
    fetches.now_s += 79
    assert source.get() == first
    fetches.now_s += 2
    assert source.get() == second


def test_a_token_without_an_expiry_is_not_kept() -> None:
    fetches = Fetches("opaque", "a.b.c", "last")
    source = TokenSource(fetches, lambda: fetches.now_s)
    assert [source.get() for _ in range(3)] == ["opaque", "a.b.c", "last"]
