"""Registration, heartbeats and stop of a broker, with a controller played by the test."""

from __future__ import annotations

import random
import uuid
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from ottla.base.errors import ErrorCode, LocalError
from ottla.base.promise import Promise
from ottla.broker.forwarding.controller_channel import ControllerChannel
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.record_codec import encode_record
from ottla.metadata.records import BrokerRegistrationChangeRecord
from ottla.node.membership.broker_state import BrokerState, LifecycleSettings
from ottla.node.membership.lifecycle import BrokerLifecycle, previous_broker_epoch, registration
from ottla.node.settings.config import assemble
from ottla.peer.errors import PeerError, Reason
from ottla.quorum.quorum import CommittedBatch
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.schema import Message
from tests.support.fake_quorum import FakeQuorum
from tests.support.metadata import broker_record, features
from tests.unit.peer.fakes import FakeTimers

SETTINGS = LifecycleSettings(heartbeat_interval_s=1.0, registration_timeout_s=10.0)


class Scenario:
    """A lifecycle, and the requests that it has sent."""

    def __init__(self) -> None:
        self.timers = FakeTimers()
        self.publisher = MetadataPublisher(FakeQuorum())
        self.sent: list[tuple[Message, Promise[Any]]] = []
        self.timeouts: list[float] = []
        self.fencing: list[bool] = []
        self.lifecycle = BrokerLifecycle(
            1,
            cast(ControllerChannel, self),
            self.publisher,
            self.timers,
            random.Random(1),
            SETTINGS,
            self.fencing.append,
        )
        self.registration = BrokerRegistrationRequest(broker_id=1, incarnation_id=uuid.UUID(int=5))
        self.registered = self.lifecycle.start(self.registration)

    def request(self, message: Message, response: type[Message], *, timeout_s: float) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        self.sent.append((message, promise))
        self.timeouts.append(timeout_s)
        return promise

    def take(self) -> tuple[Any, Promise[Any]]:
        """The only request in flight."""
        assert len(self.sent) == 1
        return self.sent.pop()

    def register(self, epoch: int) -> BrokerRegistrationRequest:
        request, promise = self.take()
        assert isinstance(request, BrokerRegistrationRequest)
        promise.keep(BrokerRegistrationResponse(broker_epoch=epoch))
        return request

    def heartbeat(self, **fields: Any) -> BrokerHeartbeatRequest:
        """Respond to a heartbeat, and return the request."""
        request, promise = self.take()
        assert isinstance(request, BrokerHeartbeatRequest)
        promise.keep(BrokerHeartbeatResponse(**{"is_caught_up": True, "is_fenced": False, **fields}))
        return request

    def commit(self, offset: int, *records: Message, epoch: int = 0) -> None:
        values = [encode_record(record, 30) for record in records]
        self.publisher.committed([CommittedBatch(offset, epoch, 0, values)])

    def commit_registration(self, epoch: int) -> None:
        self.commit(epoch, *features(), broker_record(1, epoch=epoch))

    def commit_fencing(self, offset: int, epoch: int, *, fenced: bool) -> None:
        value = 1 if fenced else -1
        self.commit(offset, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=value))


def running() -> Scenario:
    """A broker with epoch 20 that is unfenced."""
    test = Scenario()
    test.register(20)
    test.commit_registration(20)
    test.heartbeat(is_fenced=True)
    unfenced = test.lifecycle.ready()
    assert not test.heartbeat().want_fence
    test.commit_fencing(21, 20, fenced=False)
    assert unfenced.done
    return test


def test_a_start_waits_until_this_node_has_applied_its_registration() -> None:
    test = Scenario()
    test.commit_registration(10)  # of an earlier process, which is not fenced
    assert test.lifecycle.fenced
    test.register(20)
    assert test.lifecycle.fenced
    assert not test.registered.done
    test.commit_registration(20)
    assert test.registered.done
    assert test.lifecycle.broker_epoch == 20
    request = test.heartbeat(is_fenced=True)
    assert (request.broker_epoch, request.current_metadata_offset, request.want_fence) == (20, 20, True)


def test_a_registration_may_be_applied_before_its_response_arrives() -> None:
    test = Scenario()
    test.commit_registration(20)
    assert test.lifecycle.fenced
    test.register(20)
    assert test.registered.done
    assert not test.lifecycle.fenced
    assert test.fencing == [False]


def test_a_broker_follows_the_state_that_the_controller_reports() -> None:
    test = Scenario()
    test.register(20)
    test.commit_registration(20)
    test.heartbeat(is_caught_up=False, is_fenced=True)
    assert test.lifecycle.state is BrokerState.STARTING
    test.timers.advance(1.0)
    test.heartbeat(is_fenced=True)
    assert test.lifecycle.state is BrokerState.RECOVERY


