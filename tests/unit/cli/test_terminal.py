"""Signals that ask for the end, and those that somebody has switched off."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.cli.terminal import handled, make_folder


def test_the_end_of_the_terminal_means_nothing_under_nohup() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handled(lambda number, _: seen.append(number), signal.SIGUSR1):
            for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1):
                os.kill(os.getpid(), number)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert seen == [signal.SIGTERM, signal.SIGUSR1]


def test_handlers_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with handled(lambda *_: None):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_folder_that_cannot_be_is_told_with_its_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    for folder, why in ((taken, "File exists"), (taken / "below", "Not a directory")):
        with pytest.raises(LocalError) as told:
            make_folder("--state", folder)
        assert str(told.value) == f"--state: {folder} can't be made a folder: {why}"
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(LocalError, match="--data: .* can't be written to"):
        make_folder("--data", tmp_path)


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    for _ in range(2):
        make_folder("--state", tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
