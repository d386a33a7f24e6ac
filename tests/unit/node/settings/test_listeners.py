"""Listeners as Kafka writes them."""

from __future__ import annotations

import pytest

from ottla.broker.net.listeners import Listener
from ottla.config import BrokerConfig, ConfigRefused
from ottla.node.settings.listeners import Listeners, is_loopback, parse_listeners
from ottla.node.settings.quorum_config import Role
from ottla.security.protocol import SecurityProtocol


def _parse(listeners: str, **more: str) -> Listeners:
    settings = {name.replace("__", "."): value for name, value in more.items()}
    return parse_listeners(BrokerConfig({"listeners": listeners, **settings}), "this-machine")


MAP = "EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL"


@pytest.mark.parametrize(
    ("entry", "host", "port", "advertised"),
    [
        ("PLAINTEXT://127.0.0.1:9092", "127.0.0.1", 9092, "127.0.0.1"),
        ("plaintext://localhost:0", "localhost", 0, "localhost"),
        ("PLAINTEXT://:9092", "", 9092, "this-machine"),
        ("PLAINTEXT://[::1]:9092", "::1", 9092, "::1"),
        ("PLAINTEXT://[fe80::1%eth0]:9092", "fe80::1%eth0", 9092, "fe80::1%eth0"),
        ("PLAINTEXT://my-host.example:19092", "my-host.example", 19092, "my-host.example"),
    ],
)
def test_one_listener(entry: str, host: str, port: int, advertised: str) -> None:
    (listener,) = _parse(entry).clients
    assert listener == Listener("PLAINTEXT", host, port, advertised, port)


def test_several_with_advertised_addresses_and_a_controller() -> None:
    parsed = _parse(
        "PLAINTEXT://127.0.0.1:9092,EXTERNAL://0.0.0.0:9094,CONTROLLER://:9093",
        advertised__listeners="EXTERNAL://broker.example:19094,PLAINTEXT://127.0.0.1:9092",
        listener__security__protocol__map=MAP,
        inter__broker__listener__name="external",
    )
    assert [(x.name, x.advertised_host, x.advertised_port) for x in parsed.clients] == [
        ("PLAINTEXT", "127.0.0.1", 9092),
        ("EXTERNAL", "broker.example", 19094),
    ]
    assert [x.name for x in parsed.controllers] == ["CONTROLLER"]
    assert parsed.inter_broker == "EXTERNAL"


def test_ipv4_and_ipv6_may_share_a_port() -> None:
    parsed = _parse("PLAINTEXT://127.0.0.1:9092,EXTERNAL://[::1]:9092", listener__security__protocol__map=MAP)
    assert [x.host for x in parsed.clients] == ["127.0.0.1", "::1"]


def test_a_controller_listener_of_any_name_needs_no_protocol_of_its_own() -> None:
    parsed = _parse("PLAINTEXT://:1,QUORUM://:2", controller__listener__names="QUORUM")
    assert [x.name for x in parsed.controllers] == ["QUORUM"]


@pytest.mark.parametrize(
    ("listeners", "more"),
    [
        ("localhost:9092", {}),
        ("PLAINTEXT://localhost", {}),
        ("PLAINTEXT://localhost:70000", {}),
        ("PLAINTEXT://localhost:-1", {}),
        ("PLAINTEXT://a b:9092", {}),
        ("PLAINTEXT://:1,PLAINTEXT://:2", {}),
        ("PLAINTEXT://:1,EXTERNAL://:1", {"listener__security__protocol__map": MAP}),
        ("CONTROLLER://:1", {}),
        ("EXTERNAL://:1", {}),
        ("PLAINTEXT://:1", {"security__inter__broker__protocol": "SSL"}),
        ("PLAINTEXT://:1", {"listener__security__protocol__map": "PLAINTEXT=PLAINTEXT"}),
        ("PLAINTEXT://:1", {"listener__security__protocol__map": "PLAINTEXT:QUIC"}),
        ("PLAINTEXT://0.0.0.0:1", {}),
        ("PLAINTEXT://:1", {"advertised__listeners": "PLAINTEXT://0.0.0.0:1"}),
        ("PLAINTEXT://:1", {"advertised__listeners": "OTHER://a:1"}),
        ("PLAINTEXT://:1,CONTROLLER://:2", {"advertised__listeners": "CONTROLLER://a:2"}),
        ("PLAINTEXT://:1", {"inter__broker__listener__name": "OTHER"}),
        (
            "PLAINTEXT://:1",
            {"inter__broker__listener__name": "PLAINTEXT", "security__inter__broker__protocol": "PLAINTEXT"},
        ),
    ],
)
def test_refused(listeners: str, more: dict[str, str]) -> None:
    with pytest.raises(ConfigRefused):
        _parse(listeners, **more)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("", False),
        ("0.0.0.0", False),  # noqa: S104
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
    ],
)
def test_loopback(host: str, *, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize("port", ["65536", "99999", "100000", "12345678901234567890"])
def test_a_port_that_is_too_high_is_named(port: str) -> None:
    with pytest.raises(ConfigRefused, match=rf"listeners: port {port} of PLAINTEXT; allowed: 0 to 65535"):
        _parse(f"PLAINTEXT://localhost:{port}")


def test_protocols_of_listeners() -> None:
    parsed = _parse(
        "SSL://:9092,CONTROLLER://:9093",
        listener__security__protocol__map="SSL:SSL,CONTROLLER:SSL",
        security__inter__broker__protocol="SSL",
    )
    assert [each.protocol for each in (*parsed.clients, *parsed.controllers)] == [SecurityProtocol.SSL] * 2
    assert parsed.inter_broker == "SSL"
    assert (parsed.controller_name, parsed.controller_protocol) == ("CONTROLLER", SecurityProtocol.SSL)


def test_a_broker_has_the_protocol_of_the_controllers_of_other_nodes() -> None:
    settings = {
        "listeners": "PLAINTEXT://:9092",
        "controller.listener.names": "QUORUM",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,QUORUM:SSL",
    }
    parsed = parse_listeners(BrokerConfig(settings), "this-machine", frozenset({Role.BROKER}))
    assert (parsed.controller_name, parsed.controller_protocol) == ("QUORUM", SecurityProtocol.SSL)
    del settings["listener.security.protocol.map"]
    parsed = parse_listeners(BrokerConfig(settings), "this-machine", frozenset({Role.BROKER}))
    assert parsed.controller_protocol is SecurityProtocol.PLAINTEXT
    settings["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT"
    with pytest.raises(ConfigRefused, match="no protocol for listener QUORUM"):
        parse_listeners(BrokerConfig(settings), "this-machine", frozenset({Role.BROKER}))
