"""Settings of a listener precede those of the broker, in all layers."""

from __future__ import annotations

from ottla.config import BrokerConfig
from ottla.config.listener_settings import listener_text, prefixed_text
from ottla.config.resolve import BrokerLayers

NAME = "ssl.client.auth"
OWN = f"listener.name.internal.{NAME}"


def test_the_order_of_precedence() -> None:
    none = BrokerConfig({})
    assert listener_text(BrokerLayers(none), "INTERNAL", NAME) == "none"
    assert prefixed_text(BrokerLayers(none), "INTERNAL", NAME) is None
    static = BrokerConfig({NAME: "requested", OWN: " required "})
    assert listener_text(BrokerLayers(static), "INTERNAL", NAME) == "required"
    assert listener_text(BrokerLayers(static), "OTHER", NAME) == "requested"
    assert prefixed_text(BrokerLayers(static), "OTHER", NAME) is None
    assert listener_text(BrokerLayers(static, {NAME: "none"}), "INTERNAL", NAME) == "required"
    assert listener_text(BrokerLayers(static, {NAME: "none"}), "OTHER", NAME) == "none"
    assert (
        listener_text(BrokerLayers(static, {OWN: "none"}, {OWN: "requested"}), "INTERNAL", NAME)
        == "requested"
    )
    assert listener_text(BrokerLayers(none), "INTERNAL", "unknown") is None
