"""Exit codes of all commands: 0 done, 1 failed, 2 refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.commands import COMMANDS, MODULES
from ottla.local.ports import free_port
from tests.support.command_line import CommandLine

MISSING = "missing"
SERVERS = ("up", "broker", "demo", "console", "pipelines", "matches")
"""Commands that run until they are stopped, or that have no request to a cluster; they have tests of their own."""

NOT_THERE = [
    "topics describe missing",
    "topics delete missing --yes",
    "topics grow missing --to 3 --yes",
    "topics configs missing",
    "topics configs missing --set segment.ms=1000",
    "topics trim missing --before end --yes",
    "topics offsets missing --at start",
    "topics clone missing copy",
    "consume missing",
    "consume missing-*",
    "consume missing -g group",
    "consume TOPIC -p 9",
    "consume TOPIC -O 500",
    "produce TOPIC -v 1 -p 9",
    "groups describe missing",
    "groups members missing",
    "groups delete missing --yes",
    "groups delete-offsets missing -t TOPIC --yes",
    "groups reset missing --to end -t missing --yes",
    "groups reset missing --to end -t TOPIC -p 9 --yes",
    "groups reset missing --from-group missing-too --yes",
    "transactions describe missing",
    "transactions producers missing",
    "transactions abort missing --yes",
    "transactions abort -t TOPIC -p 0 --start-offset 5 --yes",
    "cluster elect --topic missing",
    "cluster kill 1 --yes",
    "cluster restart 1 --yes",
    "contexts use missing",
    "contexts delete missing",
    "topics list -c missing",
]
INVALID = [
    "topics list -o yaml",
    "topics list --timeout never",
    "topics offsets TOPIC --at yesterday",
    "topics create",
    "consume TOPIC --where (",
    "consume TOPIC --schema missing.avsc",
    "consume TOPIC --decode avro",
    "topics list -b ,",
    "produce TOPIC -v 1 --null",
    "groups reset group",
    "transactions list --state Open",
    "top --every 0s",
    "check --max-lag 2",
    "completion ksh",
    "secure init /dev/null/folder",
    "topics delete TOPIC",
    "missing",
]
FAILED_WITHOUT_CONNECTION = [
    "topics list",
    "topics describe missing",
    "produce missing -v 1",
    "consume missing",
    "consume missing -g group",
    "groups list",
    "groups describe missing",
    "transactions list",
    "cluster info",
    "top --count 1",
    "check",
    "doctor",
]
DONE = [
    "topics list",
    "topics delete TOPIC --dry-run",
    "groups list",
    "transactions list",
    "transactions hanging",
    "cluster info",
    "top --count 1",
    "check",
    "doctor",
    "contexts list",
    "completion bash",
    "produce TOPIC -v 1",
    "consume TOPIC",
]


def run(ottla: CommandLine, command: str, topic: str, code: int) -> None:
    _, error = ottla.run(*command.replace("TOPIC", topic).split(), code=code)
    assert "Traceback" not in error


@pytest.mark.parametrize("command", NOT_THERE)
def test_what_does_not_exist_is_refused(ottla: CommandLine, topic: str, command: str) -> None:
    run(ottla, command, topic, 2)


@pytest.mark.parametrize("command", INVALID)
def test_invalid_arguments_and_missing_confirmation_are_refused(
    ottla: CommandLine, topic: str, command: str
) -> None:
    run(ottla, command, topic, 2)


@pytest.mark.parametrize("command", FAILED_WITHOUT_CONNECTION)
def test_a_command_without_a_connection_fails(tmp_path: Path, command: str) -> None:
    run(CommandLine(f"127.0.0.1:{free_port()}", tmp_path), command, MISSING, 1)


@pytest.mark.parametrize("command", DONE)
def test_a_command_that_is_done(ottla: CommandLine, topic: str, command: str) -> None:
    run(ottla, command, topic, 0)


def test_the_tables_have_all_commands() -> None:
    listed = {each.split()[0] for each in (*NOT_THERE, *INVALID, *FAILED_WITHOUT_CONNECTION, *DONE)}
    assert set(COMMANDS) - set(SERVERS) == listed - {MISSING}
    assert set(MODULES) == set(COMMANDS)
