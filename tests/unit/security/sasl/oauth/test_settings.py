"""Settings of OAUTHBEARER: a listener that cannot verify tokens is refused."""

from __future__ import annotations

import pytest

from ottla.config import BrokerConfig, ConfigRefused
from ottla.security.sasl.exchange import ALLOWED_URLS
from ottla.security.sasl.jaas import Login
from ottla.security.sasl.oauth.settings import parse_oauth, parse_token_endpoint
from ottla.security.sasl.settings import parse_credentials, parse_listener_sasl

URL = "https://issuer.example/keys"
SETTINGS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": URL,
    "sasl.oauthbearer.token.endpoint.url": URL,
    ALLOWED_URLS: f"https://other.example, {URL}",
}
HANDLERS = "org.apache.kafka.common.security.oauthbearer"


def config(**changed: str | None) -> BrokerConfig:
    made = SETTINGS | {name.replace("__", "."): value for name, value in changed.items()}
    return BrokerConfig({name: value for name, value in made.items() if value is not None})


def test_defaults() -> None:
    oauth = parse_oauth(config(), "CLIENTS")
    assert (oauth.rules.issuer, oauth.rules.audiences, oauth.rules.clock_skew_s) == (None, frozenset(), 30)
    assert (oauth.rules.subject_claim, oauth.rules.scope_claim) == ("sub", "scope")
    assert (oauth.keys.url, oauth.keys.refresh_s, oauth.keys.backoff_s) == (URL, 3600, 0.1)


def test_values_of_the_listener() -> None:
    made = config(
        listener__name__clients__oauthbearer__sasl__oauthbearer__expected__issuer="me",
        sasl__oauthbearer__expected__audience="a,b",
        sasl__oauthbearer__sub__claim__name="client",
        sasl__server__callback__handler__class=f"{HANDLERS}.OAuthBearerValidatorCallbackHandler",
    )
    rules = parse_oauth(made, "CLIENTS").rules
    assert (rules.issuer, rules.audiences, rules.subject_claim) == ("me", {"a", "b"}, "client")


def test_the_token_endpoint() -> None:
    login = Login("module", {"clientId": "app", "clientSecret": "hidden", "scope": "kafka"})
    endpoint = parse_token_endpoint(config(), "CLIENTS", login)
    assert (endpoint.client_id, endpoint.client_secret, endpoint.scope) == ("app", "hidden", "kafka")
    made = config(sasl__mechanism__inter__broker__protocol="OAUTHBEARER")
    login_of_node = parse_credentials(made, "CLIENTS", "sasl.mechanism.inter.broker.protocol")
    assert login_of_node.tokens is not None
    assert login_of_node.tokens.url == URL


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"sasl__oauthbearer__jwks__endpoint__url": None}, "cannot verify tokens"),
        ({"sasl__oauthbearer__jwks__endpoint__url": ""}, "cannot verify tokens"),
        ({"sasl__oauthbearer__jwks__endpoint__url": "https://issuer.example/other"}, "allowed.urls"),
        ({"sasl__oauthbearer__jwks__endpoint__url": "file:///etc/passwd"}, "allowed.urls"),
        ({"sasl__oauthbearer__jwks__endpoint__url": "ftp://a/b"}, "is not a URL"),
        ({ALLOWED_URLS: None}, "allowed.urls"),
        (
            {
                "sasl__server__callback__handler__class": (
                    f"{HANDLERS}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
                )
            },
            "is not implemented",
        ),
    ],
)
def test_refusals(changed: dict[str, str | None], complaint: str) -> None:
    """No unverified token, and no URL that is not listed (CVE-2025-27817)."""
    with pytest.raises(ConfigRefused, match=complaint):
        parse_listener_sasl(config(**changed), "CLIENTS")


def test_a_missing_token_endpoint() -> None:
    with pytest.raises(ConfigRefused, match="needs a token"):
        parse_token_endpoint(config(sasl__oauthbearer__token__endpoint__url=None), "CLIENTS", None)
