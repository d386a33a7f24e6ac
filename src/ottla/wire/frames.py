"""Frames: what lies around a message on a connection.

    size       int32, of all that follows
    header     request: api key int16, api version int16, correlation id int32, client id, [tagged fields]
               response: correlation id int32, [tagged fields]
    message

Tagged fields stand in a header only if the message's version is flexible (see `wire.apis`). The client id
keeps its old 16-bit length for ever. Reading the size off a connection is the connection's business: what is
parsed here starts behind it. Pure functions, usable from any thread.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ottla.base.errors import RemoteProtocolError
from ottla.wire import codec
from ottla.wire.apis import ApiKey, request_header_version, response_header_version
from ottla.wire.messages import headers
from ottla.wire.primitives import Source
from ottla.wire.schema import Message

_KEY_AND_VERSION = struct.Struct(">hh")
_SIZE = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """Who asks for what; `body_start` is where the message begins."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str
    body_start: int


def parse_request_header(frame: Source) -> RequestHeader:
    """Read the header of a request; any version passes, for only the router knows which are served.

    A missing client id counts as an empty one, as in Kafka.
    """
    if len(frame) < _KEY_AND_VERSION.size:
        raise RemoteProtocolError("a request ends within its header")
    number, api_version = _KEY_AND_VERSION.unpack_from(frame)
    try:
        api_key = ApiKey(number)
    except ValueError as error:
        raise RemoteProtocolError(f"there is no API with key {number}") from error
    version = request_header_version(api_key, api_version)
    header, body_start = codec.decode_at(headers.RequestHeader, frame, version, 0)
    return RequestHeader(api_key, api_version, header.correlation_id, header.client_id or "", body_start)


def parse_response_header(frame: Source, api_key: int, api_version: int) -> tuple[int, int]:
    """The correlation id of a response, and where its message begins."""
    version = response_header_version(api_key, api_version)
    header, body_start = codec.decode_at(headers.ResponseHeader, frame, version, 0)
    return header.correlation_id, body_start


def request_frame(request: Message, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A whole request as it is sent."""
    api_key = request.SPEC.api_key
    header = headers.RequestHeader(
        request_api_key=api_key,
        request_api_version=api_version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return _framed(header, request_header_version(api_key, api_version), request, api_version)


def response_frame(response: Message, api_version: int, correlation_id: int) -> bytes:
    """A whole response as it is sent."""
    header = headers.ResponseHeader(correlation_id=correlation_id)
    version = response_header_version(response.SPEC.api_key, api_version)
    return _framed(header, version, response, api_version)


def response_prefix(api_key: int, api_version: int, correlation_id: int, body_bytes: int) -> bytes:
    """Size and header of a response whose message is sent apart, such as Fetch with its records."""
    version = response_header_version(api_key, api_version)
    header = codec.encode(headers.ResponseHeader(correlation_id=correlation_id), version)
    return _SIZE.pack(len(header) + body_bytes) + header


def _framed(header: Message, header_version: int, body: Message, body_version: int) -> bytes:
    parts = codec.encode_parts(header, header_version)
    parts += codec.encode_parts(body, body_version)
    return b"".join([_SIZE.pack(sum(map(len, parts))), *parts])
