"""Settings of GSSAPI: key tables, logins, the name of the service, and the package that may be missing."""

from __future__ import annotations

import sys

import pytest

from ottla.base.errors import LocalError
from ottla.client.raw import ClientSettings
from ottla.config import BrokerConfig, ConfigRefused
from ottla.security.sasl.kerberos.credentials import Initiator, KeyTable, client_initiator
from ottla.security.sasl.kerberos.library import new_acceptor, require_gssapi
from ottla.security.sasl.settings import parse_credentials, parse_listener_sasl

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
JAAS = "listener.name.clients.gssapi.sasl.jaas.config"
RULES = "sasl.kerberos.principal.to.local.rules"
SERVICE = "sasl.kerberos.service.name"
INTER_BROKER = "sasl.mechanism.inter.broker.protocol"
LOGIN = f'{MODULE} required useKeyTab=true storeKey=true keyTab="/etc/k.keytab" principal="kafka/h@A.TEST";'


def config(**more: str) -> BrokerConfig:
    """Settings of a listener with GSSAPI; `more` has `_` in place of `.`."""
    return BrokerConfig(
        {JAAS: LOGIN, SERVICE: "kafka", **{name.replace("_", "."): text for name, text in more.items()}}
    )


def test_a_listener() -> None:
    sasl = parse_listener_sasl(
        config(sasl_kerberos_principal_to_local_rules="RULE:[1:$1]L, DEFAULT"), "CLIENTS"
    )
    assert sasl.mechanisms == ("GSSAPI",)
    assert sasl.kerberos is not None
    assert sasl.kerberos.table == KeyTable("/etc/k.keytab", "kafka/h@A.TEST")
    assert sasl.kerberos.rules == ("RULE:[1:$1]L", "DEFAULT")


def test_the_login_to_other_nodes() -> None:
    login = parse_credentials(config(), "CLIENTS", INTER_BROKER)
    assert login.kerberos == Initiator("kafka", "kafka/h@A.TEST", "/etc/k.keytab")
    assert login.kerberos.store()["client_keytab"] == "/etc/k.keytab"


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (JAAS, f"{MODULE} required;", "needs useKeyTab=true"),
        (JAAS, LOGIN.replace("useKeyTab=true", "useKeyTab=false"), "needs useKeyTab=true"),
        (JAAS, LOGIN.replace('keyTab="/etc/k.keytab"', ""), "needs useKeyTab=true"),
        (JAAS, LOGIN.replace('principal="kafka/h@A.TEST"', ""), "needs useKeyTab=true"),
        (JAAS, LOGIN.replace("Krb5", "Jndi"), "the login module of GSSAPI is"),
        (JAAS, LOGIN.replace(";", " serviceName=other;"), "kafka and serviceName=other .* differ"),
        (SERVICE, None, f"GSSAPI needs {SERVICE}"),
        (RULES, "RULE:[1:$5]", "refers to"),
    ],
)
def test_refusals(name: str, text: str | None, complaint: str) -> None:
    settings = {JAAS: LOGIN, SERVICE: "kafka", name: text}
    broker = BrokerConfig({key: value for key, value in settings.items() if value is not None})
    with pytest.raises(ConfigRefused, match=complaint):
        parse_listener_sasl(broker, "CLIENTS")


def test_the_name_of_the_service_can_be_in_the_login_configuration() -> None:
    broker = BrokerConfig({JAAS: LOGIN.replace(";", " serviceName=broker;")})
    login = parse_credentials(broker, "CLIENTS", INTER_BROKER)
    assert login.kerberos is not None
    assert login.kerberos.service == "broker"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Initiator("kafka")),
        ({"useTicketCache": "true", "ticketCache": "/tmp/t"}, Initiator("kafka", ticket_cache="/tmp/t")),  # noqa: S108
        ({"principal": "ann"}, Initiator("kafka", "ann")),
        ({"useKeyTab": "true", "keyTab": "k", "principal": "ann"}, Initiator("kafka", "ann", "k")),
    ],
)
def test_the_login_of_a_client(options: dict[str, str], expected: Initiator) -> None:
    assert client_initiator("kafka", options) == expected


def test_a_client_with_a_key_table_needs_its_principal() -> None:
    with pytest.raises(ValueError, match="keyTab and principal"):
        client_initiator("kafka", {"useKeyTab": "true", "keyTab": "k"})


def test_the_message_names_the_extra_if_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(LocalError, match=r"pip install 'ottla\[gssapi\]'"):
        require_gssapi()
    with pytest.raises(LocalError, match=r"pip install 'ottla\[gssapi\]'"):
        new_acceptor(KeyTable("/etc/k.keytab", "kafka/h@A.TEST"))
    options = {"bootstrap.servers": "h:1", "security.protocol": "SASL_PLAINTEXT", SERVICE: "kafka"}
    with pytest.raises(LocalError, match=r"pip install 'ottla\[gssapi\]'"):
        ClientSettings.from_options(options)
