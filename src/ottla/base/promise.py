"""A result that is available later, without an event loop.

A promise is kept once, with a value or with an error, and then calls its listeners in the order in which they were
added; a listener that is added later is called immediately. Keeping a promise twice violates an invariant.

Concurrency: one thread. The network edge turns a promise into what its event loop awaits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

from ottla.base.errors import invariant

T = TypeVar("T")
Listener = Callable[[T | None, BaseException | None], None]


class Promise(Generic[T]):
    """A value of type T, or an error, available later."""

    __slots__ = ("_error", "_listeners", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._listeners: list[Listener[T]] = []

    @staticmethod
    def kept(value: T) -> Promise[T]:
        """A promise that is kept already."""
        promise: Promise[T] = Promise()
        promise.keep(value)
        return promise

    def keep(self, value: T) -> None:
        self._settle(value, None)

    def fail(self, error: BaseException) -> None:
        self._settle(None, error)

    def when_done(self, listener: Listener[T]) -> None:
        """Call `listener(value, error)` when the promise is settled; one of both is None."""
        if self.done:
            listener(self._value, self._error)
        else:
            self._listeners.append(listener)

    @property
    def error(self) -> BaseException | None:
        """The error of a promise that failed."""
        return self._error

    def result(self) -> T:
        """The value of a settled promise; raises its error."""
        invariant(self.done, "the result of a promise that is still open")
        if self._error is not None:
            raise self._error
        return cast(T, self._value)

    def _settle(self, value: T | None, error: BaseException | None) -> None:
        invariant(not self.done, "a promise is kept once")
        self.done, self._value, self._error = True, value, error
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(value, error)
