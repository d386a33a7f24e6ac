"""Waiting in a coroutine: for a promise, or for the next iteration of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from types import coroutine
from typing import TypeVar

from ottla.base.promise import Promise

R = TypeVar("R")


async def settled(promise: Promise[R]) -> R:
    """Wait for a promise and return its value; raises its error."""
    if promise.done:
        return promise.result()
    done = asyncio.get_running_loop().create_future()
    promise.when_done(lambda value, error: None if done.done() else done.set_result(None))
    await done
    return promise.result()


@coroutine
def next_iteration() -> Generator[None, None, None]:
    """Continue in the next iteration of the event loop, so that a long computation does not block other requests."""
    yield
