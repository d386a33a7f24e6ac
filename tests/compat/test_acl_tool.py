"""kafka-acls of Apache Kafka 4.3.1 prints the same for Ottla and for Apache Kafka, both with an authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers import ONE_NODE, KafkaPeer
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from tests.compat.java_tools import JavaTools, Ran

pytestmark = pytest.mark.compat

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
Target = tuple[str, str]
COMMANDS = (
    (
        "--add --allow-principal User:alice --allow-principal User:bob --operation Read --topic orders",
        "two users",
    ),
    ("--add --allow-principal User:alice --operation Read --topic orders", "again"),
    (
        "--add --deny-principal User:eve --deny-host 10.0.0.1 --operation All --topic orders --group g",
        "denied",
    ),
    (
        "--add --allow-principal User:app --producer --topic orders --transactional-id tx --idempotent",
        "producer",
    ),
    ("--add --allow-principal User:app --consumer --topic orders --group app", "consumer"),
    ("--add --allow-principal User:both --producer --consumer --topic both --group both", "both"),
    (
        "--add --allow-principal User:team --operation All --topic team- --group team- "
        "--resource-pattern-type prefixed",
        "prefixes",
    ),
    ("--add --allow-principal User:ops --operation Alter --operation Describe --cluster", "cluster"),
    ("--add --allow-principal User:ops --operation CreateTokens --user-principal User:alice", "tokens"),
    ("--add --allow-principal User:* --operation Describe --topic *", "everything"),
    ("--list", "all"),
    ("--list --topic orders", "of a topic"),
    ("--list --topic team-a --resource-pattern-type match", "that apply to a topic"),
    ("--list --topic team- --resource-pattern-type any", "of a name"),
    ("--list --principal User:app", "of a user"),
    ("--list --group app --principal User:app", "of a group and a user"),
    ("--remove --force --allow-principal User:bob --operation Read --topic orders", "one"),
    ("--remove --force --topic team-a --resource-pattern-type match", "that apply to a topic"),
    ("--remove --force --allow-principal User:app --consumer --topic orders --group app", "consumer"),
    ("--list", "what is left"),
    ("--remove --force --topic orders", "of a topic"),
    (
        "--add --allow-principal User:alice --operation ClusterAction --topic orders",
        "not an operation of topics",
    ),
    ("--add --allow-principal alice --operation Read --topic orders", "no type"),
    ("--list", "at the end"),
)


@pytest.fixture(scope="module")
def controller_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def ottla(tmp_path_factory: pytest.TempPathFactory, controller_port: int) -> Iterator[BrokerProcess]:
    port = free_port()
    settings = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
    }
    home = tmp_path_factory.mktemp("acl-tool")
    with BrokerProcess(home / "ottla", ONE_NODE | AUTHORIZER | settings, port=port) as process:
        yield process


@pytest.fixture(scope="module")
def kafka_with_authorizer(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaPeer]:
    home: Path = tmp_path_factory.mktemp("acl-tool-kafka")
    with KafkaPeer(home / "kafka", AUTHORIZER) as peer:
        yield peer  # type: ignore[misc]


def printed(tools: JavaTools, at: Target, command: str) -> tuple[int, list[str]]:
    """Exit code and output. The tool prints resources and entries in the order of a hash table."""
    ran: Ran = tools.run("kafka-acls", *at, *command.split())
    lines = [line for line in ran.lines if not line.startswith(("\tat ", "java."))]
    return ran.code, sorted(lines)


def test_the_tool_prints_the_same(
    tools: JavaTools, ottla: BrokerProcess, kafka_with_authorizer: KafkaPeer, controller_port: int
) -> None:
    to_brokers = (
        ("--bootstrap-server", ottla.bootstrap),
        ("--bootstrap-server", kafka_with_authorizer.bootstrap),
    )
    to_controllers = (
        ("--bootstrap-controller", f"127.0.0.1:{controller_port}"),
        ("--bootstrap-controller", f"127.0.0.1:{kafka_with_authorizer.controller_port}"),
    )
    seen = 0
    for ours, theirs in (to_brokers, to_controllers):
        for command, what in COMMANDS:
            expected = printed(tools, theirs, command)
            assert printed(tools, ours, command) == expected, what
            seen += len(expected[1])
        for at in (ours, theirs):
            for kind in ("--topic=*", "--cluster", "--group=g", "--group=both", "--topic=both"):
                tools.good("kafka-acls", *at, "--remove", "--force", kind)
    assert seen > 200, "the commands print entries"


def test_without_an_authorizer_the_tool_fails(tools: JavaTools, broker: BrokerProcess) -> None:
    ran = tools.run("kafka-acls", "--bootstrap-server", broker.bootstrap, "--list")
    assert ran.code == 1
    assert "SecurityDisabledException" in ran.out
