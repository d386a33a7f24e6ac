"""Settings of GSSAPI on a broker: key tables, logins, rules and the name of the service."""

from __future__ import annotations

import pytest

from ottla.config import BrokerConfig, ConfigRefused
from ottla.security.sasl.kerberos.credentials import Initiator, KeyTable
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
