"""Clients and tools in Java and Go on a secured cluster of three brokers, as `ottla up --secure` starts it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.local.cluster import LocalCluster
from ottla.local.secure.folder import SecureFolder
from tests.compat.clients.build import go_secured
from tests.compat.java_tools import JavaTools, Ran

pytestmark = pytest.mark.compat
LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True)
class Secured:
    """A running cluster, its credentials, and tools that use them."""

    cluster: LocalCluster
    folder: SecureFolder
    tools: JavaTools

    def settings(self, user: str = "admin", password: str = "") -> str:
        """A file with the settings of a Java client for a user."""
        path = self.folder.path / "admin-java.properties"
        if user == "admin":
            return str(path)
        lines = [line for line in path.read_text().splitlines() if not line.startswith("sasl.jaas")]
        made = self.folder.path / f"{user}-{password}.properties"
        jaas = f'sasl.jaas.config={LOGIN} required username="{user}" password="{password}";'
        made.write_text("\n".join([*lines, jaas]) + "\n")
        return str(made)

    def run(self, tool: str, *arguments: str, settings: str | None = None, stdin: str = "") -> Ran:
        chosen = settings or self.settings()
        given = ("--bootstrap-server", self.cluster.bootstrap, *arguments)
        return self.tools.run(tool, *given, "--command-config", chosen, stdin=stdin)


@pytest.fixture(scope="module")
def secured(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    home: Path = tmp_path_factory.mktemp("secured")
    folder = SecureFolder(home / "secure")
    tools = JavaTools()
    try:
        with LocalCluster(home / "data", 3, secure=folder) as cluster:
            yield Secured(cluster, folder, tools)
    finally:
        tools.close()


def test_the_administrator_of_java_creates_describes_produces_and_consumes(secured: Secured) -> None:
    assert secured.run("kafka-topics", "--create", "--topic", "java", "--partitions", "3").code == 0
    described = secured.run("kafka-topics", "--describe", "--topic", "java")
    assert described.out.count("Isr: ") == 3
    settings = secured.settings()
    produced = secured.tools.alone(
        "kafka-console-producer", "--bootstrap-server", secured.cluster.bootstrap, "--topic", "java",
        "--command-config", settings, stdin="one\ntwo\n",
    )  # fmt: skip
    assert produced.code == 0, produced.err
    consumed = secured.tools.alone(
        "kafka-console-consumer", "--bootstrap-server", secured.cluster.bootstrap, "--topic", "java",
        "--command-config", settings, "--from-beginning", "--max-messages", "2", "--timeout-ms", "30000",
    )  # fmt: skip
    assert sorted(consumed.lines) == ["one", "two"], consumed.err


def test_a_new_user_gets_exactly_the_rights_that_it_is_given(secured: Secured) -> None:
    add = "SCRAM-SHA-512=[iterations=4096,password=a-secret]"
    created = secured.run(
        "kafka-configs", "--alter", "--add-config", add, "--entity-type", "users", "--entity-name", "alice"
    )
    assert created.code == 0, created.err
    alice = secured.settings("alice", "a-secret")
    assert secured.run("kafka-topics", "--list", settings=alice).out.strip() == ""
    refused = secured.run("kafka-topics", "--create", "--topic", "hers", settings=alice)
    assert refused.code != 0
    assert "does not have the right CREATE" in refused.out
    granted = secured.run(
        "kafka-acls", "--add", "--allow-principal", "User:alice", "--operation", "All", "--topic", "hers"
    )
    assert granted.code == 0, granted.err
    assert secured.run("kafka-topics", "--create", "--topic", "hers", settings=alice).code == 0
    assert secured.run("kafka-topics", "--list", settings=alice).out.split() == ["hers"]


def test_a_wrong_password_is_refused(secured: Secured) -> None:
    wrong = secured.run("kafka-topics", "--list", settings=secured.settings("mallory", "wrong"))
    assert wrong.code != 0
    assert "invalid credentials" in (wrong.out + wrong.err).lower()


def test_franz_go_produces_and_consumes(secured: Secured) -> None:
    assert secured.run("kafka-topics", "--create", "--topic", "go").code == 0
    password = secured.folder.read_client_settings()["sasl.password"]
    authority = str(secured.folder.authority_certificate)
    ran = subprocess.run(
        [*go_secured(), secured.cluster.bootstrap, authority, "admin", "go"],
        input=password, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout.strip()) == (0, "from franz-go"), ran.stderr
