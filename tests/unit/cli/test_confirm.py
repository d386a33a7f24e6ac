"""Confirmation of destructive commands."""

from __future__ import annotations

import io

import pytest
import typer

from ottla.cli.confirm import confirmed
from ottla.cli.output import Output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


OUTPUT = Output("table")


def test_yes_needs_no_question() -> None:
    assert confirmed(OUTPUT, "Delete a", yes=True, dry_run=False)


def test_a_dry_run_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert not confirmed(OUTPUT, "Delete a", yes=True, dry_run=True)
    assert "nothing was changed" in capsys.readouterr().err


@pytest.mark.parametrize("typed", ["y\n", "YES\n"])
def test_the_user_agrees(
    typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    assert confirmed(OUTPUT, "Delete a", yes=False, dry_run=False)
    assert capsys.readouterr().err == "Delete a? [y/N] "


@pytest.mark.parametrize("stdin", [Terminal("\n"), Terminal("no\n"), Terminal(""), io.StringIO("y\n")])
def test_all_else_is_refused_with_exit_code_2(stdin: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(typer.Exit) as exited:
        confirmed(OUTPUT, "Delete a", yes=False, dry_run=False)
    assert exited.value.exit_code == 2
