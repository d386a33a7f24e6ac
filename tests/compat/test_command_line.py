"""The commands of `ottla` on Apache Kafka: the tests that run on Ottla, unchanged, and those of one node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers import KafkaPeer
from tests.compat.java_tools import JavaTools
from tests.support.command_line import CommandLine
from tests.support.console import console_for, request

pytestmark = pytest.mark.compat
ROOT = Path(__file__).resolve().parents[2]
SHARED = (
    "test_admin_groups",
    "test_admin_topics",
    "cli/test_checks",
    "cli/test_exit_codes",
    "cli/test_groups",
    "cli/test_records",
    "cli/test_topics",
    "cli/test_transactions",
    "test_read_records",
    "cli/test_record_commands",
)


@pytest.mark.parametrize("name", SHARED)
def test_the_tests_of_commands_pass_on_apache_kafka(kafka_jars: None, name: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--on-kafka", f"tests/integration/{name}.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]


def test_the_cluster_is_described(kafka: KafkaPeer, tmp_path: Path) -> None:
    ottla = CommandLine(kafka.bootstrap, tmp_path)
    assert ottla.json("cluster", "info")["brokers"] == 1
    (node,) = ottla.json("cluster", "nodes")
    assert (node["broker"], node["state"], node["role"]) == (1, "running", "active controller")
    quorum = ottla.json("cluster", "quorum")
    assert (quorum["leader"], [each["role"] for each in quorum["replicas"]]) == (1, ["leader"])
    (directory,) = ottla.json("cluster", "dirs")
    assert directory["state"] == "online"
    assert "No partition needs an election" in ottla.run("cluster", "elect")[0]
    ottla.run("cluster", "health")
    _, error = ottla.run("cluster", "kill", "1", "--yes", code=2)
    assert "only brokers of `ottla up`" in error


def test_a_share_group_is_listed_and_described(kafka: KafkaPeer, tools: JavaTools, tmp_path: Path) -> None:
    ottla = CommandLine(kafka.bootstrap, tmp_path)
    ottla.run("topics", "create", "shared", "-p", "1")
    arguments = ["--bootstrap-server", kafka.bootstrap, "--topic", "shared", "--group", "sharing"]
    tools.alone("kafka-console-share-consumer", *arguments, "--timeout-ms", "5000")
    listed = {each["group"]: each["type"] for each in ottla.json("groups", "list")}
    assert listed["sharing"] == "share"
    described = ottla.json("groups", "describe", "sharing")
    assert (described["group"], described["type"], described["partitions"]) == ("sharing", "share", [])
    for command in ("describe", "members"):
        ottla.run("groups", command, "sharing")
    with console_for(kafka.bootstrap) as console:
        for path in ("/groups", "/groups/sharing"):
            assert request(console, path).status == 200
