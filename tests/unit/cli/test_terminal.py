"""Signals that ask for the end, and those that somebody has switched off."""

from __future__ import annotations

import os
import signal

from ottla.cli.terminal import handled


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
