"""The state machine of a broker, with time given by the test."""

from __future__ import annotations

import uuid

import pytest

from ottla.base.errors import ErrorCode
from ottla.config.broker import BrokerConfig
from ottla.node.membership.broker_state import (
    NOT_REGISTERED,
    BrokerState,
    BrokerStateMachine,
    LifecycleSettings,
    Step,
)

SETTINGS = LifecycleSettings(heartbeat_interval_s=2.0, registration_timeout_s=60.0, shutdown_timeout_s=30.0)
DIR = uuid.UUID(int=7)


def respond(
    machine: BrokerStateMachine,
    now: float,
    *,
    caught_up: bool = True,
    fenced: bool = False,
    should_shut_down: bool = False,
) -> None:
    machine.heartbeat_succeeded(
        now,
        is_caught_up=caught_up,
        is_fenced=fenced,
        should_shut_down=should_shut_down,
    )


def registered(now: float = 0.0) -> BrokerStateMachine:
    """A broker with epoch 5 that has not caught up."""
    machine = BrokerStateMachine(SETTINGS)
    machine.start(now)
    assert machine.next_step(now) is Step.REGISTER
    machine.registered(now, 5)
    return machine


def running(now: float = 0.0) -> BrokerStateMachine:
    machine = registered(now)
    machine.caught_up(now, 5)
    machine.ready(now)
    assert machine.next_step(now) is Step.HEARTBEAT
    respond(machine, now)
    machine.image_applied(now, fenced=False)
    assert machine.state is BrokerState.RUNNING
    return machine


def test_the_first_step_is_a_registration_and_only_one_request_is_in_flight() -> None:
    machine = BrokerStateMachine(SETTINGS)
    assert machine.next_step(0.0) is None
    machine.start(1.0)
    assert machine.state is BrokerState.STARTING
    assert machine.next_step(1.0) is Step.REGISTER
    assert machine.next_step(1.0) is None
    assert machine.broker_epoch == NOT_REGISTERED


def test_a_registration_that_fails_is_repeated_until_it_takes_too_long() -> None:
    machine = BrokerStateMachine(SETTINGS)
    machine.start(0.0)
    machine.next_step(0.0)
    machine.registration_failed(0.0)
    assert machine.next_step(0.05) is None
    assert machine.next_step(0.1) is Step.REGISTER
    assert machine.next_due() == 60.0
    assert not machine.registration_expired(59.9)
    assert machine.registration_expired(60.0)


def test_the_time_for_a_registration_ends_with_it() -> None:
    machine = registered()
    assert not machine.registration_expired(1000.0)
    assert machine.next_due() == 2.0


def test_a_broker_wants_to_be_fenced_until_it_has_caught_up_and_is_ready() -> None:
    machine = registered()
    assert machine.want_fence
    machine.caught_up(0.1, 4)
    assert machine.want_fence, "that was an earlier registration"
    machine.caught_up(0.1, 5)
    assert machine.want_fence
    machine.ready(0.2)
    assert not machine.want_fence
    assert machine.next_step(0.2) is Step.HEARTBEAT, "the next heartbeat is sent at once"


def test_ready_before_caught_up_keeps_the_fence() -> None:
    machine = registered()
    machine.ready(0.1)
    assert machine.want_fence
    machine.caught_up(0.2, 5)
    assert not machine.want_fence


def test_an_earlier_registration_does_not_end_the_fence_of_a_broker_that_is_ready() -> None:
    machine = registered()
    machine.ready(0.1)
    machine.caught_up(0.2, 4)
    assert machine.want_fence


def test_a_broker_that_registers_again_catches_up_again() -> None:
    machine = running()
    machine.registered(1.0, 9)
    assert machine.want_fence
    machine.caught_up(1.1, 5)
    assert machine.want_fence
    machine.caught_up(1.2, 9)
    assert not machine.want_fence


def test_states_follow_the_responses() -> None:
    machine = registered()
    machine.caught_up(0.0, 5)
    assert machine.next_step(0.0) is Step.HEARTBEAT
    respond(machine, 0.0, caught_up=False, fenced=True)
    assert machine.state is BrokerState.STARTING
    assert machine.next_step(1.9) is None
    assert machine.next_step(2.0) is Step.HEARTBEAT
    respond(machine, 2.0, fenced=True)
    assert machine.state is BrokerState.RECOVERY
    machine.ready(2.1)
    machine.next_step(2.1)
    respond(machine, 2.1, fenced=True)
    assert machine.state is BrokerState.RECOVERY
    assert machine.next_step(2.2) is Step.HEARTBEAT, "a broker that wants to be unfenced tries again soon"
    respond(machine, 2.2, fenced=False)
    assert machine.state is BrokerState.RUNNING
    assert machine.next_due() == 4.2


