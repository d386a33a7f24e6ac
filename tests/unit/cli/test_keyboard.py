"""Keys of a terminal, one at a time."""

from __future__ import annotations

import os
import pty
import signal
import sys
import termios

import pytest

from ottla.cli.keyboard import keyboard


def test_keys_are_read_without_enter_and_the_mode_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    control, terminal = pty.openpty()
    with os.fdopen(terminal) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        before = termios.tcgetattr(terminal)
        with keyboard() as keys:
            assert not termios.tcgetattr(terminal)[3] & termios.ICANON
            os.write(control, b"k1")
            assert (keys.read(30), keys.read(30)) == ("k", "1")
            assert keys.read(0) == ""
        assert termios.tcgetattr(terminal) == before
    os.close(control)


def test_the_mode_is_set_again_when_the_process_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    control, terminal = pty.openpty()
    with os.fdopen(terminal) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        before = termios.tcgetattr(terminal)
        with keyboard() as keys:
            termios.tcsetattr(terminal, termios.TCSANOW, before)  # as the shell does
            signal.raise_signal(signal.SIGCONT)
            os.write(control, b"k")
            assert keys.read(30) == "k"
        assert termios.tcgetattr(terminal) == before
        assert signal.getsignal(signal.SIGCONT) is signal.SIG_DFL
    os.close(control)


def test_without_a_terminal_there_are_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as stream:  # noqa: PTH123 - not a path of a file
        monkeypatch.setattr(sys, "stdin", stream)
        with keyboard() as keys:
            assert keys.read(0) == ""
    monkeypatch.setattr(sys, "stdin", None)
    with keyboard() as keys:
        assert keys.read(0) == ""
