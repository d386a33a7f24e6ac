"""Settings of one listener: `listener.name.<listener>.<setting>`, or the setting of the broker if that is not set."""

from __future__ import annotations

from ottla.config.keys import BROKER_KEYS
from ottla.config.resolve import BrokerLayers


def listener_text(layers: BrokerLayers, listener: str, name: str) -> str | None:
    """The text of a setting for a listener; None if it has no value. A prefixed setting precedes all others."""
    prefixed = prefixed_text(layers, listener, name)
    if prefixed is not None:
        return prefixed
    found = _stored(layers, name)
    if found is not None:
        return found
    key = BROKER_KEYS.get(name)
    return None if key is None else key.default


def prefixed_text(layers: BrokerLayers, listener: str, name: str) -> str | None:
    """The text that is set for this listener only; None if there is none."""
    return _stored(layers, f"listener.name.{listener.lower()}.{name}")


def _stored(layers: BrokerLayers, name: str) -> str | None:
    for texts in (layers.dynamic_broker, layers.dynamic_default, layers.static.explicit):
        if name in texts:
            return texts[name].strip()
    return None
