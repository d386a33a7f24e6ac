"""A pipeline's process is known whatever interrupts its start."""

from __future__ import annotations

import os
import signal

import pytest

from ottla.cli.pipeline_process import undisturbed


def test_a_signal_does_not_cut_off_what_must_be_done() -> None:
    done = []

    def action() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        done.append(True)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            undisturbed(action)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert done == [True]
