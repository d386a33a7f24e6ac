"""What the replica of a node uses: requests to other nodes, and timers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ottla.base.promise import Promise
from ottla.wire.schema import Message

M = TypeVar("M", bound=Message)


class QuorumTransport(Protocol):
    """Sends requests to the controller listeners of other nodes."""

    def request(
        self, node_id: int, message: Message, response: type[M], *, timeout_s: float, versions: range | None
    ) -> Promise[M]: ...

    def set_address(self, node_id: int, host: str, port: int) -> None:
        """Set the address of a node, or replace it."""
        ...


class Timer(Protocol):
    def cancel(self) -> None: ...


class Timers(Protocol):
    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer: ...

    def call_soon(self, callback: Callable[[], None], /) -> Any: ...
