"""Event loop of one simulated process: the part of asyncio's loop that nodes and simulated clients use.

Each process has its own loop on its host. Killing the process discards everything it had scheduled. Pausing it delays
all of that while time continues. A method of asyncio's loop that is not defined here raises AttributeError: code that
needs it cannot run in the simulation.

Sockets are those of `network`. They notify the loop when they become readable or writable. Callbacks are repeated as
long as the socket stays ready, as with a level-triggered selector.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from math import ceil
from typing import Any, Protocol, cast

from ottla.testing.sim.kernel.events import US_PER_MS, US_PER_SECOND, Kernel, Owner, Trace
from ottla.testing.sim.kernel.pace import EVEN, Pace


class Pollable(Protocol):
    """A socket of the simulation, as a loop uses it."""

    def readable(self) -> bool: ...

    def writable(self) -> bool: ...

    def watch(self, loop: SimLoop) -> None:
        """Call `SimLoop.notify` whenever the state of the socket changes."""


class SimLoop(Owner):
    """One simulated process with its event loop."""

    def __init__(self, kernel: Kernel, name: str, trace: Trace, pace: Pace = EVEN) -> None:
        super().__init__(name, trace)
        self.kernel = kernel
        self._pace = None if pace is EVEN else pace
        self._pace_rng = kernel.stream(f"pace of {name}")
        self.asyncio = cast(asyncio.AbstractEventLoop, self)
        """The same object, for code that is written for asyncio."""
        self.on_error: Callable[[dict[str, Any]], None] = self._unexpected
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._readers: dict[Pollable, asyncio.Handle] = {}
        self._writers: dict[Pollable, asyncio.Handle] = {}
        self._notified: set[Pollable] = set()

    def terminate(self) -> None:
        """End the process, whatever it was doing. `Host.kill_process` also closes its sockets."""
        self.alive = False
        self._readers.clear()
        self._writers.clear()

    def pause(self, milliseconds: float) -> None:
        until_us = self.kernel.now_us + int(milliseconds * US_PER_MS)
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
        """Do nothing: a cancelled handle is skipped when it is due."""

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
        if self._pace is not None:
            busy_until_us = self.kernel.now_us + self._pace.event_us(self._pace_rng)
            self.paused_until_us = max(self.paused_until_us, busy_until_us)

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
            return  # the process is dead, or its host loses power in this event
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

    def notify(self, fd: Pollable) -> None:
        """Check the socket in the next turn, because its state has changed."""
        if fd not in self._notified and self.alive:
            self._notified.add(fd)
            self.kernel.schedule(self.kernel.now_us, self, lambda: self._serve(fd))

    def _serve(self, fd: Pollable) -> None:
        self._notified.discard(fd)
        busy = False
        for table, ready in ((self._readers, fd.readable), (self._writers, fd.writable)):
            handle = table.get(fd)
            if handle is not None and ready():
                busy = True
                self._run(handle)
        if busy and ((fd in self._readers and fd.readable()) or (fd in self._writers and fd.writable())):
            self.notify(fd)
