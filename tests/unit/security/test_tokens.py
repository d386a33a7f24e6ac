from __future__ import annotations

import hashlib
import hmac

from ottla.metadata.records import DelegationTokenRecord
from ottla.security.tokens import TokenIndex, belongs_to, token_hmac

SECRET = "the key"


def test_the_secret_of_a_token() -> None:
    assert token_hmac(SECRET, "id") == hmac.new(b"the key", b"id", hashlib.sha512).digest()


def test_tokens_are_found_by_their_secrets() -> None:
    index = TokenIndex(SECRET)
    tokens = {name: DelegationTokenRecord(token_id=name) for name in ("a", "b")}
    assert index.find(tokens, token_hmac(SECRET, "b")) is tokens["b"]
    assert index.find(tokens, token_hmac("another key", "b")) is None
    assert index.find(tokens, b"") is None
    assert index.find({"a": tokens["a"]}, token_hmac(SECRET, "b")) is None
    tokens |= {name: DelegationTokenRecord(token_id=name) for name in "c"}
    assert index.find(tokens, token_hmac(SECRET, "c")) is tokens["c"]


def test_removed_tokens_are_forgotten() -> None:
    index = TokenIndex(SECRET)
    many = {str(n): DelegationTokenRecord(token_id=str(n)) for n in range(1500)}
    assert index.find(many, token_hmac(SECRET, "7")) is many["7"]
    few = {"7": many["7"]}
    assert index.find(few, token_hmac(SECRET, "7")) is many["7"]
    assert len(index._known) == 1


def test_the_principals_of_a_token() -> None:
    token = DelegationTokenRecord(owner="User:a", requester="User:b", renewers=["User:c"])
    assert [belongs_to(token, f"User:{name}") for name in "abcd"] == [True, True, True, False]
