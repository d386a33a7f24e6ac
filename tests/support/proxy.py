"""A TCP proxy with bad manners: it cuts connections after the broker has worked and before it answers."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class CuttingProxy:
    """Forwards to `target`. Cuts a connection instead of forwarding every `every`-th piece of an answer.

    The broker has then done what was asked and the client does not know: the case that idempotent producing
    is for.
    """

    def __init__(self, target: int, *, every: int) -> None:
        self._target = target
        self._every = every
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pieces = 0
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self.cuts = 0
        self.polite = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for open_socket in self._sockets:
                _close(open_socket)

    def point_to(self, target: int) -> None:
        self._target = target

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                if self._listener.fileno() < 0:
                    return
                continue
            with self._lock:
                self._sockets += [client, server]
            threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                if answers and self._is_due():
                    break
                sink.sendall(piece)
        _close(source)
        _close(sink)

    def _is_due(self) -> bool:
        with self._lock:
            if self.polite:
                return False
            self._pieces += 1
            due = self._pieces % self._every == 0
            self.cuts += due
            return due


def _close(open_socket: socket.socket) -> None:
    with contextlib.suppress(OSError):
        open_socket.shutdown(socket.SHUT_RDWR)
    open_socket.close()
