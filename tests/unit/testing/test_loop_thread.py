"""An event loop in a thread."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ottla.testing.loop_thread import LoopThread


async def _name_of_thread() -> str:
    return threading.current_thread().name


async def _fail() -> None:
    raise ValueError("broken")


def test_coroutines_run_on_the_thread_and_their_results_and_errors_are_returned() -> None:
    thread = LoopThread("loop")
    try:
        assert thread.call(_name_of_thread()) == "loop"
        with pytest.raises(ValueError, match="broken"):
            thread.call(_fail())
    finally:
        thread.shut_down()
    assert thread.loop.is_closed()
    assert "loop" not in [each.name for each in threading.enumerate()]


def test_calls_of_several_threads_run_on_one_loop() -> None:
    thread = LoopThread("loop")
    event = asyncio.Event()

    async def _set() -> None:
        event.set()

    waiter = threading.Thread(target=lambda: thread.call(event.wait()))
    waiter.start()
    thread.call(_set())
    waiter.join()
    thread.shut_down()