def test_an_image_counts_when_all_parts_of_the_node_have_followed_it() -> None:
    test = Scenario()
    following: list[Promise[None]] = []

    def follow(delta: MetadataDelta, image: MetadataImage) -> Promise[None]:
        following.append(Promise())
        return following[-1]

    test.publisher.add_listener(follow)
    test.register(20)
    test.commit(20, *features(), broker_record(1, epoch=20, fenced=True))
    assert not test.registered.done
    following[0].keep(None)
    assert test.registered.done
    assert test.heartbeat(is_fenced=True).current_metadata_offset == 20
    unfenced = test.lifecycle.ready()
    test.heartbeat()
    test.commit_fencing(21, 20, fenced=False)
    assert not unfenced.done
    test.timers.advance(1.0)
    assert test.heartbeat().current_metadata_offset == 20
    following[1].keep(None)
    assert unfenced.done
    test.timers.advance(1.0)
    assert test.heartbeat().current_metadata_offset == 21


def test_a_broker_is_unfenced_when_it_is_ready() -> None:
    test = running()
    assert test.lifecycle.state is BrokerState.RUNNING
    assert not test.lifecycle.fenced
    test.timers.advance(1.0)
    assert test.heartbeat().current_metadata_offset == 21


def test_a_registration_is_repeated_and_fails_in_the_end() -> None:
    test = Scenario()
    test.take()[1].keep(BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION))
    test.timers.advance(0.2)
    test.take()[1].fail(PeerError(Reason.TIMED_OUT, "no controller"))
    test.timers.advance(10.0)
    with pytest.raises(LocalError, match="registered"):
        test.registered.result()


def test_the_same_refusal_of_a_registration_is_logged_now_and_then() -> None:
    test = Scenario()
    with structlog.testing.capture_logs() as lines:
        for error in (ErrorCode.DUPLICATE_BROKER_REGISTRATION,) * 3 + (ErrorCode.UNSUPPORTED_VERSION,):
            _, promise = test.take()
            promise.keep(BrokerRegistrationResponse(error_code=error))
            test.timers.advance(1)
    assert [(line["log_level"], line["reason"]) for line in lines] == [
        ("warning", "DUPLICATE_BROKER_REGISTRATION"),
        ("info", "UNSUPPORTED_VERSION"),
    ]
    assert "another process has this node id" in lines[0]["event"]


def test_an_acknowledged_heartbeat_counts_from_its_sending() -> None:
    test = Scenario()
    test.register(20)
    test.commit_registration(20)
    test.heartbeat(is_fenced=True)
    assert test.lifecycle.acknowledged_at is None
    test.lifecycle.ready()
    test.heartbeat()
    test.commit_fencing(21, 20, fenced=False)
    test.timers.advance(1.0)
    sent_at = test.timers.time()
    test.timers.advance(0.5)
    test.heartbeat()
    assert test.lifecycle.acknowledged_at == sent_at
    test.timers.advance(1.0)
    test.take()[1].fail(PeerError(Reason.TIMED_OUT, "no controller"))
    assert test.lifecycle.acknowledged_at == sent_at
    test.timers.advance(1.0)
    test.heartbeat(is_fenced=True)
    assert test.lifecycle.acknowledged_at is None


def test_no_heartbeat_counts_after_the_metadata_log_has_failed() -> None:
    test = running()
    test.timers.advance(1.0)
    test.heartbeat()
    assert test.lifecycle.acknowledged_at is not None
    test.lifecycle.metadata_failed()
    assert test.lifecycle.acknowledged_at is None
    test.timers.advance(1.0)
    test.heartbeat()
    assert test.lifecycle.acknowledged_at is None


def test_no_heartbeat_counts_in_a_controlled_shutdown() -> None:
    test = running()
    test.timers.advance(1.0)
    test.heartbeat()
    assert test.lifecycle.acknowledged_at is not None
    test.timers.advance(1.0)
    test.lifecycle.controlled_shutdown()  # while a heartbeat is in flight
    assert test.lifecycle.acknowledged_at is None
    test.heartbeat()
    assert test.lifecycle.acknowledged_at is None
    test.heartbeat()
    assert test.lifecycle.acknowledged_at is None


def test_fencing_is_reported_and_a_heartbeat_is_sent_at_once() -> None:
    test = running()
    test.commit_fencing(22, 20, fenced=True)
    assert test.fencing == [False, True]
    assert not test.heartbeat().want_fence
    test.commit_fencing(23, 20, fenced=False)
    assert test.fencing == [False, True, False]


