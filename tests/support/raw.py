"""A client that sends given bytes and returns the response."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from ottla.wire import codec
from ottla.wire.frames import parse_response_header, request_frame
from ottla.wire.schema import Message

R = TypeVar("R", bound=Message)

TIMEOUT_S = 20.0


class Closed:
    """The broker closed the connection without an answer."""

    def __repr__(self) -> str:
        return "CLOSED"


CLOSED = Closed()


@dataclass(frozen=True)
class Address:
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        host, port = text.rsplit(":", 1)
        return cls(host.strip("[]"), int(port))


class RawClient:
    """One connection. `frame` and `send` never look at what they carry."""

    def __init__(self, address: Address, source: str = "") -> None:
        self._socket = socket.create_connection(
            (address.host, address.port), timeout=TIMEOUT_S, source_address=(source, 0) if source else None
        )
        self._correlation = count(1)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def set_timeout(self, seconds: float) -> None:
        """How long an answer may take from now on."""
        self._socket.settimeout(seconds)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_frame(self, payload: bytes) -> None:
        self.send(struct.pack(">i", len(payload)) + payload)

    def read_frame(self) -> bytes | Closed:
        """The next answer without its size."""
        size = self._read_exactly(4)
        if isinstance(size, Closed):
            return CLOSED
        return self._read_exactly(struct.unpack(">i", size)[0])

    def _read_exactly(self, size: int) -> bytes | Closed:
        parts = bytearray()
        while len(parts) < size:
            try:
                got = self._socket.recv(size - len(parts))
            except ConnectionError:
                return CLOSED
            if not got:
                return CLOSED
            parts += got
        return bytes(parts)

    def ask(self, request: Message, version: int, response: type[R], *, client_id: str = "raw") -> R | Closed:
        """Send a well-formed request and decode the answer."""
        correlation = next(self._correlation)
        try:
            self.send(request_frame(request, version, correlation, client_id))
        except ConnectionError:
            return CLOSED
        return self.read(request.SPEC.api_key, version, response, correlation)

    def read(self, api_key: int, version: int, response: type[R], correlation: int) -> R | Closed:
        frame = self.read_frame()
        if isinstance(frame, Closed):
            return CLOSED
        answered, start = parse_response_header(frame, api_key, version)
        if answered != correlation:
            raise AssertionError(f"answer to request {answered} came where {correlation} was due")
        return codec.decode(response, frame, version, start=start)
