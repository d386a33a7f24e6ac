"""The table of commands: every command can be loaded, is described alike in the table, and has examples."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from ottla import __version__
from ottla.cli.commands import COMMANDS, CommandTable
from ottla.cli.main import _app

NOT_NEEDED = ("rich", "confluent_kafka", "ottla.client", "ottla.wire", "ottla.admin.session", "asyncio")
"""What the help must not import: it would take longer than the help itself."""


def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """All commands without subcommands, with their full names."""
    if hasattr(command, "commands"):
        for each, below in command.commands.items():
            yield from leaves(below, f"{name} {each}")
    else:
        yield name, command


ALL = [
    found
    for name in COMMANDS
    for found in leaves(CommandTable(name="ottla").get_command(typer.Context(CommandTable()), name), name)
]


@pytest.mark.parametrize(("name", "command"), ALL, ids=[name for name, _ in ALL])
def test_every_command_has_help_and_examples(name: str, command: Any) -> None:
    if name == "broker":
        return
    assert command.help
    assert f"ottla {name}" in (command.epilog or ""), "an example shows the command itself"


EXAMPLES = [
    (name, command, line)
    for name, command in ALL
    for line in (command.epilog or "").splitlines()
    if line.startswith(f"ottla {name}")
]


@pytest.mark.parametrize(("name", "command", "line"), EXAMPLES, ids=[line for *_, line in EXAMPLES])
def test_every_example_can_be_parsed(name: str, command: Any, line: str) -> None:
    words = list(takewhile(lambda word: word not in ("|", "||", "<", ">"), shlex.split(line)))
    context = command.make_context(name, words[1 + len(name.split()) :])
    assert context.params is not None


def test_the_help_lists_all_commands() -> None:
    text = CliRunner().invoke(_app(), ["--help"]).output
    for name, summary in COMMANDS.items():
        assert f"  {name} " in text
        assert summary.split()[0] in text


def test_the_help_imports_little() -> None:
    """Also measured: below 0.2 s on an idle machine."""
    code = (
        "import sys\nfrom ottla.cli.main import _app\n"
        "try: _app()(['--help'], prog_name='ottla')\nexcept SystemExit: pass\n"
        f"found = [each for each in {NOT_NEEDED!r} if each in sys.modules]\nassert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_closed_standard_output_is_no_error(tmp_path: Path) -> None:
    command = f"exec {shlex.quote(sys.executable)} -m ottla.cli.main contexts list >&-"
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr


def test_the_version() -> None:
    assert CliRunner().invoke(_app(), ["--version"]).output == f"ottla {__version__}\n"


def test_a_misspelt_command_is_refused_with_a_suggestion() -> None:
    result = CliRunner().invoke(_app(), ["topcs"])
    assert result.exit_code == 2
    assert "Did you mean 'topics'" in result.output


def test_contexts_are_added_used_and_deleted(tmp_path: Path) -> None:
    def run(*arguments: str, code: int = 0) -> str:
        environment: dict[str, str | None] = {
            "XDG_CONFIG_HOME": str(tmp_path),
            "OTTLA_BOOTSTRAP": None,
            "KAFKA_BOOTSTRAP_SERVERS": None,
            "OTTLA_CONTEXT": None,
        }
        result = CliRunner().invoke(_app(), arguments, env=environment)
        assert result.exit_code == code, result.output
        return result.output

    assert "There are no contexts" in run("contexts", "list")
    run("contexts", "add", "one", "-b", "h:1", "-X", "client.id=c")
    run("contexts", "use", "one")
    assert run("-o", "csv", "contexts", "list") == "current,name,bootstrap,settings\ntrue,one,h:1,client.id\n"
    assert "context one" in run("contexts", "show")
    run("contexts", "delete", "one")
    assert "the default address" in run("contexts", "show")
    run("contexts", "use", "one", code=2)