def test_a_stale_epoch_makes_the_broker_register_again() -> None:
    test = running()
    test.timers.advance(1.0)
    test.heartbeat(error_code=ErrorCode.STALE_BROKER_EPOCH)
    test.timers.advance(0.2)
    request = test.register(30)
    assert request.previous_broker_epoch == 20
    assert request.incarnation_id != uuid.UUID(int=5)
    test.commit_registration(30)
    assert test.heartbeat().broker_epoch == 30


def test_failed_directories_are_reported() -> None:
    test = running()
    test.lifecycle.directory_failed(uuid.UUID(int=9))
    assert test.heartbeat().offline_log_dirs == [uuid.UUID(int=9)]
    test.timers.advance(1.0)
    assert test.heartbeat().offline_log_dirs == [uuid.UUID(int=9)], "another controller may be active"


def test_a_stop_waits_until_the_controller_allows_it() -> None:
    test = running()
    stopped = test.lifecycle.controlled_shutdown()
    assert test.heartbeat().want_shut_down
    assert not stopped.done
    test.timers.advance(0.1)
    test.heartbeat(should_shut_down=True)
    assert stopped.done
    test.timers.advance(5.0)
    assert test.sent == []


def test_the_controlled_shutdown_of_another_broker_is_followed_by_a_heartbeat() -> None:
    test = running()
    test.commit(22, broker_record(2, epoch=22))
    assert test.sent == []
    test.commit(
        23,
        BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=22, fenced=-1, in_controlled_shutdown=1),
    )
    assert test.heartbeat().current_metadata_offset == 23
    test.commit(24, BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=22, fenced=1))
    assert test.sent == [], "it has stopped"
    test.commit(25, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=20, in_controlled_shutdown=1))
    assert test.sent == [], "this broker does not wait for itself"


def test_a_new_active_controller_gets_a_heartbeat_at_once() -> None:
    test = running()
    test.commit(22, epoch=7)
    assert test.heartbeat().broker_epoch == 20
    test.commit(23, epoch=7)
    assert test.sent == []


def test_nothing_is_sent_after_close() -> None:
    test = running()
    test.lifecycle.close()
    assert test.timers.pending == 0
    test.timers.advance(5.0)
    assert test.sent == []


def test_a_close_ends_the_wait_for_a_controlled_shutdown() -> None:
    test = running()
    stopped = test.lifecycle.controlled_shutdown()
    assert not stopped.done
    test.lifecycle.close()
    assert stopped.done


@pytest.mark.parametrize(
    ("epochs", "previous"), [([7, 7], 7), ([7, -1], -1), ([7, 6], -1), ([], -1), ([-1], -1)]
)
def test_a_stop_was_clean_only_if_it_was_in_all_directories(epochs: list[int], previous: int) -> None:
    assert previous_broker_epoch(epochs) == previous


def test_a_registration_without_a_response_is_sent_again_before_the_registration_timeout() -> None:
    """A controller that lost its power does not close its connections."""
    test = Scenario()
    assert test.timeouts == [SETTINGS.request_timeout_s]
    assert SETTINGS.request_timeout_s < SETTINGS.registration_timeout_s
    _, promise = test.take()
    promise.fail(PeerError(Reason.TIMED_OUT, "no response"))
    test.timers.advance(SETTINGS.request_timeout_s)
    assert isinstance(test.sent[-1][0], BrokerRegistrationRequest)


def test_a_registration_has_the_rack_and_the_directories_that_are_online() -> None:
    log_dirs = [
        SimpleNamespace(online=online, directory_id=uuid.UUID(int=number), previous_broker_epoch=epoch)
        for number, online, epoch in ((3, True, 7), (2, False, -1), (1, True, 7))
    ]
    config = assemble({"broker.rack": "r1"}, {})
    request = registration(config, "cluster", [], cast(Any, log_dirs), random.Random(1))
    assert request.rack == "r1"
    assert request.log_dirs == [uuid.UUID(int=1), uuid.UUID(int=3)]
    assert request.previous_broker_epoch == 7


def test_a_registration_has_the_protocols_of_the_listeners() -> None:
    settings = {"listeners": "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:2"}
    config = assemble(settings, {})
    request = registration(config, "cluster", config.listeners, [], random.Random(1))
    assert [(each.name, each.security_protocol) for each in request.listeners] == [
        ("PLAINTEXT", 0),
        ("SSL", 1),
    ]
