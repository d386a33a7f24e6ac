"""The login configuration: Kafka's form, and refusals that name no value."""

from __future__ import annotations

import pytest

from ottla.security.sasl.jaas import parse_jaas

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_users_and_own_login() -> None:
    text = (
        f'{PLAIN_MODULE} required username="admin" password="a;b=c" user_admin="a;b=c" user_alice=\'x "y"\';'
    )
    login = parse_jaas(text, "PLAIN")
    assert login.options["username"] == "admin"
    assert login.users == {"admin": "a;b=c", "alice": 'x "y"'}


def test_lines_comments_and_escapes() -> None:
    text = f"""{SCRAM_MODULE} REQUIRED // the module
        username="a\\"b"  /* the
        name */ password="\\\\tab\\t\\101"
        tokenauth=true;"""
    login = parse_jaas(text, "SCRAM-SHA-512")
    assert dict(login.options) == {"username": 'a"b', "password": "\\tab\tA", "tokenauth": "true"}


def test_no_options() -> None:
    text = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    assert parse_jaas(text, "OAUTHBEARER").options == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "needs a login module"),
        (f"{SCRAM_MODULE} required;", "the login module of PLAIN is"),
        ("com.sun.security.auth.module.JndiLoginModule required;", "the login module of PLAIN is"),
        (f"{PLAIN_MODULE} maybe;", "control flag"),
        (f"{PLAIN_MODULE} required user_a=hidden", "semicolon"),
        (f"{PLAIN_MODULE} required user_a hidden;", "option 1"),
        (f"{PLAIN_MODULE} required user_a=;", "option 1"),
        (f'{PLAIN_MODULE} required user_a="hidden;', "quotation mark"),
        (f"{PLAIN_MODULE} required user_a=hidden; {PLAIN_MODULE} required;", "more than one"),
    ],
)
def test_refusals(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as refused:
        parse_jaas(text, "PLAIN")
    assert "hidden" not in str(refused.value)
