"""SASL settings of listeners, with overrides for listeners and mechanisms, and logins to other nodes."""

from __future__ import annotations

import pytest

from ottla.config import BrokerConfig, ConfigRefused
from ottla.security.sasl.settings import parse_credentials, parse_listener_sasl

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="n" password="p" user_alice="a";'
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="n" password="p";'
JAAS = {"listener.name.clients.plain.sasl.jaas.config": PLAIN}
INTER_BROKER = "sasl.mechanism.inter.broker.protocol"


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig({name.replace("_", "."): value for name, value in settings.items()} | JAAS)


class TestListeners:
    def test_plain(self) -> None:
        sasl = parse_listener_sasl(config(sasl_enabled_mechanisms="PLAIN"), "CLIENTS")
        assert sasl.mechanisms == ("PLAIN",)
        assert sasl.passwords == {"alice": "a"}
        assert sasl.reauthentication_ms == {"PLAIN": 0}
        assert sasl.receive_bytes_max == 524_288

    def test_overrides_of_listener_and_mechanism(self) -> None:
        settings = BrokerConfig(
            {
                "sasl.enabled.mechanisms": "GSSAPI",
                "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
                "listener.name.clients.sasl.server.max.receive.size": "1000",
                "connections.max.reauth.ms": "7",
                "listener.name.clients.connections.max.reauth.ms": "8",
                "listener.name.clients.scram-sha-256.connections.max.reauth.ms": "9",
                **JAAS,
            }
        )
        sasl = parse_listener_sasl(settings, "CLIENTS")
        assert sasl.mechanisms == ("SCRAM-SHA-256", "PLAIN")
        assert sasl.receive_bytes_max == 1000
        assert sasl.reauthentication_ms == {"SCRAM-SHA-256": 9, "PLAIN": 8}

    def test_scram_needs_no_login_configuration(self) -> None:
        assert parse_listener_sasl(config(sasl_enabled_mechanisms="SCRAM-SHA-512"), "OTHER").passwords == {}

    @pytest.mark.parametrize(
        ("settings", "listener", "complaint"),
        [
            ({}, "CLIENTS", r"clients\.gssapi\.sasl\.jaas\.config is missing"),
            ({"sasl_enabled_mechanisms": ""}, "CLIENTS", "needs one"),
            ({"sasl_enabled_mechanisms": "PLAIN,KERBEROS"}, "CLIENTS", "KERBEROS is not implemented"),
            (
                {"sasl_enabled_mechanisms": "PLAIN"},
                "OTHER",
                "listener.name.other.plain.sasl.jaas.config is missing",
            ),
            ({"sasl_enabled_mechanisms": "PLAIN", "sasl_jaas_config": PLAIN}, "OTHER", "is missing"),
        ],
    )
    def test_refusals(self, settings: dict[str, str], listener: str, complaint: str) -> None:
        with pytest.raises(ConfigRefused, match=complaint):
            parse_listener_sasl(config(**settings), listener)

    def test_a_bad_login_configuration_is_not_shown(self) -> None:
        bad = BrokerConfig(
            {"sasl.enabled.mechanisms": "PLAIN", "listener.name.x.plain.sasl.jaas.config": "hidden required;"}
        )
        with pytest.raises(ConfigRefused, match=r"listener.name.x.plain.sasl.jaas.config") as refused:
            parse_listener_sasl(bad, "X")
        assert "hidden" not in str(refused.value)


class TestLogins:
    def test_the_login(self) -> None:
        settings = config(sasl_enabled_mechanisms="PLAIN", sasl_mechanism_inter_broker_protocol="PLAIN")
        login = parse_credentials(settings, "CLIENTS", INTER_BROKER)
        assert (login.mechanism, login.options["username"], login.options["password"]) == ("PLAIN", "n", "p")
        assert repr(login) == "Credentials(PLAIN)"

    @pytest.mark.parametrize(
        ("settings", "complaint"),
        [
            ({"sasl_enabled_mechanisms": "PLAIN"}, "GSSAPI is not in sasl.enabled.mechanisms"),
            (
                {"sasl_enabled_mechanisms": "PLAIN", "sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-256"},
                "is not in sasl.enabled.mechanisms",
            ),
            (
                {
                    "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256",
                    "sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-256",
                },
                "needs username and password",
            ),
        ],
    )
    def test_refusals(self, settings: dict[str, str], complaint: str) -> None:
        with pytest.raises(ConfigRefused, match=complaint):
            parse_credentials(config(**settings), "CLIENTS", INTER_BROKER)
