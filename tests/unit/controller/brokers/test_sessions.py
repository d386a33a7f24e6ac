"""Sessions of brokers, and the table of their states."""

from __future__ import annotations

import pytest

from ottla.controller.brokers.sessions import BrokerState, Sessions, next_state
from ottla.metadata.image import MetadataImage
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.support.metadata import broker_record, replayed

FENCED, UNFENCED = BrokerState.FENCED, BrokerState.UNFENCED
STOPPING, STOP = BrokerState.CONTROLLED_SHUTDOWN, BrokerState.SHUTDOWN_NOW


def brokers(*fenced: int) -> MetadataImage:
    return replayed(broker_record(each, fenced=each in fenced, epoch=each) for each in (1, 2, 3))


def sessions() -> Sessions:
    return Sessions(3.0, 1.5)


def test_new_controller_gives_unfenced_brokers_one_timeout() -> None:
    image, made = brokers(3), sessions()
    made.start(image.brokers.values(), 10.0)
    assert made.next_deadline(image) == pytest.approx(12.4)
    assert made.expired(image, 12.3) == []
    assert made.expired(image, 12.5) == [1, 2]


@pytest.mark.parametrize(("elapsed", "deadline"), [(0.0, 12.4), (1.0, 11.4), (1.5, 11.0), (2.9, 11.0)])
def test_time_without_acknowledged_heartbeats_shortens_the_first_timeout(
    elapsed: float, deadline: float
) -> None:
    image, made = brokers(), sessions()
    made.start(image.brokers.values(), 10.0, elapsed=elapsed)
    assert made.next_deadline(image) == pytest.approx(deadline)


def test_heartbeat_renews_a_session() -> None:
    image, made = brokers(3), sessions()
    made.start(image.brokers.values(), 10.0)
    made.heartbeat(1, 1, 12.0)
    assert made.expired(image, 14.9) == [2]
    assert made.expired(image, 15.0) == [1, 2]
    made.stop()
    assert made.expired(image, 99.0) == []
    assert made.next_deadline(image) is None


def test_session_of_an_earlier_registration_does_not_expire() -> None:
    image, made = brokers(), sessions()
    made.heartbeat(1, 0, 10.0)
    assert made.expired(image, 99.0) == []


def test_the_session_of_a_new_registration_has_nothing_of_the_earlier_one() -> None:
    image, made = brokers(), sessions()
    earlier = made.heartbeat(1, 0, 10.0)
    earlier.metadata_offset, earlier.shutdown_offset = 9, 9
    session = made.heartbeat(1, 1, 11.0)
    assert (session.metadata_offset, session.shutdown_offset) == (-1, None)
    assert made.expired(image, 14.0) == [1]


def test_time_in_which_the_controller_could_not_run_does_not_count() -> None:
    image, made = brokers(), sessions()
    made.heartbeat(1, 1, 10.0)
    made.extend(5.0)
    assert made.expired(image, 17.9) == []
    assert made.expired(image, 18.0) == [1]


@pytest.mark.parametrize(
    ("same_place", "silence", "alive"),
    [(False, 2.9, True), (False, 3.0, False), (True, 1.4, True), (True, 1.5, False)],
)
def test_life_after_silence(same_place: bool, silence: float, alive: bool) -> None:
    made = sessions()
    made.heartbeat(1, 7, 10.0)
    assert made.is_alive(1, 7, 10.0 + silence, is_same_place=same_place) == alive
    assert not made.is_alive(1, 6, 10.0, is_same_place=same_place)


def test_no_time_is_set_for_fenced_brokers() -> None:
    made = sessions()
    made.heartbeat(3, 3, 10.0)
    assert made.next_deadline(brokers(3)) is None
    assert made.next_deadline(brokers()) == 13.0


def test_only_a_heartbeat_confirms_a_session() -> None:
    image, made = brokers(), sessions()
    made.start(image.brokers.values(), 10.0)
    assert not made.is_alive(1, 1, 10.0, is_same_place=False)
    made.heartbeat(1, 1, 10.0)
    made.end(1)
    assert not made.is_alive(1, 1, 10.0, is_same_place=False)


def test_what_active_brokers_have_applied() -> None:
    image, made = brokers(3), sessions()
    made.heartbeat(1, 1, 10.0).metadata_offset = 7
    assert not made.have_applied(image, 5), "nothing is known of broker 2"
    made.heartbeat(2, 2, 10.0).metadata_offset = 5
    assert made.have_applied(image, 5)
    assert not made.have_applied(image, 6)


@pytest.mark.parametrize(
    ("current", "want_fence", "want_stop", "caught_up", "leads", "applied", "after"),
    [
        (FENCED, False, False, True, False, False, UNFENCED),
        (FENCED, False, False, False, False, False, FENCED),
        (FENCED, True, False, True, False, False, FENCED),
        (FENCED, False, True, True, False, False, STOP),
        (UNFENCED, False, False, True, True, False, UNFENCED),
        (UNFENCED, True, False, True, True, False, FENCED),
        (UNFENCED, True, True, True, True, False, STOP),
        (UNFENCED, False, True, True, True, False, STOPPING),
        (UNFENCED, False, True, True, False, False, STOP),
        (STOPPING, False, True, True, True, True, STOPPING),
        (STOPPING, False, True, True, False, False, STOPPING),
        (STOPPING, False, True, True, False, True, STOP),
    ],
)
def test_transitions(
    current: BrokerState,
    want_fence: bool,
    want_stop: bool,
    caught_up: bool,
    leads: bool,
    applied: bool,
    after: BrokerState,
) -> None:
    request = BrokerHeartbeatRequest(want_fence=want_fence, want_shut_down=want_stop)
    assert (
        next_state(
            current, request, may_be_unfenced=caught_up, leads=leads, have_others_applied=lambda: applied
        )
        is after
    )
