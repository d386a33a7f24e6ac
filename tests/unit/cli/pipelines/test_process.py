"""The start of a pipeline process is not interrupted by signals."""

from __future__ import annotations

import os
import signal

import pytest

from ottla.cli.pipelines.process import run_uninterrupted


def test_a_signal_handler_that_raises_does_not_interrupt_the_action() -> None:
    done = []

    def action() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        done.append(True)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_uninterrupted(action)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert done == [True]
