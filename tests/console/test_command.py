"""The command `console`: options, the printed address, and a machine without the packages of the extra."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest
from rich.console import Console
from typer.testing import CliRunner

from ottla.cli.local import console as command
from ottla.cli.local.console import console_of
from tests.support.console import ShownCluster

OTTLA = [sys.executable, "-m", "ottla.cli.main"]


def test_the_command_prints_its_address_and_stops_cleanly(cluster: ShownCluster) -> None:
    arguments = ["console", "-b", cluster.local.bootstrap, "--read-only"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [*OTTLA, *arguments], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.match(r"Console: http://127\.0\.0\.1:\d+/", line)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_another_address_without_a_password_is_refused() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "OTTLA_CONSOLE_PASSWORD"}
    done = subprocess.run(
        [*OTTLA, "console", "--host", "0.0.0.0"],  # noqa: S104
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 2
    assert "OTTLA_CONSOLE_PASSWORD" in done.stderr


def test_without_the_packages_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import typer

    monkeypatch.setattr(command, "missing_packages", lambda: ["uvicorn"])
    app = typer.Typer()
    app.command()(command.console)
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 2
    assert "pip install 'ottla[console]'" in result.output


def test_a_local_cluster_runs_without_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "missing_packages", lambda: ["uvicorn"])
    terminal = Console(record=True, width=200)
    with console_of(terminal, "127.0.0.1:1"):
        pass
    assert "pip install 'ottla[console]'" in terminal.export_text()
