"""A TCP proxy that keeps everything that it forwards."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class Sniffer:
    """Forwards connections to a port of this machine; `seen` is what the server has sent."""

    def __init__(self, port: int = 0) -> None:
        self.target = 0
        self.seen = bytearray()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
                self._sockets += [client, server]
                threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, keep: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 18):
                if keep:
                    self.seen += piece
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
