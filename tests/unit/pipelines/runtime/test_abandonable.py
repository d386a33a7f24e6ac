"""Calls that a stop abandons."""

from __future__ import annotations

import threading

import pytest

from ottla.pipelines.java.process import Stopped
from ottla.pipelines.runtime.abandonable import until_stopped


def test_results_and_errors_are_returned() -> None:
    stop = threading.Event()
    assert until_stopped(lambda: 3, stop) == 3
    with pytest.raises(ZeroDivisionError):
        until_stopped(lambda: 1 // 0, stop)


def test_a_call_that_blocks_is_abandoned() -> None:
    stop, end = threading.Event(), threading.Event()
    threading.Timer(0.01, stop.set).start()
    with pytest.raises(Stopped):
        until_stopped(end.wait, stop)
    end.set()


def test_a_call_that_has_ended_is_not_abandoned() -> None:
    stop = threading.Event()

    def work() -> str:
        stop.set()
        return "done"

    assert until_stopped(work, stop) == "done"
