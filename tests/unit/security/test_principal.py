"""Principals and their encoding."""

from __future__ import annotations

import pytest

from ottla.security.principal import ANONYMOUS, Principal, decode, encode, parse, user


def test_the_encoding_is_that_of_kafka() -> None:
    assert encode(ANONYMOUS) == b"\x00\x00\x05User\x0aANONYMOUS\x00\x00"
    for principal in (ANONYMOUS, user("Zoë"), Principal("User", "alice", token_authenticated=True)):
        assert decode(encode(principal)) == principal


def test_a_principal_is_parsed_at_its_first_colon() -> None:
    assert parse("User:CN=a:b,O=c") == user("CN=a:b,O=c")
    assert parse("User:alice").text == "User:alice"
    for text in ("", "alice", ":alice", "User:"):
        with pytest.raises(ValueError, match="expected Type:name"):
            parse(text)
