"""SASL of a node: the settings of its listeners, and its logins to other brokers and to controllers.

A node that is alone needs no login, so that one broker with SASL can be started with the settings of its listener only.
SCRAM cannot protect the connections between several controllers: its credentials are metadata, which a controller has
only after it has authenticated to the others. A quorum of one controller can use it for its brokers.

The parsers of the settings, and the mechanisms that they refer to, are imported if there is a listener with SASL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from ottla.broker.net.listeners import Listener
from ottla.config import BrokerConfig, ConfigRefused
from ottla.node.settings.listeners import Listeners
from ottla.node.settings.quorum_config import QuorumConfig, Role
from ottla.security.scram_keys import MECHANISMS

if TYPE_CHECKING:
    from ottla.security.sasl.settings import Credentials, ListenerSasl

_INTER_BROKER = "sasl.mechanism.inter.broker.protocol"
_CONTROLLER = "sasl.mechanism.controller.protocol"


class SaslConfig(Struct, frozen=True):
    """The settings of all listeners that use SASL, and the logins of this node."""

    listeners: Mapping[str, ListenerSasl] = {}
    inter_broker: Credentials | None = None
    controller: Credentials | None = None


def parse_sasl(
    config: BrokerConfig, listeners: Listeners, quorum: QuorumConfig, roles: frozenset[Role]
) -> SaslConfig:
    """Parse the settings; ConfigRefused if a listener could not authenticate its clients."""
    if "sasl.jaas.config" in config.explicit:
        text = "sasl.jaas.config has no effect; use listener.name.<listener>.<mechanism>.sasl.jaas.config"
        raise ConfigRefused("sasl.jaas.config", text)
    opened = (*listeners.clients, *(listeners.controllers if quorum.named else ()))
    return SaslConfig(
        {each.name: _listener(config, each.name) for each in opened if each.protocol.uses_sasl},
        _inter_broker(config, listeners.clients, listeners.inter_broker, required=not quorum.alone),
        _controller(config, listeners, quorum, roles),
    )


def _listener(config: BrokerConfig, name: str) -> ListenerSasl:
    from ottla.security.sasl.settings import parse_listener_sasl

    return parse_listener_sasl(config, name)


def _login(config: BrokerConfig, listener: str, setting: str) -> Credentials:
    from ottla.security.sasl.settings import parse_credentials

    return parse_credentials(config, listener, setting)


def _inter_broker(
    config: BrokerConfig, clients: tuple[Listener, ...], name: str, *, required: bool
) -> Credentials | None:
    if not any(each.name == name and each.protocol.uses_sasl for each in clients):
        return None
    if not required and _INTER_BROKER not in config.explicit:
        return None
    return _login(config, name, _INTER_BROKER)


def _controller(
    config: BrokerConfig, listeners: Listeners, quorum: QuorumConfig, roles: frozenset[Role]
) -> Credentials | None:
    if quorum.alone or not listeners.controller_protocol.uses_sasl:
        return None
    found = _login(config, listeners.controller_name, _CONTROLLER)
    if found.mechanism in MECHANISMS and Role.CONTROLLER in roles:
        text = f"{_CONTROLLER}={found.mechanism} is not possible with several controllers"
        raise ConfigRefused(_CONTROLLER, f"{text}; use PLAIN, OAUTHBEARER, GSSAPI or TLS client certificates")
    return found
