"""The registration of a controller, with an active controller played by the test."""

from __future__ import annotations

import random
from typing import Any, cast

from ottla.base.errors import ErrorCode
from ottla.base.promise import Promise
from ottla.broker.forwarding.controller_channel import ControllerChannel
from ottla.metadata.image import Endpoint
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.record_codec import encode_record
from ottla.metadata.records import RegisterControllerRecord
from ottla.node.membership.controller_registration import ControllerRegistration, controller_registration
from ottla.peer.errors import PeerError, Reason
from ottla.quorum.quorum import CommittedBatch
from ottla.security.protocol import SecurityProtocol
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ottla.wire.schema import Message
from tests.support.fake_quorum import FakeQuorum
from tests.support.metadata import features
from tests.unit.peer.fakes import FakeTimers


class Scenario:
    def __init__(self) -> None:
        self.timers = FakeTimers()
        self.publisher = MetadataPublisher(FakeQuorum())
        self.sent: list[tuple[ControllerRegistrationRequest, Promise[Any]]] = []
        endpoints = [Endpoint("CONTROLLER", "host", 9093, SecurityProtocol.SSL)]
        self.request_sent = controller_registration(1, endpoints, random.Random(1))
        self.registration = ControllerRegistration(
            self.request_sent, cast(ControllerChannel, self), self.publisher, self.timers
        )
        self.registration.start()

    def request(self, message: Message, response: type[Message], *, timeout_s: float) -> Promise[Any]:
        assert isinstance(message, ControllerRegistrationRequest)
        promise: Promise[Any] = Promise()
        self.sent.append((message, promise))
        return promise

    def commit(self, offset: int, incarnation_id: Any) -> None:
        record = RegisterControllerRecord(controller_id=1, incarnation_id=incarnation_id)
        values = [encode_record(each, 30) for each in (*features(), record)]
        self.publisher.committed([CommittedBatch(offset, 1, 0, values)])


def test_a_controller_registers_once() -> None:
    test = Scenario()
    request, promise = test.sent.pop()
    found = [(each.host, each.port, each.security_protocol) for each in request.listeners]
    assert found == [("host", 9093, SecurityProtocol.SSL)]
    promise.keep(ControllerRegistrationResponse())
    test.commit(10, request.incarnation_id)
    test.timers.advance(5.0)
    assert test.sent == []


def test_a_registration_that_fails_is_repeated() -> None:
    test = Scenario()
    test.sent.pop()[1].fail(PeerError(Reason.TIMED_OUT, "no controller"))
    test.timers.advance(0.5)
    test.sent.pop()[1].keep(ControllerRegistrationResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    test.timers.advance(0.5)
    assert len(test.sent) == 1


def test_the_registration_of_another_process_is_replaced() -> None:
    test = Scenario()
    request, promise = test.sent.pop()
    promise.keep(ControllerRegistrationResponse())
    test.commit(10, request.incarnation_id)
    test.timers.advance(1.0)
    test.commit(11, controller_registration(1, [], random.Random(2)).incarnation_id)
    assert len(test.sent) == 1


def test_nothing_is_sent_after_close() -> None:
    test = Scenario()
    promise = test.sent.pop()[1]
    test.registration.close()
    promise.fail(PeerError(Reason.SHUTDOWN, "closed"))
    test.timers.advance(5.0)
    assert test.sent == []
