"""SASL in the settings of a node: which logins it needs, and what it refuses."""

from __future__ import annotations

import pytest

from ottla.config import ConfigRefused
from ottla.node.settings.config import NodeConfig, assemble
from ottla.security.protocol import SecurityProtocol
from tests.support.sasl import MODULES, plain_jaas, sasl_settings

CLUSTER = {
    "node.id": "1",
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094",
    "process.roles": "broker,controller",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_jaas(),
    "listener.name.controller.plain.sasl.jaas.config": plain_jaas(),
    "listener.name.controller.scram-sha-256.sasl.jaas.config": (
        f'{MODULES}.scram.ScramLoginModule required username="a" password="b";'
    ),
}


def node(**changed: str) -> NodeConfig:
    return assemble(CLUSTER | {name.replace("_", "."): value for name, value in changed.items()}, {})


def test_a_node_alone_needs_no_login() -> None:
    settings = sasl_settings(9092)
    del settings["sasl.mechanism.inter.broker.protocol"]
    config = assemble(settings, {})
    (listener,) = config.listeners
    assert listener.protocol is SecurityProtocol.SASL_PLAINTEXT
    assert config.sasl.listeners["SASL_PLAINTEXT"].mechanisms == ("PLAIN",)
    assert (config.sasl.inter_broker, config.sasl.controller) == (None, None)


def test_a_node_of_a_cluster_has_both_logins() -> None:
    sasl = node().sasl
    assert set(sasl.listeners) == {"SASL_PLAINTEXT", "CONTROLLER"}
    assert sasl.inter_broker is not None
    assert sasl.controller is not None
    assert sasl.controller.options["username"] == "admin"


def test_a_broker_without_controller_role_logs_in_to_controllers() -> None:
    changed = {
        "process_roles": "broker",
        "node_id": "3",
        "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
        "sasl_mechanism_controller_protocol": "SCRAM-SHA-256",
    }
    sasl = node(**changed).sasl
    assert set(sasl.listeners) == {"SASL_PLAINTEXT"}
    assert sasl.controller is not None
    assert sasl.controller.mechanism == "SCRAM-SHA-256"


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"sasl_mechanism_inter_broker_protocol": "GSSAPI"}, "sasl.mechanism.inter.broker.protocol"),
        ({"sasl_mechanism_controller_protocol": "GSSAPI"}, "sasl.mechanism.controller.protocol"),
        ({"sasl_mechanism_controller_protocol": "SCRAM-SHA-256"}, "sasl.mechanism.controller.protocol"),
        ({"sasl_jaas_config": plain_jaas()}, "sasl.jaas.config"),
        ({"sasl_enabled_mechanisms": "GSSAPI"}, "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"),
        ({"security_inter_broker_protocol": "SSL"}, "security.inter.broker.protocol"),
    ],
)
def test_refusals(changed: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigRefused) as refused:
        node(**changed)
    assert refused.value.name == name
    assert "admin-secret" not in str(refused.value)
