"""The help of commands: one format, whole examples, nothing that belongs to typer."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from ottla.cli.commands import COMMANDS, CommandTable
from ottla.cli.help import examples, lines_of
from ottla.cli.main import _app


def groups_and_commands() -> list[str]:
    table = CommandTable(name="ottla")
    found = []
    for name in COMMANDS:
        command: Any = table.get_command(typer.Context(table), name)
        found += [name, *(f"{name} {each}" for each in getattr(command, "commands", ()))]
    return [name for name in found if name != "broker"]


def help_of(name: str, columns: int) -> str:
    run = CliRunner().invoke(
        _app(), [*name.split(), "--help"], env={"COLUMNS": str(columns)}, prog_name="ottla"
    )
    assert run.exit_code == 0, run.output
    return run.output


@pytest.mark.parametrize("name", groups_and_commands())
@pytest.mark.parametrize("columns", [60, 80])
def test_every_help_is_plain_and_has_examples(name: str, columns: int) -> None:
    text = help_of(name, columns)
    description, shown = text.split("\nExamples:\n")
    assert text.startswith(f"Usage: ottla {name} ")
    assert shown.splitlines()
    assert all(line.startswith("  ") and "ottla" in line for line in shown.splitlines())
    assert "completion" not in description or name == "completion"
    for unwanted in ("╭", "<bool>", "<str>", "<int"):
        assert unwanted not in description


def test_the_help_of_a_group_has_an_example_of_each_command() -> None:
    shown = help_of("topics", 80).split("Examples:\n")[1]
    assert "ottla topics trim orders --before @-7d\n" in shown
    assert "ottla topics clone" in shown


def test_global_options_are_a_section_of_their_own() -> None:
    text = help_of("topics describe", 80)
    assert text.index("Options:") < text.index("Global options:") < text.index("--bootstrap HOSTS")
    assert "  TOPIC  Name of the topic." in text


def test_examples_are_lines_of_an_epilog() -> None:
    commands = ["ottla up", "ottla consume 'a[0]'"]
    assert lines_of(examples(*commands)) == commands
    assert lines_of(None) == []


def test_the_help_of_a_command_does_not_import_rich() -> None:
    code = (
        "import sys\nfrom ottla.cli.main import _app\n"
        "try: _app()(['topics', '--help'], prog_name='ottla')\nexcept SystemExit: pass\n"
        "assert 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
