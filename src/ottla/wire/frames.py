"""Frames: the size and the header before each message on a connection. One codec for brokers, clients and peers.

    size       int32, of everything after it
    header     request: api key int16, api version int16, correlation id int32, client id, [tagged fields]
               response: correlation id int32, [tagged fields]
    message

A header has tagged fields only if the version of its message is flexible. The header of an ApiVersions response never
has them: a client must be able to read it before it has seen the versions of the broker. The client id always has a
16-bit length, -1 for null. `wire.frame_reader` reads the size and collects the bytes of a frame; the functions below
that parse a header get the frame without its size. Pure functions.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ottla.base.errors import LocalError, RemoteProtocolError
from ottla.base.varint import Source
from ottla.wire import codec
from ottla.wire.apis import FIRST_TAGGED_REQUEST_HEADER, FIRST_TAGGED_RESPONSE_HEADER, NEVER_FLEXIBLE
from ottla.wire.primitives import SHORT_STRING_BYTES, STRING_BYTES_MAX, skip_tags
from ottla.wire.schema import Message, Spec

SIZE = Struct(">i")
SIZE_AND_CORRELATION_ID = Struct(">ii")
"""The first bytes of a response; any tagged fields follow."""
CORRELATION_ID_BYTES = 4

_REQUEST_HEADER = Struct(">hhih")
_REQUEST_PREFIX = Struct(">ihhih")
_NO_TAGS = b"\0"

RequestHeader = tuple[int, int, int, str | None, int]
"""api key, api version, correlation id, client id, position of the message"""


def parse_request_header(frame: memoryview) -> RequestHeader:
    """Read the header of a request in any version, of any API: the caller decides which it serves."""
    body = _REQUEST_HEADER.size
    if len(frame) < body:
        raise RemoteProtocolError("request ends within its header")
    api_key, version, correlation_id, client_id_bytes = _REQUEST_HEADER.unpack_from(frame)
    client_id = None
    if client_id_bytes >= 0:
        if body + client_id_bytes > len(frame):
            raise RemoteProtocolError("request ends within its client id")
        client_id = str(frame[body : body + client_id_bytes], "utf-8", "replace")
        if client_id_bytes > SHORT_STRING_BYTES and len(client_id.encode()) > STRING_BYTES_MAX:
            raise RemoteProtocolError("the client id is malformed and too long to be encoded again")
        body += client_id_bytes
    if version >= FIRST_TAGGED_REQUEST_HEADER.get(api_key, NEVER_FLEXIBLE):
        try:
            body = skip_tags(frame, body)
        except IndexError as error:
            raise RemoteProtocolError("request ends within its header") from error
    return api_key, version, correlation_id, client_id, body


def correlation_id_of(frame: Source) -> int:
    """The correlation id of a response."""
    if len(frame) < CORRELATION_ID_BYTES:
        raise RemoteProtocolError("response ends within its header")
    return int.from_bytes(frame[:CORRELATION_ID_BYTES], "big", signed=True)


def parse_response_header(frame: Source, api_key: int, api_version: int) -> tuple[int, int]:
    """The correlation id of a response, and the position of its message."""
    correlation_id = correlation_id_of(frame)
    if api_version < FIRST_TAGGED_RESPONSE_HEADER.get(api_key, NEVER_FLEXIBLE):
        return correlation_id, CORRELATION_ID_BYTES
    try:
        return correlation_id, skip_tags(frame, CORRELATION_ID_BYTES)
    except IndexError as error:
        raise RemoteProtocolError("response ends within its header") from error


class EncodedRequest(NamedTuple):
    """A request that its sender has encoded; `name` is that of its class."""

    SPEC: Spec
    name: str
    body: bytes


def request_name(request: Message | EncodedRequest) -> str:
    return request.name if isinstance(request, EncodedRequest) else type(request).__name__


def request_parts(
    request: Message | EncodedRequest, api_version: int, correlation_id: int, client_id: str | None
) -> list[bytes]:
    """A request as buffers to send one after the other; large fields are not copied."""
    api_key = request.SPEC.api_key
    body = _body_parts(request, api_version)
    client = b"" if client_id is None else client_id.encode()
    tags = _NO_TAGS if api_version >= FIRST_TAGGED_REQUEST_HEADER.get(api_key, NEVER_FLEXIBLE) else b""
    size = _REQUEST_HEADER.size + len(client) + len(tags) + sum(map(len, body))
    client_bytes = -1 if client_id is None else len(client)
    if client_bytes > STRING_BYTES_MAX:
        raise LocalError(f"client id of {client_bytes} bytes, at most {STRING_BYTES_MAX} are allowed")
    prefix = _REQUEST_PREFIX.pack(size, api_key, api_version, correlation_id, client_bytes)
    return [prefix + client + tags, *body]


def _body_parts(request: Message | EncodedRequest, api_version: int) -> list[bytes]:
    if isinstance(request, EncodedRequest):
        return [request.body]
    return codec.encode_parts(request, api_version)


def request_frame(request: Message, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request as one sequence of bytes."""
    return b"".join(request_parts(request, api_version, correlation_id, client_id))


def response_prefix(api_key: int, api_version: int, correlation_id: int, body_bytes: int) -> bytes:
    """Size and header of a response whose message is sent as separate buffers."""
    if api_version >= FIRST_TAGGED_RESPONSE_HEADER.get(api_key, NEVER_FLEXIBLE):
        return SIZE_AND_CORRELATION_ID.pack(body_bytes + 5, correlation_id) + _NO_TAGS
    return SIZE_AND_CORRELATION_ID.pack(body_bytes + 4, correlation_id)


def response_frame(response: Message, api_version: int, correlation_id: int) -> bytes:
    """A response as one sequence of bytes."""
    body = codec.encode(response, api_version)
    return response_prefix(response.SPEC.api_key, api_version, correlation_id, len(body)) + body


def take_frame(received: bytearray) -> bytes | None:
    """Remove the first frame from `received` and return it without its size; None if it is not complete."""
    if len(received) < SIZE.size:
        return None
    (size,) = SIZE.unpack_from(received)
    if size < 0:
        raise RemoteProtocolError(f"frame of {size} bytes")
    end = SIZE.size + size
    if len(received) < end:
        return None
    frame = bytes(received[SIZE.size : end])
    del received[:end]
    return frame
