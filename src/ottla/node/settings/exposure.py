"""Listeners that other machines can reach, and what protects them.

A listener without TLS or without authentication is opened on another address than loopback only with the setting
`ottla.allow.insecure.listeners`; the log has a warning at each start. Without it

- a listener without a host (`PLAINTEXT://:9092`, as in Kafka's example files) is bound to 127.0.0.1, if no other
  address is advertised for it, so that these files can be used on one machine as they are;
- any other one is refused.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.net.listeners import Listener
from ottla.config import ConfigRefused
from ottla.config.listener_settings import listener_text
from ottla.config.resolve import BrokerLayers
from ottla.node.settings.listeners import is_loopback

ALLOW_INSECURE: Final = "ottla.allow.insecure.listeners"
"""A setting of Ottla."""
_LOOPBACK: Final = "127.0.0.1"


def checked(
    listener: Listener, layers: BrokerLayers, machine: str, *, insecure_allowed: bool
) -> tuple[Listener, str | None]:
    """The listener to open, and a warning about it. Raises ConfigRefused.

    `machine` is the host that is advertised for a listener without a host.
    """
    missing = [] if is_loopback(listener.host) else _missing(listener, layers)
    if not missing:
        return listener, None
    if insecure_allowed or missing == ["authorization"]:
        return listener, _exposed(listener, missing)
    confined = _confined(listener, machine)
    if confined is None:
        raise ConfigRefused(
            "listeners",
            f"{_exposed(listener, missing)}; configure TLS and authentication (ottla secure init), use 127.0.0.1, "
            f"or set {ALLOW_INSECURE}=true",
        )
    text = (
        f"listener {listener.name} has no host: bound to {_LOOPBACK}, because it has no {_listed(missing)}; "
        f"{ALLOW_INSECURE}=true opens it on every interface"
    )
    return confined, text


def _confined(listener: Listener, machine: str) -> Listener | None:
    """The listener on loopback; None if its host or its advertised host is another one."""
    if listener.host:
        return None
    if listener.advertised_host == machine:
        return listener._replace(host=_LOOPBACK, advertised_host=_LOOPBACK)
    return listener._replace(host=_LOOPBACK) if is_loopback(listener.advertised_host) else None


def _missing(listener: Listener, layers: BrokerLayers) -> list[str]:
    """The kinds of protection that a listener does not have."""
    protocol = listener.protocol
    missing = [] if protocol.uses_tls else ["encryption"]
    authenticates = protocol.uses_sasl or (
        protocol.uses_tls and listener_text(layers, listener.name, "ssl.client.auth") == "required"
    )
    if not authenticates:
        missing.append("authentication")
    if not layers.static.str("authorizer.class.name"):
        missing.append("authorization")
    return missing


def _exposed(listener: Listener, missing: list[str]) -> str:
    where = listener.host or "every interface"
    return f"listener {listener.name} is open on {where} without {_listed(missing)}"


def _listed(names: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
