"""Listeners on other addresses than loopback."""

from __future__ import annotations

import pytest

from ottla.config import ConfigRefused
from ottla.node.settings.config import Level, NodeConfig, assemble


def configured(listeners: str, **more: str) -> NodeConfig:
    settings = {"listeners": listeners, **{name.replace("__", "."): value for name, value in more.items()}}
    return assemble(settings, {}, machine="this-machine")


def warnings(config: NodeConfig) -> list[str]:
    return [each.text for each in config.notices if each.level is Level.WARNING]


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "[::]", "broker.example"])  # noqa: S104
def test_another_address_is_refused(host: str) -> None:
    with pytest.raises(
        ConfigRefused, match=r"without encryption, authentication or authorization; configure TLS"
    ):
        configured(f"PLAINTEXT://{host}:9092", advertised__listeners="PLAINTEXT://broker.example:9092")


def test_another_address_is_opened_with_the_option_and_a_warning() -> None:
    config = configured("PLAINTEXT://10.0.0.1:9092", ottla__allow__insecure__listeners="true")
    assert config.listeners[0].host == "10.0.0.1"
    (text,) = warnings(config)
    assert (
        text == "listener PLAINTEXT is open on 10.0.0.1 without encryption, authentication or authorization"
    )


def test_a_listener_without_a_host_is_bound_to_loopback() -> None:
    config = configured("PLAINTEXT://:9092")
    (listener,) = config.listeners
    assert (listener.host, listener.advertised_host) == ("127.0.0.1", "127.0.0.1")
    (text,) = warnings(config)
    assert "has no host: bound to 127.0.0.1" in text


def test_a_listener_without_a_host_keeps_an_advertised_name_of_this_machine() -> None:
    config = configured("PLAINTEXT://:9092", advertised__listeners="PLAINTEXT://localhost:9093")
    (listener,) = config.listeners
    assert (listener.host, listener.advertised_host, listener.advertised_port) == (
        "127.0.0.1",
        "localhost",
        9093,
    )


def test_a_listener_without_a_host_that_is_advertised_to_others_is_refused() -> None:
    with pytest.raises(ConfigRefused, match="is open on every interface"):
        configured("PLAINTEXT://:9092", advertised__listeners="PLAINTEXT://broker.example:9092")


def test_the_option_is_true_or_false() -> None:
    with pytest.raises(ConfigRefused, match="allowed: true, false"):
        configured("PLAINTEXT://:9092", ottla__allow__insecure__listeners="maybe")


@pytest.mark.parametrize(
    ("listener", "protocol", "missing"),
    [
        ("CLIENTS", "SASL_SSL", "authorization"),
        ("CLIENTS", "SASL_PLAINTEXT", "encryption or authorization"),
        ("CLIENTS", "SSL", "authentication or authorization"),
        ("MUTUAL", "SSL", "authorization"),
    ],
)
def test_what_protects_a_listener(listener: str, protocol: str, missing: str) -> None:
    settings = {
        "listener__security__protocol__map": f"{listener}:{protocol},CONTROLLER:PLAINTEXT",
        "listener__name__mutual__ssl__client__auth": "required",
        "sasl__enabled__mechanisms": "SCRAM-SHA-512",
    }
    address = f"{listener}://10.0.0.1:9092"
    text = f"listener {listener} is open on 10.0.0.1 without {missing}"
    if missing == "authorization":
        assert warnings(configured(address, **settings)) == [text]
    else:
        with pytest.raises(ConfigRefused, match=text):
            configured(address, **settings)
