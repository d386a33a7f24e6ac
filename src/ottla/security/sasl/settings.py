"""SASL settings of a listener: mechanisms, login configurations, limits; and the login of this node to others.

As in Kafka, `sasl.jaas.config` of a server is read with the listener and the mechanism only
(`listener.name.<listener>.<mechanism>.sasl.jaas.config`). SCRAM and OAUTHBEARER need no login configuration to
authenticate clients, PLAIN and GSSAPI do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ottla.config import BrokerConfig, ConfigRefused
from ottla.security.sasl.exchange import GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN
from ottla.security.sasl.jaas import Login, parse_jaas
from ottla.security.sasl.kerberos.credentials import Initiator
from ottla.security.sasl.kerberos.settings import KerberosListener, parse_initiator, parse_kerberos
from ottla.security.sasl.listener_values import ListenerValues
from ottla.security.sasl.oauth.endpoints import TokenEndpoint
from ottla.security.sasl.oauth.settings import (
    OauthSettings,
    check_validator,
    parse_oauth,
    parse_token_endpoint,
)

_JAAS: Final = "sasl.jaas.config"


class ListenerSasl(Struct, frozen=True):
    """The SASL settings of one listener."""

    mechanisms: tuple[str, ...]
    """The mechanisms that clients may use."""
    passwords: Mapping[str, str]
    """The users of PLAIN."""
    reauthentication_ms: Mapping[str, int]
    """The longest session by mechanism; 0 if it is not limited."""
    receive_bytes_max: int
    """The largest frame before the client is authenticated."""
    oauth: OauthSettings | None = None
    """How tokens are verified, with OAUTHBEARER."""
    kerberos: KerberosListener | None = None
    """The key of the listener and its rules for names, with GSSAPI."""


class Credentials(Struct, frozen=True):
    """The login of this node to a listener of another node."""

    mechanism: str
    options: Mapping[str, str]
    """The options of the login module, such as username and password."""
    tokens: TokenEndpoint | None = None
    """Where tokens come from, with OAUTHBEARER."""
    kerberos: Initiator | None = None
    """Where tickets come from, with GSSAPI."""

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism})"


def parse_listener_sasl(config: BrokerConfig, listener: str) -> ListenerSasl:
    """The settings of a listener that uses SASL; ConfigRefused if it could not authenticate clients."""
    values = ListenerValues(config, listener)
    mechanisms = tuple(values.names("sasl.enabled.mechanisms"))
    if not mechanisms:
        raise ConfigRefused(
            "sasl.enabled.mechanisms", f"sasl.enabled.mechanisms: {listener} needs one at least"
        )
    for mechanism in mechanisms:
        _check_mechanism("sasl.enabled.mechanisms", mechanism)
        check_validator(config, listener, mechanism)
    logins = {mechanism: server_login(config, listener, mechanism) for mechanism in mechanisms}
    plain = logins.get(PLAIN)
    if PLAIN in mechanisms and plain is None:
        name = jaas_name(listener, PLAIN)
        raise ConfigRefused(name, f"{name} is missing; it has the users of PLAIN as options user_<name>")
    return ListenerSasl(
        mechanisms=mechanisms,
        passwords={} if plain is None else plain.users,
        reauthentication_ms={
            mechanism: ListenerValues(config, listener, mechanism).number("connections.max.reauth.ms")
            for mechanism in mechanisms
        },
        receive_bytes_max=values.number("sasl.server.max.receive.size"),
        oauth=parse_oauth(config, listener) if OAUTHBEARER in mechanisms else None,
        kerberos=_kerberos(config, listener, logins[GSSAPI]) if GSSAPI in mechanisms else None,
    )


def parse_credentials(config: BrokerConfig, listener: str, setting: str) -> Credentials:
    """The login of this node with the mechanism that `setting` names, to that listener of other nodes."""
    mechanism = ListenerValues(config, listener).text(setting) or ""
    _check_mechanism(setting, mechanism)
    enabled = ListenerValues(config, listener).names("sasl.enabled.mechanisms")
    if mechanism not in enabled:
        raise ConfigRefused(
            setting, f"{setting}={mechanism} is not in sasl.enabled.mechanisms ({', '.join(enabled)})"
        )
    login = server_login(config, listener, mechanism)
    options = {} if login is None else login.options
    if mechanism == OAUTHBEARER:
        return Credentials(mechanism, options, parse_token_endpoint(config, listener, login))
    if mechanism == GSSAPI:
        name = jaas_name(listener, GSSAPI)
        return Credentials(mechanism, options, kerberos=parse_initiator(config, listener, name, options))
    if not (options.get("username") and options.get("password")):
        name = jaas_name(listener, mechanism)
        raise ConfigRefused(
            name, f"{name} needs username and password, with which this node authenticates to other nodes"
        )
    return Credentials(mechanism, options)


def _kerberos(config: BrokerConfig, listener: str, login: Login | None) -> KerberosListener:
    name = jaas_name(listener, GSSAPI)
    if login is None:
        text = f"{name} is missing; it has the principal of the broker and its key table"
        raise ConfigRefused(name, f"{text} (sasl.enabled.mechanisms is GSSAPI if it is not set)")
    return parse_kerberos(config, listener, name, login.options)


def server_login(config: BrokerConfig, listener: str, mechanism: str) -> Login | None:
    """The login configuration of a listener and mechanism; None if it has none."""
    name = jaas_name(listener, mechanism)
    text = config.explicit.get(name)
    if text is None:
        return None
    try:
        return parse_jaas(text, mechanism)
    except ValueError as error:
        raise ConfigRefused(name, f"{name}: {error}") from error


def jaas_name(listener: str, mechanism: str) -> str:
    """The name of the setting with the login configuration of a mechanism on a listener."""
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{_JAAS}"


def _check_mechanism(setting: str, mechanism: str) -> None:
    if mechanism not in MECHANISMS:
        raise ConfigRefused(
            setting, f"{setting}: {mechanism} is not implemented; allowed: {', '.join(MECHANISMS)}"
        )
