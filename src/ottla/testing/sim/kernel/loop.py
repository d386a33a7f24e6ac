"""An event loop in virtual time: what code written for asyncio sees of the kernel.

Each process of the simulation (a node's life, a client's life) has a loop of its own. Killing it makes all that it
had scheduled vanish; pausing it delays all of that, while time goes on. Only what brokers and simulated clients use
is here; anything else raises, which is the point.

Sockets are those of `network`: they tell the loop when they become readable or writable, and callbacks are repeated
as long as they stay so, as with a selector.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from math import ceil
from typing import Any, Protocol, cast

from ottla.testing.sim.kernel.events import US_PER_SECOND, Kernel


class Watched(Protocol):
    """A socket of the simulation."""

    def readable(self) -> bool: ...

    def writable(self) -> bool: ...

    def watch(self, loop: SimLoop) -> None:
        """Tell `loop` (`SimLoop.poke`) whenever something changed."""


class SimLoop:
    """The loop of one simulated process."""

    def __init__(self, kernel: Kernel, name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.asyncio = cast(asyncio.AbstractEventLoop, self)
        """The same for whoever was written for asyncio."""
        self.alive = True
        self.paused_until_us = 0
        self.on_error: Callable[[dict[str, Any]], None] = self._unexpected
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._readers: dict[Watched, asyncio.Handle] = {}
        self._writers: dict[Watched, asyncio.Handle] = {}
        self._notified: set[Watched] = set()

    # Life

    def kill(self) -> None:
        """The process is gone, in the middle of whatever it did."""
        self.alive = False
        self._readers.clear()
        self._writers.clear()

    def pause(self, milliseconds: float) -> None:
        until_us = self.kernel.now_us + int(milliseconds * 1000)
        self.paused_until_us = max(self.paused_until_us, until_us)

    # Scheduling

    def time(self) -> float:
        return self.kernel.now_us / US_PER_SECOND

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self.asyncio, context)
        self._enqueue(self.kernel.now_us, handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self.asyncio, context)
        self._enqueue(ceil(when * US_PER_SECOND), handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing to do: a cancelled handle is skipped when its time comes."""

    def _enqueue(self, at_us: int, handle: asyncio.Handle) -> None:
        if self.alive:
            self.kernel.schedule(at_us, self, lambda: self._run(handle))

    def _run(self, handle: asyncio.Handle) -> None:
        if handle.cancelled():
            return
        asyncio._set_running_loop(self.asyncio)
        try:
            handle._run()
        finally:
            asyncio._set_running_loop(None)

    # Futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self.asyncio)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self.asyncio, name=name or self.name, context=context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self.alive

    def is_closed(self) -> bool:
        return not self.alive

    # Errors

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        self._handler = handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not self.alive or (error is not None and not isinstance(error, Exception)):
            return  # a dead process: found by the garbage collector, or the power is just going
        if self._handler is not None:
            self._handler(self.asyncio, context)
        self.on_error(context)

    def _unexpected(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.kernel.violated("no process fails", f"{self.name}: {context.get('message')}: {error!r}")

    # Sockets

    def add_reader(self, fd: Any, callback: Callable[..., object], *args: Any) -> None:
        self._readers[fd] = asyncio.Handle(callback, args, self.asyncio)
        fd.watch(self)
        self.notify(fd)

    def remove_reader(self, fd: Any) -> bool:
        return self._readers.pop(fd, None) is not None

    def add_writer(self, fd: Any, callback: Callable[..., object], *args: Any) -> None:
        self._writers[fd] = asyncio.Handle(callback, args, self.asyncio)
        fd.watch(self)
        self.notify(fd)

    def remove_writer(self, fd: Any) -> bool:
        return self._writers.pop(fd, None) is not None

    def notify(self, fd: Watched) -> None:
        """Something about a socket changed: look at it in the next turn."""
        if fd not in self._notified and self.alive:
            self._notified.add(fd)
            self.kernel.schedule(self.kernel.now_us, self, lambda: self._serve(fd))

    def _serve(self, fd: Watched) -> None:
        self._notified.discard(fd)
        busy = False
        for table, ready in ((self._readers, fd.readable), (self._writers, fd.writable)):
            handle = table.get(fd)
            if handle is not None and ready():
                busy = True
                self._run(handle)
        if busy and ((fd in self._readers and fd.readable()) or (fd in self._writers and fd.writable())):
            self.notify(fd)
