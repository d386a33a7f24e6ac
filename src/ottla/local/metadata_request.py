"""One blocking Metadata request to a broker of this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from ottla.base.errors import RemoteProtocolError
from ottla.wire import codec
from ottla.wire.frames import SIZE, parse_response_header, request_frame
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

VERSION = 12
_CLIENT_ID = "ottla-local"


def request_metadata(
    host: str, port: int, topics: Iterable[str] | None = (), *, timeout_s: float = 1.0
) -> MetadataResponse | None:
    """The response of a broker, with all topics if `topics` is None; None if it does not respond in time."""
    wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(request_frame(request, VERSION, 0, _CLIENT_ID))
            (size,) = SIZE.unpack(_read(connection, SIZE.size))
            frame = _read(connection, size)
    except OSError:
        return None
    try:
        _, start = parse_response_header(frame, MetadataRequest.SPEC.api_key, VERSION)
        return codec.decode(MetadataResponse, frame, VERSION, start=start)
    except RemoteProtocolError:
        return None


def _read(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        if not (piece := connection.recv(size - len(received))):
            raise ConnectionResetError("the broker has closed the connection")
        received += piece
    return bytes(received)
