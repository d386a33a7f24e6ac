"""The commands of `ottla` on Apache Kafka: the tests that run on Ottla, unchanged, and those of one node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers import KafkaPeer
from tests.support.command_line import CommandLine

pytestmark = pytest.mark.compat
ROOT = Path(__file__).resolve().parents[2]
SHARED = (
    "test_admin_groups",
    "test_admin_topics",
    "test_cli_checks",
    "test_cli_groups",
    "test_cli_records",
    "test_cli_topics",
    "test_cli_transactions",
    "test_read_records",
    "test_record_commands",
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
