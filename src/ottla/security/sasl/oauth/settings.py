"""Settings of OAUTHBEARER: of a listener that verifies tokens, and of a node that logs in with a token.

A listener without `sasl.oauthbearer.jwks.endpoint.url` is refused: it could not verify tokens, and tokens that are not
verified are never accepted. As in Kafka 4, URLs must be listed in the setting of `ALLOWED_URLS`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ottla.base.errors import LocalError
from ottla.config import BrokerConfig, ConfigRefused
from ottla.security.extra import require_cryptography
from ottla.security.sasl.exchange import ALLOWED_URLS, OAUTHBEARER
from ottla.security.sasl.jaas import Login
from ottla.security.sasl.listener_values import ListenerValues
from ottla.security.sasl.oauth.endpoints import TokenEndpoint, check_url
from ottla.security.sasl.oauth.jwt import Rules
from ottla.security.sasl.oauth.key_source import KeySettings

_PREFIX: Final = "sasl.oauthbearer"
_JWKS: Final = f"{_PREFIX}.jwks.endpoint.url"
_TOKENS: Final = f"{_PREFIX}.token.endpoint.url"
_VALIDATORS: Final = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{package}OAuthBearerValidatorCallbackHandler"
    for package in ("", "secured.")
)
_RETRIEVERS: Final = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{package}OAuthBearerLoginCallbackHandler"
    for package in ("", "secured.")
)


class OauthSettings(Struct, frozen=True):
    """How a listener verifies tokens."""

    rules: Rules
    keys: KeySettings


def parse_oauth(config: BrokerConfig, listener: str) -> OauthSettings:
    """The settings of a listener with OAUTHBEARER."""
    values = ListenerValues(config, listener, OAUTHBEARER)
    url = values.text(_JWKS)
    if not url:
        raise ConfigRefused(_JWKS, f"{_JWKS} is missing: without keys OAUTHBEARER cannot verify tokens")
    _check_allowed(config, _JWKS, url)
    require_cryptography("OAUTHBEARER")
    rules = Rules(
        values.text(f"{_PREFIX}.expected.issuer"),
        frozenset(values.names(f"{_PREFIX}.expected.audience")),
        values.text(f"{_PREFIX}.scope.claim.name") or "scope",
        values.text(f"{_PREFIX}.sub.claim.name") or "sub",
        values.number(f"{_PREFIX}.clock.skew.seconds"),
    )
    keys = KeySettings(
        url,
        values.number(f"{_PREFIX}.jwks.endpoint.refresh.ms") / 1000,
        values.number(f"{_PREFIX}.jwks.endpoint.retry.backoff.ms") / 1000,
        values.number(f"{_PREFIX}.jwks.endpoint.retry.backoff.max.ms") / 1000,
    )
    return OauthSettings(rules, keys)


def parse_token_endpoint(config: BrokerConfig, listener: str, login: Login | None) -> TokenEndpoint:
    """Where this node gets the tokens with which it logs in to a listener of other nodes."""
    values = ListenerValues(config, listener, OAUTHBEARER)
    options = {} if login is None else login.options
    url = values.text(_TOKENS)
    if not url:
        raise ConfigRefused(_TOKENS, f"{_TOKENS} is missing: this node needs a token for other nodes")
    _check_class(values, "sasl.login.callback.handler.class", _RETRIEVERS)
    _check_allowed(config, _TOKENS, url)
    credentials = f"{_PREFIX}.client.credentials.client"
    return TokenEndpoint(
        url,
        values.text(f"{credentials}.id") or options.get("clientId", ""),
        values.text(f"{credentials}.secret") or options.get("clientSecret", ""),
        values.text(f"{_PREFIX}.scope") or options.get("scope"),
        max(1, values.number("sasl.login.read.timeout.ms") or 10_000) / 1000,
    )


def check_validator(config: BrokerConfig, listener: str, mechanism: str) -> None:
    """Refuse a Java class in place of the verification of credentials; the one for tokens is what Ottla does."""
    values = ListenerValues(config, listener, mechanism)
    _check_class(values, "sasl.server.callback.handler.class", _VALIDATORS)


def _check_class(values: ListenerValues, setting: str, allowed: tuple[str, ...]) -> None:
    name = values.text(setting)
    if name is not None and name not in allowed:
        raise ConfigRefused(setting, f"{setting}={name} is not implemented; allowed: {allowed[0]}")


def _check_allowed(config: BrokerConfig, setting: str, url: str) -> None:
    try:
        check_url(setting, url)
    except LocalError as error:
        raise ConfigRefused(setting, str(error)) from error
    listed = [each.strip() for each in config.explicit.get(ALLOWED_URLS, "").split(",")]
    if url not in listed:
        raise ConfigRefused(setting, f"{setting}: add {url} to {ALLOWED_URLS}")
