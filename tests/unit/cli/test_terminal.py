"""Signals that stop a command, and signals that are ignored."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

from ottla.base.errors import LocalError
from ottla.cli.terminal import make_folder, program, signal_handlers, stop_on_signals


def test_the_end_of_the_terminal_means_nothing_under_nohup() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signal_handlers(lambda number, _: seen.append(number), signal.SIGUSR1):
            for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1):
                os.kill(os.getpid(), number)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert seen == [signal.SIGTERM, signal.SIGUSR1]


def test_handlers_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with signal_handlers(lambda *_: None):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_directory_that_cannot_be_created_is_reported_with_its_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    for folder, why in ((taken, "File exists"), (taken / "below", "Not a directory")):
        with pytest.raises(LocalError) as raised:
            make_folder("--state", folder)
        assert str(raised.value) == f"--state: cannot create the directory {folder}: {why}"
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(LocalError, match=r"--data: no permission to write to the directory"):
        make_folder("--data", tmp_path)


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    for _ in range(2):
        make_folder("--state", tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("has_console", [True, False])
def test_a_signal_requests_a_stop_and_a_second_one_interrupts(
    number: signal.Signals, has_console: bool
) -> None:
    stop, output = threading.Event(), io.StringIO()
    console = Console(file=output)
    with stop_on_signals(stop, console if has_console else None):
        signal.raise_signal(number)
        assert stop.is_set()
        assert output.getvalue() == ("Stopping ...\n" if has_console else "")
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_a_signal_during_printing_requests_a_stop() -> None:
    class Busy(io.StringIO):
        def write(self, text: str) -> int:
            raise RuntimeError("reentrant call inside <_io.BufferedWriter>")

    stop = threading.Event()
    with stop_on_signals(stop, Console(file=Busy())):
        signal.raise_signal(signal.SIGTERM)
    assert stop.is_set()


def test_the_program_is_named_as_the_user_can_type_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "bin" / "ottla"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setattr(sys, "argv", ["bin/ottla", "demo"])
    assert program() == "bin/ottla"
    monkeypatch.setenv("PATH", str(script.parent))
    assert program() == "ottla"
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert program() == "ottla"
    monkeypatch.setattr(sys, "argv", ["/x/ottla/cli/main.py"])
    assert program() == f"{sys.executable} -m ottla.cli.main"
