"""kafka-configs for users, clients and addresses, and kafka-delegation-tokens, of Apache Kafka 4.3.1, on Ottla."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from tests.compat.java_tools import JavaTools
from tests.support.clients import fresh
from tests.support.sasl import MODULES, USERS, sasl_settings

pytestmark = pytest.mark.compat


@pytest.fixture
def at(broker: BrokerProcess) -> tuple[str, str]:
    return ("--bootstrap-server", broker.bootstrap)


def test_scram_users(tools: JavaTools, at: tuple[str, str]) -> None:
    name = fresh("user")
    user = ("--entity-type", "users", "--entity-name", name)
    for config in ("SCRAM-SHA-256=[iterations=8192,password=first]", "SCRAM-SHA-512=[password=second]"):
        tools.good("kafka-configs", *at, "--alter", *user, "--add-config", config)
    described = tools.good("kafka-configs", *at, "--describe", *user).out
    assert f"SCRAM credential configs for user-principal '{name}'" in described
    assert "SCRAM-SHA-256=iterations=8192" in described
    assert "SCRAM-SHA-512=iterations=4096" in described
    assert name in tools.good("kafka-configs", *at, "--describe", "--entity-type", "users").out
    tools.good("kafka-configs", *at, "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM-SHA-256" not in tools.good("kafka-configs", *at, "--describe", *user).out
    few = tools.run(
        "kafka-configs", *at, "--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=1,password=x]"
    )
    assert few.code == 1
    gone = tools.run("kafka-configs", *at, "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    assert gone.code == 1


def test_quotas(tools: JavaTools, at: tuple[str, str]) -> None:
    name, app = fresh("user"), fresh("app")
    user, client = (
        ("--entity-type", "users", "--entity-name", name),
        ("--entity-type", "clients", "--entity-name", app),
    )
    both = (*user, *client)
    limits = (
        "producer_byte_rate=1024,consumer_byte_rate=2048,request_percentage=12.5,controller_mutation_rate=3"
    )
    tools.good("kafka-configs", *at, "--alter", *both, "--add-config", limits)
    described = tools.good("kafka-configs", *at, "--describe", *both).out
    for value in ("producer_byte_rate=1024.0", "request_percentage=12.5", "controller_mutation_rate=3.0"):
        assert value in described
    tools.good("kafka-configs", *at, "--alter", *user, "--add-config", "producer_byte_rate=9")
    every_user = ("--entity-type", "users", "--entity-default")
    tools.good(
        "kafka-configs", *at, "--alter", *every_user, "--add-config", "producer_byte_rate=1000000000000"
    )
    assert "1.0E12" in tools.good("kafka-configs", *at, "--describe", *every_user).out
    tools.good("kafka-configs", *at, "--alter", *every_user, "--delete-config", "producer_byte_rate")
    tools.good(
        "kafka-configs", *at, "--alter", *both, "--delete-config", "producer_byte_rate,request_percentage"
    )
    left = tools.good("kafka-configs", *at, "--describe", *both).out
    assert "consumer_byte_rate=2048.0" in left
    assert "producer_byte_rate" not in left
    assert "producer_byte_rate=9.0" in tools.good("kafka-configs", *at, "--describe", *user).out
    negative = tools.run("kafka-configs", *at, "--alter", *user, "--add-config", "producer_byte_rate=-1")
    assert negative.code == 1
    address = ("--entity-type", "ips", "--entity-name", "10.1.2.3")
    tools.good("kafka-configs", *at, "--alter", *address, "--add-config", "connection_creation_rate=7")
    assert "connection_creation_rate=7.0" in tools.good("kafka-configs", *at, "--describe", *address).out
    tools.good("kafka-configs", *at, "--alter", *address, "--delete-config", "connection_creation_rate")


@pytest.fixture(scope="module")
def token_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    port = free_port()
    settings = sasl_settings(port, "PLAIN,SCRAM-SHA-256") | {"delegation.token.secret.key": "a-key"}
    with BrokerProcess(tmp_path_factory.mktemp("tokens") / "data", settings, port=port) as process:
        yield process


def properties(folder: Path, name: str, mechanism: str, jaas: str) -> str:
    path = folder / f"{name}.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
    )
    return str(path)


def test_delegation_tokens(tools: JavaTools, token_broker: BrokerProcess, tmp_path: Path) -> None:
    at, owner = ("--bootstrap-server", token_broker.bootstrap), ("--owner-principal", "User:alice")
    plain = f'{MODULES}.plain.PlainLoginModule required username="{{0}}" password="{{1}}";'
    alice, bob = (
        ("--command-config", properties(tmp_path, name, "PLAIN", plain.format(name, USERS[name])))
        for name in ("alice", "bob")
    )
    renewer = ("--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    created = tools.good("kafka-delegation-tokens", *at, *alice, "--create", *renewer).out
    row = re.search(r"^(\S{22})\s+(\S+)\s+User:alice\s+User:alice\s+\[?User:bob\]?\s", created, re.MULTILINE)
    assert row is not None, created
    token_id, secret = row.groups()
    assert token_id in tools.good("kafka-delegation-tokens", *at, *bob, "--describe", *owner).out
    scram = f'{MODULES}.scram.ScramLoginModule required username="{token_id}" password="{secret}" tokenauth="true";'
    by_token = properties(tmp_path, "token", "SCRAM-SHA-256", scram)
    topic = fresh("by-token")
    tools.good("kafka-topics", *at, "--command-config", by_token, "--create", "--topic", topic)
    assert topic in tools.good("kafka-topics", *at, "--command-config", by_token, "--list").lines
    refused = tools.run("kafka-delegation-tokens", *at, "--command-config", by_token, "--create", *renewer)
    assert refused.code == 1
    assert "not allowed" in refused.out + refused.err
    renewal = ("--renew", "--renew-time-period", "60000", "--hmac", secret)
    assert "Completed renew" in tools.good("kafka-delegation-tokens", *at, *bob, *renewal).out
    expiry = ("--expire", "--expiry-time-period", "-1", "--hmac", secret)
    tools.good("kafka-delegation-tokens", *at, *alice, *expiry)
    assert token_id not in tools.good("kafka-delegation-tokens", *at, *alice, "--describe", *owner).out