def test_a_fenced_broker_that_runs_sends_a_heartbeat_at_once() -> None:
    machine = running()
    assert machine.next_step(1.0) is None
    machine.image_applied(1.0, fenced=True)
    assert machine.next_step(1.0) is Step.HEARTBEAT
    machine.image_applied(1.1, fenced=True)
    respond(machine, 1.2)
    assert machine.next_due() == 3.2, "the same state in another image is nothing new"


def test_an_event_during_a_heartbeat_is_reported_right_after_it() -> None:
    machine = running()
    assert machine.next_step(2.0) is Step.HEARTBEAT
    machine.directory_failed(2.1, DIR)
    assert machine.next_step(2.1) is None
    respond(machine, 2.2)
    assert machine.next_step(2.2) is Step.HEARTBEAT
    assert machine.offline_dirs == [DIR]
    respond(machine, 2.3)
    assert machine.offline_dirs == [DIR]
    machine.directory_failed(2.4, DIR)
    assert machine.next_step(2.4) is None


def test_a_failed_heartbeat_is_repeated_soon() -> None:
    machine = running()
    machine.next_step(2.0)
    machine.heartbeat_failed(3.5, None)
    assert machine.next_step(3.5) is None
    assert machine.next_step(3.6) is Step.HEARTBEAT
    assert machine.state is BrokerState.RUNNING


def test_a_broker_that_is_not_known_any_more_registers_again() -> None:
    for code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
        machine = running()
        machine.next_step(2.0)
        machine.heartbeat_failed(2.0, code)
        assert machine.state is BrokerState.STARTING
        assert machine.next_step(2.1) is Step.REGISTER
        machine.registered(2.2, 9)
        assert machine.want_fence, "until it has caught up with the new registration"
        machine.caught_up(2.3, 9)
        assert not machine.want_fence
        assert machine.next_step(2.3) is Step.HEARTBEAT
        respond(machine, 2.3)
        assert (machine.state, machine.broker_epoch) == (BrokerState.RUNNING, 9)


def test_controlled_shutdown_waits_for_the_controller() -> None:
    machine = running()
    machine.begin_controlled_shutdown(1.0)
    assert machine.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    assert machine.want_shut_down
    assert machine.next_step(1.0) is Step.HEARTBEAT
    respond(machine, 1.0)
    machine.begin_controlled_shutdown(1.01)
    assert machine.next_step(1.05) is Step.HEARTBEAT, "it does not wait for the interval"
    respond(machine, 1.1, should_shut_down=True)
    assert machine.state is BrokerState.SHUTTING_DOWN
    assert machine.next_step(9.0) is None
    assert machine.next_due() is None


def test_controlled_shutdown_ends_without_a_controller_and_after_its_timeout() -> None:
    alone = running()
    alone.begin_controlled_shutdown(1.0)
    alone.next_step(1.0)
    alone.heartbeat_failed(2.5, None)
    assert alone.state is BrokerState.SHUTTING_DOWN
    slow = running()
    slow.begin_controlled_shutdown(1.0)
    slow.next_step(1.0)
    respond(slow, 30.9)
    assert slow.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    slow.next_step(31.0)
    respond(slow, 31.0)
    assert slow.state is BrokerState.SHUTTING_DOWN


def test_a_broker_that_never_ran_stops_at_once() -> None:
    machine = registered()
    machine.begin_controlled_shutdown(0.5)
    assert machine.state is BrokerState.SHUTTING_DOWN
    machine.ready(0.6)
    assert machine.next_step(0.6) is None


def settings_of(**values: int) -> LifecycleSettings:
    texts = {key.replace("_", "."): str(value) for key, value in values.items()}
    return LifecycleSettings.from_config(
        BrokerConfig({"node.id": "1", "process.roles": "broker,controller", **texts})
    )


def test_a_session_has_room_for_several_heartbeats() -> None:
    short = settings_of(broker_session_timeout_ms=2400, broker_heartbeat_interval_ms=2000)
    assert short.heartbeat_interval_s == pytest.approx(0.8)
    assert short.request_timeout_s == 1.2, "a request without a response leaves time for another one"
    long = settings_of(broker_session_timeout_ms=9000, broker_heartbeat_interval_ms=2000)
    assert (long.heartbeat_interval_s, long.request_timeout_s) == (2.0, 1.5)


def test_the_time_for_a_registration_is_a_setting() -> None:
    assert settings_of(initial_broker_registration_timeout_ms=45_000).registration_timeout_s == 45.0
