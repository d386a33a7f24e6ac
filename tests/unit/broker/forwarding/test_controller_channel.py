"""Requests to the active controller: attempts, retries and timeouts."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.base.errors import ErrorCode, InvariantViolation
from ottla.base.promise import Promise
from ottla.broker.forwarding.controller_channel import ControllerChannel
from ottla.peer.errors import PeerError, Reason
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.schema import Message
from tests.unit.peer.fakes import FakeTimers, error_of

REQUEST = BrokerHeartbeatRequest(broker_id=1)
RESPONSE = BrokerHeartbeatResponse(is_fenced=False)
NOT_CONTROLLER = BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)


class Controllers:
    """Node 1, which is local, and any other nodes; the test settles each attempt."""

    def __init__(self, leader_id: int) -> None:
        self.leader_id = leader_id
        self.timers = FakeTimers()
        self.attempts: list[tuple[int, Promise[Any]]] = []
        self.timeouts: list[float] = []
        self.closed = False
        self.channel = ControllerChannel(1, lambda: self.leader_id, self._local, self, self.timers)

    def _local(self, message: Message) -> Promise[Any]:
        return self.request(1, message, BrokerHeartbeatResponse, timeout_s=0.0)

    def request(
        self, node_id: int, message: Message, response: type[Message], *, timeout_s: float
    ) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        self.attempts.append((node_id, promise))
        self.timeouts.append(timeout_s)
        return promise

    def close(self) -> None:
        self.closed = True

    def send(self, timeout_s: float = 5.0) -> Promise[BrokerHeartbeatResponse]:
        return self.channel.request(REQUEST, BrokerHeartbeatResponse, timeout_s=timeout_s)

    def nodes(self) -> list[int]:
        return [node_id for node_id, _ in self.attempts]


@pytest.mark.parametrize("leader_id", [1, 2])
def test_a_request_is_sent_to_the_leader(leader_id: int) -> None:
    test = Controllers(leader_id)
    promise = test.send()
    assert test.nodes() == [leader_id]
    test.attempts[0][1].keep(RESPONSE)
    assert promise.result() is RESPONSE
    test.timers.advance(1.0)
    assert test.timers.pending == 0, "no timer runs without requests"


def test_a_request_waits_for_a_leader() -> None:
    test = Controllers(-1)
    promise = test.send()
    test.timers.advance(1.0)
    assert test.attempts == []
    test.leader_id = 2
    test.timers.advance(0.05)
    test.attempts[0][1].keep(RESPONSE)
    assert promise.result() is RESPONSE


def test_a_node_that_is_not_the_controller_is_tried_again_after_a_backoff() -> None:
    test = Controllers(2)
    promise = test.send()
    test.attempts[0][1].keep(NOT_CONTROLLER)
    assert not promise.done
    assert test.nodes() == [2]
    test.leader_id = 3
    test.timers.advance(0.04)
    assert test.nodes() == [2], "the back-off has not passed"
    test.timers.advance(0.06)
    assert test.nodes() == [2, 3]
    test.attempts[1][1].keep(RESPONSE)
    assert promise.result() is RESPONSE


@pytest.mark.parametrize("reason", [Reason.CLOSED, Reason.NOT_SERVED])
def test_a_request_without_response_is_tried_again(reason: Reason) -> None:
    """The connection is lost, or the node has a new disk: it is not a controller yet."""
    test = Controllers(2)
    promise = test.send()
    test.attempts[0][1].fail(PeerError(reason, "no response", sent=True))
    test.timers.advance(0.1)
    test.attempts[1][1].keep(RESPONSE)
    assert promise.result() is RESPONSE


def test_a_new_leader_gets_requests_that_the_old_one_has_not_completed() -> None:
    test = Controllers(2)
    promise = test.send()
    test.leader_id = 1
    test.timers.advance(0.05)
    assert test.nodes() == [2, 1]
    test.attempts[0][1].keep(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    assert not promise.done, "the response of the old leader is ignored"
    test.attempts[1][1].keep(RESPONSE)
    assert promise.result() is RESPONSE


def test_a_request_fails_after_its_timeout() -> None:
    test = Controllers(2)
    promise = test.send(timeout_s=0.5)
    test.attempts[0][1].keep(NOT_CONTROLLER)
    test.leader_id = -1
    test.timers.advance(0.4)
    assert not promise.done
    test.timers.advance(0.2)
    error = error_of(promise)
    assert (error.reason, error.sent) == (Reason.TIMED_OUT, True)
    assert "not the active controller" in str(error)


def test_an_attempt_has_the_time_that_is_left() -> None:
    test = Controllers(2)
    test.send(timeout_s=5.0)
    test.timers.advance(1.0)
    test.attempts[0][1].keep(NOT_CONTROLLER)
    test.timers.advance(1.0)
    assert test.timeouts[0] == 5.0
    assert 3.0 <= test.timeouts[1] < 4.0


def test_a_request_for_which_no_controller_was_known_was_not_sent() -> None:
    test = Controllers(-1)
    promise = test.send(timeout_s=0.5)
    test.timers.advance(0.6)
    assert (error_of(promise).reason, error_of(promise).sent) == (Reason.TIMED_OUT, False)


def test_other_errors_are_not_retried() -> None:
    test = Controllers(2)
    unsupported = test.send()
    test.attempts[0][1].fail(PeerError(Reason.UNSUPPORTED_VERSION, "old"))
    assert error_of(unsupported).reason is Reason.UNSUPPORTED_VERSION
    broken = test.send()
    test.attempts[1][1].fail(InvariantViolation("bug"))
    with pytest.raises(InvariantViolation):
        broken.result()


def test_close_fails_all_requests() -> None:
    test = Controllers(2)
    promise = test.send()
    test.channel.close()
    assert test.closed
    assert error_of(promise).reason is Reason.SHUTDOWN
    assert error_of(test.send()).reason is Reason.SHUTDOWN
    assert test.timers.pending == 0


def test_a_node_that_stops_does_not_search_a_controller_any_more() -> None:
    test = Controllers(-1)
    waiting = test.send(timeout_s=30.0)
    test.channel.end_search(1.0)
    test.timers.advance(0.9)
    assert not waiting.done, "another node may be elected"
    test.timers.advance(0.2)
    assert error_of(waiting).reason is Reason.TIMED_OUT
    late = test.send(timeout_s=30.0)
    test.timers.advance(0.1)
    assert error_of(late).reason is Reason.TIMED_OUT


def test_a_node_that_stops_waits_for_the_active_controller() -> None:
    test = Controllers(2)
    promise = test.send(timeout_s=30.0)
    test.channel.end_search(0.0)
    test.timers.advance(5.0)
    test.attempts[0][1].keep(RESPONSE)
    assert promise.result() is RESPONSE
