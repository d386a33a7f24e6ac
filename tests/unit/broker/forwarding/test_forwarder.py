"""Requests of clients that a broker forwards, and their responses."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ottla.base.errors import ErrorCode, RemoteProtocolError
from ottla.base.promise import Promise
from ottla.broker.forwarding.controller_channel import ControllerChannel
from ottla.broker.forwarding.envelope import ForwardedResponse
from ottla.broker.forwarding.forwarder import Forwarder
from ottla.broker.net.listeners import Listener
from ottla.broker.net.origin import Origin
from ottla.broker.registry import Call
from ottla.controller.port import ControllerPort
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.record_codec import encode_record
from ottla.peer.errors import PeerError, Reason
from ottla.quorum.quorum import CommittedBatch
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.frames import parse_request_header, request_frame, response_frame
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.envelope import EnvelopeRequest
from ottla.wire.schema import Message
from tests.support.fake_quorum import FakeQuorum
from tests.support.metadata import features
from tests.unit.peer.fakes import FakeTimers

REQUEST = CreateTopicsRequest(topics=[CreatableTopic(name="orders")])
RESPONSE = CreateTopicsResponse(topics=[CreatableTopicResult(name="orders", error_message=None)])
LISTENER = Listener("PLAINTEXT", "", 0, "", 0)


class Scenario:
    """A broker whose channel to the controller is the test."""

    def __init__(self, *, active: bool = False) -> None:
        self.timers = FakeTimers()
        self.publisher = MetadataPublisher(FakeQuorum())
        self.sent: list[tuple[EnvelopeRequest, Promise[ForwardedResponse]]] = []
        self.timeouts_s: list[float] = []
        self.active = active
        self.forwarder = Forwarder(
            cast(ControllerChannel, self),
            cast(ControllerPort, self),
            lambda: self.active,
            self.publisher,
            self.timers,
            30.0,
        )

    def request(self, message: Message, response: type[Message], *, timeout_s: float) -> Promise[Any]:
        assert isinstance(message, EnvelopeRequest)
        assert response is ForwardedResponse
        promise: Promise[ForwardedResponse] = Promise()
        self.sent.append((message, promise))
        self.timeouts_s.append(timeout_s)
        return promise

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """The controller of this process."""
        return RESPONSE

    def forward(self) -> Promise[Any]:
        frame = memoryview(request_frame(REQUEST, 7, 99, "client")[4:])
        body = parse_request_header(frame)[4]
        call = Call(7, 99, "client", Origin(LISTENER, "10.0.0.7", 5000))
        return self.forwarder.forward(frame, body, CreateTopicsRequest, ApiKey.CREATE_TOPICS, call)

    def respond(self, applied_offset: int = -1, correlation_id: int = 99) -> None:
        data = response_frame(RESPONSE, 7, correlation_id)[4:]
        self.sent.pop()[1].keep(ForwardedResponse(response_data=data, applied_offset=applied_offset))

    def apply(self, offset: int) -> None:
        values = [encode_record(record, 30) for record in features()]
        self.publisher.committed([CommittedBatch(offset, 1, 0, values)])


def test_the_frame_is_forwarded_unchanged_and_the_response_is_returned() -> None:
    test = Scenario()
    promise = test.forward()
    (envelope, _) = test.sent[0]
    assert envelope.request_data == request_frame(REQUEST, 7, 99, "client")[4:]
    assert envelope.client_host_address == bytes([10, 0, 0, 7])
    test.respond()
    assert codec.decode(CreateTopicsResponse, promise.result(), 7) == RESPONSE


def test_the_response_waits_until_this_node_has_applied_the_result() -> None:
    test = Scenario()
    promise = test.forward()
    test.respond(applied_offset=12)
    test.apply(11)
    assert not promise.done
    test.apply(12)
    assert promise.done
    assert test.timers.pending == 0


def test_the_response_is_sent_in_the_end_although_this_node_lags() -> None:
    test = Scenario()
    promise = test.forward()
    test.respond(applied_offset=12)
    test.timers.advance(30.0)
    assert promise.done
    test.apply(12)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PeerError(Reason.TIMED_OUT, "no controller"), ErrorCode.REQUEST_TIMED_OUT),
        (PeerError(Reason.UNSUPPORTED_VERSION, "old"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_request_without_a_controller_gets_an_error_response(error: PeerError, code: ErrorCode) -> None:
    test = Scenario()
    promise = test.forward()
    test.sent.pop()[1].fail(error)
    assert [(each.name, each.error_code) for each in promise.result().topics] == [("orders", code)]


def test_an_error_in_the_envelope_is_an_unknown_server_error() -> None:
    test = Scenario()
    promise = test.forward()
    test.sent.pop()[1].keep(ForwardedResponse(error_code=ErrorCode.INVALID_REQUEST))
    assert promise.result().topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_version_that_the_controller_does_not_serve_closes_the_connection() -> None:
    test = Scenario()
    promise = test.forward()
    test.sent.pop()[1].keep(ForwardedResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    with pytest.raises(RemoteProtocolError):
        promise.result()
    wrong = test.forward()
    test.respond(correlation_id=98)
    with pytest.raises(RemoteProtocolError):
        wrong.result()


def test_the_result_is_applied_when_all_parts_of_the_node_have_followed_it() -> None:
    test = Scenario()
    following: Promise[None] = Promise()
    test.publisher.add_listener(lambda delta, image: following)
    test.apply(12)
    promise = test.forward()
    test.respond(applied_offset=12)
    assert not promise.done
    following.keep(None)
    assert promise.done


def test_a_created_topic_is_used_when_this_node_has_applied_it() -> None:
    async def scenario() -> None:
        test = Scenario()
        creation = asyncio.ensure_future(test.forwarder.create_topics(REQUEST))
        await asyncio.sleep(0)
        test.respond(12, correlation_id=0)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not creation.done()
        test.apply(12)
        assert await creation == RESPONSE

    asyncio.run(scenario())


async def created(test: Scenario, *, applied_offset: int) -> CreateTopicsResponse:
    creation = asyncio.ensure_future(test.forwarder.create_topics(REQUEST))
    await asyncio.sleep(0)
    if test.sent:
        test.respond(applied_offset, correlation_id=0)
        await asyncio.sleep(0)
        test.apply(applied_offset)
    return await creation


@pytest.mark.parametrize("active", [True, False])
def test_topics_are_created_here_or_by_the_controller(active: bool) -> None:
    test = Scenario(active=active)
    assert asyncio.run(created(test, applied_offset=5)) == RESPONSE
    assert test.sent == []


def test_topics_that_no_controller_creates() -> None:
    async def failed(test: Scenario) -> CreateTopicsResponse:
        creation = asyncio.ensure_future(test.forwarder.create_topics(REQUEST))
        await asyncio.sleep(0)
        test.sent.pop()[1].fail(PeerError(Reason.TIMED_OUT, "no controller"))
        return await creation

    response = asyncio.run(failed(Scenario()))
    assert response.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_request_that_creates_a_topic_waits_less_than_others_for_the_controller() -> None:
    """Later requests of the connection wait, too: a fetch of other topics must not wait for half a minute."""
    test = Scenario()
    asyncio.run(created(test, applied_offset=-1))
    test.forward()
    assert test.timeouts_s == [2.0, 30.0]
