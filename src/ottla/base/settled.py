"""Waiting for a promise in a coroutine."""

from __future__ import annotations

import asyncio
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
