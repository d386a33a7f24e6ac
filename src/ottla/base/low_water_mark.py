"""The low-water mark of a socket: how many bytes must have arrived before the event loop is notified (SO_RCVLOWAT).

Bytes of a large frame arrive in many segments. With a mark, the event loop is notified once for most of them, instead
of once for every few segments. The kernel enlarges the receive buffer of the socket to hold that many bytes, and
notifies the event loop earlier if it lacks memory, or if the other side has ended the connection.
"""

from __future__ import annotations

import socket
from typing import Final

MARK_BYTES_MAX: Final = 1 << 20


class LowWaterMark:
    """The mark of one socket; `count` is what was set last, 1 at first."""

    __slots__ = ("_sock", "count")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.count = 1

    def set(self, count: int) -> None:
        """Let the event loop be notified of `count` bytes, at most `MARK_BYTES_MAX`."""
        if count != self.count:
            self.count = count
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, min(count, MARK_BYTES_MAX))
