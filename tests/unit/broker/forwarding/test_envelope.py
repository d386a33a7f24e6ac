"""Forwarded requests: the envelope, and its handling on the controller."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.base.errors import ErrorCode, RemoteProtocolError
from ottla.base.promise import Promise
from ottla.broker.forwarding.envelope import EnvelopeServer, ForwardedResponse, has_error, unwrap, wrap
from ottla.broker.net.listeners import Listener, ListenerType
from ottla.broker.net.origin import Origin
from ottla.broker.registry import BoundRoute, Call
from ottla.security.principal import user
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.frames import request_frame
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

REQUEST = CreateTopicsRequest(topics=[CreatableTopic(name="orders")])
LISTENER = Listener("CONTROLLER", "", 0, "", 0, ListenerType.CONTROLLER)
BROKER = Origin(LISTENER, "10.0.0.1", 40_000, user("broker"))
CLIENT = Origin(LISTENER, "10.0.0.7", 5000, user("alice"))


def frame(version: int = 7) -> bytes:
    """The frame of a client request, without its size."""
    return request_frame(REQUEST, version, 99, "client")[4:]


class Controller:
    """Responds to CreateTopics with one error code, at once or later."""

    def __init__(self, code: ErrorCode = ErrorCode.NONE, *, later: bool = True) -> None:
        self.code = code
        self.later = later
        self.calls: list[Call] = []
        self.server = EnvelopeServer(lambda: 42)
        route = BoundRoute(ApiKey.CREATE_TOPICS, (2, 7), CreateTopicsRequest, self._handle, forwarded=True)
        local = BoundRoute(ApiKey.METADATA, (0, 13), CreateTopicsRequest, self._handle)
        self.server.serve({ApiKey.CREATE_TOPICS: route, ApiKey.METADATA: local})

    def _handle(self, request: CreateTopicsRequest, call: Call) -> Any:
        self.calls.append(call)
        result = CreatableTopicResult(name=request.topics[0].name, error_code=self.code)
        response = CreateTopicsResponse(topics=[result])
        return Promise.kept(response) if self.later else response

    def handle(self, request: EnvelopeRequest) -> ForwardedResponse:
        return asyncio.run(self.server.handle(request, BROKER))


@pytest.mark.parametrize("later", [True, False])
@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_a_forwarded_request_is_handled_as_if_the_client_had_sent_it(version: int, later: bool) -> None:
    controller = Controller(later=later)
    response = controller.handle(wrap(frame(version), CLIENT))
    (call,) = controller.calls
    assert (call.api_version, call.client_id, call.correlation_id) == (version, "client", 99)
    assert (call.origin.principal, call.origin.ip) == (user("alice"), "10.0.0.7")
    assert (response.error_code, response.applied_offset) == (ErrorCode.NONE, 42)
    body = unwrap(response, ApiKey.CREATE_TOPICS, version, 99)
    assert codec.decode(CreateTopicsResponse, body, version).topics[0].name == "orders"
    with pytest.raises(RemoteProtocolError):
        unwrap(response, ApiKey.CREATE_TOPICS, version, 98)


def test_the_applied_offset_is_a_tag_that_kafka_ignores() -> None:
    sent = codec.encode(ForwardedResponse(response_data=b"x", applied_offset=42), 0)
    assert codec.decode(EnvelopeResponse, sent, 0).response_data == b"x"
    assert codec.decode(ForwardedResponse, sent, 0).applied_offset == 42
    of_kafka = codec.encode(EnvelopeResponse(response_data=b"x"), 0)
    assert codec.decode(ForwardedResponse, of_kafka, 0).applied_offset == -1


def test_the_envelope_names_the_client() -> None:
    request = wrap(frame(), CLIENT)
    assert request.client_host_address == bytes([10, 0, 0, 7])
    assert request.request_principal == b"\x00\x00\x05User\x06alice\x00\x00"
    assert len(wrap(frame(), Origin(LISTENER, "fe80::1%eth0", 1)).client_host_address) == 16
    assert wrap(frame(), Origin(LISTENER, "socket", 1)).client_host_address == bytes([127, 0, 0, 1])


def test_a_node_that_is_not_the_controller_reports_it_in_the_envelope() -> None:
    response = Controller(ErrorCode.NOT_CONTROLLER).handle(wrap(frame(), CLIENT))
    assert (response.error_code, response.response_data) == (ErrorCode.NOT_CONTROLLER, None)


def test_requests_that_cannot_be_forwarded() -> None:
    controller = Controller()
    metadata = request_frame(REQUEST, 7, 1, None)[4:]
    metadata = int(ApiKey.METADATA).to_bytes(2, "big") + metadata[2:]
    assert controller.handle(wrap(metadata, CLIENT)).error_code == ErrorCode.INVALID_REQUEST
    old = b"\x00\x13\x00\x01" + frame()[4:]
    assert controller.handle(wrap(old, CLIENT)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert controller.handle(wrap(b"\x00", CLIENT)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert controller.handle(wrap(frame()[:-8], CLIENT)).error_code == ErrorCode.UNSUPPORTED_VERSION
    nowhere = EnvelopeRequest(request_data=frame(), client_host_address=b"12345")
    assert controller.handle(nowhere).error_code == ErrorCode.INVALID_REQUEST
    assert controller.calls == []


def test_a_request_of_a_broker_itself_has_the_origin_of_the_broker() -> None:
    controller = Controller()
    assert controller.handle(wrap(frame(), None)).error_code == ErrorCode.NONE
    assert controller.calls[0].origin is BROKER


def test_a_principal_that_cannot_be_read_is_refused() -> None:
    controller = Controller()
    request = wrap(frame(), CLIENT)
    for data in (b"", b"\0\1", b"\0\0\x05User", b"\0\0\x7f"):
        request.request_principal = data
        assert controller.handle(request).error_code == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    assert controller.calls == []


def test_errors_are_found_at_any_depth() -> None:
    response = CreateTopicsResponse(topics=[CreatableTopicResult(error_code=ErrorCode.NOT_CONTROLLER)])
    assert has_error(response, ErrorCode.NOT_CONTROLLER)
    assert not has_error(response, ErrorCode.INVALID_REQUEST)
    assert has_error(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER), ErrorCode.NOT_CONTROLLER)


def test_a_request_that_closes_its_connection_does_not_close_that_of_the_broker() -> None:
    def handle(_: CreateTopicsRequest, __: Call) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        promise.fail(RemoteProtocolError("not valid"))
        return promise

    server = EnvelopeServer(lambda: 42)
    route = BoundRoute(ApiKey.CREATE_TOPICS, (2, 7), CreateTopicsRequest, handle, forwarded=True)
    server.serve({ApiKey.CREATE_TOPICS: route})
    response = asyncio.run(server.handle(wrap(frame(), CLIENT), BROKER))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
