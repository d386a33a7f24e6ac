"""Client requests inside Envelope requests (KIP-590): the frame, its client, and the response.

A broker forwards the frame of a client request, header and message, without changing it. The response of the controller
contains the frame of the client's response. It also contains, in a tagged field that Kafka does not have and therefore
ignores, the offset of the metadata that the controller had applied: the broker responds to its client when it has
applied that offset too, so the client sees on this broker what it has created.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from ottla.base.errors import ErrorCode, RemoteProtocolError
from ottla.base.promise import Promise
from ottla.base.settled import settled
from ottla.broker.net.origin import Origin
from ottla.broker.registry import BoundRoute, Call
from ottla.security import principal as principals
from ottla.wire import codec
from ottla.wire.frames import parse_request_header, parse_response_header, response_prefix
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.schema import F, Message

NOT_STATED: Final = -1
_APPLIED_OFFSET_TAG: Final = 10_000
_LOOPBACK: Final = b"\x7f\0\0\x01"
_ADDRESS_BYTES: Final = (4, 16)
_SIZE_BYTES: Final = 4


class ForwardedResponse(EnvelopeResponse):
    """An Envelope response with the metadata offset that the controller had applied."""

    applied_offset: Annotated[int, F("int64", "0+", tag=_APPLIED_OFFSET_TAG, tagged="0+")] = NOT_STATED


def wrap(frame: bytes, origin: Origin | None) -> EnvelopeRequest:
    """An Envelope for the frame of a request, without its size: of a client, or of this broker itself (None)."""
    if origin is None:
        return EnvelopeRequest(request_data=frame, request_principal=None, client_host_address=_LOOPBACK)
    try:
        address = ipaddress.ip_address(origin.ip.partition("%")[0]).packed
    except ValueError:
        address = _LOOPBACK
    data = principals.encode(origin.principal)
    return EnvelopeRequest(request_data=frame, request_principal=data, client_host_address=address)


def unwrap(response: ForwardedResponse, api_key: int, api_version: int, correlation_id: int) -> bytes:
    """The message of the client's response, encoded; RemoteProtocolError if it does not match the request."""
    frame = response.response_data or b""
    found, start = parse_response_header(frame, api_key, api_version)
    if found != correlation_id:
        raise RemoteProtocolError(f"the envelope has response {found} instead of {correlation_id}")
    return bytes(frame[start:])


class EnvelopeServer:
    """Handles forwarded requests on a controller, with the handlers of its controller listener."""

    def __init__(self, applied_offset: Callable[[], int]) -> None:
        self._applied_offset = applied_offset
        self._routes: Mapping[int, BoundRoute] = {}

    def serve(self, routes: Mapping[int, BoundRoute]) -> None:
        """Set the APIs of the controller listener; those that brokers forward are served."""
        self._routes = {key: route for key, route in routes.items() if route.forwarded}

    async def handle(self, request: EnvelopeRequest, sender: Origin) -> ForwardedResponse:
        """Handle the request inside; NOT_CONTROLLER if this node cannot, so that the broker tries another one.

        `sender` is the broker that sent the Envelope.
        """
        if len(request.client_host_address) not in _ADDRESS_BYTES:
            return ForwardedResponse(error_code=ErrorCode.INVALID_REQUEST)
        try:
            origin = _origin(request, sender)
        except RemoteProtocolError:
            return ForwardedResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
        try:
            route, call, message = self._parse(memoryview(request.request_data), origin)
        except RemoteProtocolError:
            return ForwardedResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        if route is None:
            return ForwardedResponse(error_code=ErrorCode.INVALID_REQUEST)
        try:
            result = route.handle(message, call)
            if isinstance(result, Promise):
                result = await settled(result)
        except RemoteProtocolError:
            # It closes the connection of the client, not that of the broker.
            return ForwardedResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        if has_error(result, ErrorCode.NOT_CONTROLLER):
            return ForwardedResponse(error_code=ErrorCode.NOT_CONTROLLER)
        body = codec.encode(result, call.api_version)
        prefix = response_prefix(route.api_key, call.api_version, call.correlation_id, len(body))
        return ForwardedResponse(
            response_data=prefix[_SIZE_BYTES:] + body, applied_offset=self._applied_offset()
        )

    def _parse(self, frame: memoryview, origin: Origin) -> tuple[BoundRoute | None, Call, Any]:
        api_key, version, correlation_id, client_id, body = parse_request_header(frame)
        origin.api_key = api_key
        call = Call(version, correlation_id, client_id, origin)
        route = self._routes.get(api_key)
        if route is None or route.request is None:
            return None, call, None
        if not route.versions[0] <= version <= route.versions[1]:
            raise RemoteProtocolError(f"{route.api_key.name} version {version} is not served")
        return route, call, codec.decode(route.request, frame, version, start=body)


def _origin(request: EnvelopeRequest, sender: Origin) -> Origin:
    """The client of the request inside. A request of the sender itself has no principal."""
    if request.request_principal is None:
        return sender
    client = principals.decode(request.request_principal)
    return Origin(sender.listener, str(ipaddress.ip_address(request.client_host_address)), None, client)


def has_error(message: Message, code: ErrorCode) -> bool:
    """Whether an error code occurs anywhere in a response."""
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if name == "error_code" and value == code:
            return True
        if isinstance(value, list):
            if any(isinstance(each, Message) and has_error(each, code) for each in value):
                return True
        elif isinstance(value, Message) and has_error(value, code):
            return True
    return False
