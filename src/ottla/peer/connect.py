"""Port for opening outbound connections.

`ottla.peer.sockets` implements it with the operating system's sockets, `ottla.testing.sim` with simulated ones.

Every implementation keeps this contract:

- `connect` returns at once. It resolves names, and performs the connection attempt, without blocking the event loop.
- It calls `on_done(sock, None)` or `on_done(None, error)` exactly once, in a later iteration of the node's event loop
  and never within the call itself. After `cancel` it calls nothing and closes the socket.
- `sock` is connected, non-blocking and has TCP_NODELAY set. The caller owns it. Callers use `recv_into`, `send`,
  `sendmsg`, `close`, and `add_reader`, `remove_reader`, `add_writer` and `remove_writer` of the event loop.
- `error` is a ConnectionRefusedError if nothing listens at the address, any other OSError otherwise. An attempt that
  gets no response at all (a black hole) may stay open for minutes: the caller limits the time and cancels.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Protocol

OnConnect = Callable[[socket.socket | None, OSError | None], None]
"""Called with the connected socket, or with the error."""
Cancel = Callable[[], None]
"""Abandons a connection attempt. It has no effect once the attempt is complete."""


class Connect(Protocol):
    """Opens connections to other nodes."""

    def __call__(self, host: str, port: int, on_done: OnConnect, /) -> Cancel:
        """Start to open a connection to `host:port`, and return the function that cancels the attempt."""
        ...
