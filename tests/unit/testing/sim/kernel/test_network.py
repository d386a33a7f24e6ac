"""Tests of simulated connections: opening, sending, closing, and what a killed or switched-off host does to them."""

from __future__ import annotations

import pytest

from ottla.testing.disk import Survival
from ottla.testing.sim.kernel.sockets import Socket
from tests.support.simulated_hosts import Pair, received


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_a_connection_is_reported_after_a_round_trip(pair: Pair) -> None:
    pair.connect()
    assert pair.outcomes == []
    pair.run()

    assert isinstance(pair.outcomes[0], Socket)
    assert pair.listening.readable()
    assert pair.kernel.now_us >= 200


def test_a_port_without_listener_refuses(pair: Pair) -> None:
    pair.connect(port=1)
    pair.run()

    assert isinstance(pair.outcomes[0], ConnectionRefusedError)


def test_an_unknown_host_is_reported_in_a_later_event(pair: Pair) -> None:
    pair.connect("nowhere")
    assert pair.outcomes == []
    pair.run()

    assert isinstance(pair.outcomes[0], OSError)


def test_a_host_that_is_switched_off_does_not_respond(pair: Pair) -> None:
    pair.b.power_off(Survival.NONE)
    pair.connect()
    pair.run()

    assert pair.outcomes == []


def test_a_cancelled_attempt_reports_nothing_and_closes_the_connection(pair: Pair) -> None:
    pair.connect()
    pair.cancel()
    pair.run()

    assert pair.outcomes == []
    assert received(pair.listening.accept()[0]) == b""
    assert pair.a.sockets == []


def test_data_arrives_in_order_and_before_the_end_of_the_stream(pair: Pair) -> None:
    ours, theirs = pair.connected()
    for number in range(20):
        ours.send(b"%d," % number)
    ours.close()
    pair.run()

    assert received(theirs) == b"".join(b"%d," % number for number in range(20))
    assert theirs.recv_into(memoryview(bytearray(1))) == 0


def test_data_for_a_closed_end_resets_the_connection(pair: Pair) -> None:
    ours, theirs = pair.connected()
    theirs.close()
    ours.send(b"late")
    pair.run()

    with pytest.raises(OSError, match="reset"):
        received(ours)


def test_a_closed_end_with_unread_data_resets_the_connection(pair: Pair) -> None:
    ours, theirs = pair.connected()
    ours.send(b"not read")
    pair.run()
    theirs.close()
    pair.run()

    with pytest.raises(OSError, match="reset"):
        ours.send(b"more")


def test_a_full_buffer_blocks_the_sender_until_the_receiver_reads(pair: Pair) -> None:
    ours, theirs = pair.connected()
    seen: list[int] = []
    ours.send(bytes(1 << 20))
    with pytest.raises(BlockingIOError):
        ours.send(b"x")
    pair.process_a.add_writer(ours, lambda: (seen.append(1), pair.process_a.remove_writer(ours)))
    pair.run()
    assert seen == []

    received(theirs)
    pair.run()

    assert seen == [1]


def test_a_killed_process_closes_its_connections_and_its_port(pair: Pair) -> None:
    ours, _ = pair.connected()
    pair.b.kill()
    pair.run()
    assert ours.recv_into(memoryview(bytearray(1))) == 0

    pair.connect()
    pair.run()

    assert isinstance(pair.outcomes[0], ConnectionRefusedError)


def test_connections_to_a_host_without_power_stay_open_until_data_is_sent_after_its_restart(
    pair: Pair,
) -> None:
    ours, _ = pair.connected()
    pair.b.power_off(Survival.NONE)
    ours.send(b"lost")
    pair.run()
    assert not ours.broken

    pair.b.power_on()
    ours.send(b"unknown connection")
    pair.run()

    assert ours.broken


def test_resetting_a_connection_resets_both_ends_and_loses_what_is_in_flight(pair: Pair) -> None:
    ours, theirs = pair.connected()
    ours.send(b"lost")
    assert pair.network.reset_connections(pair.a, pair.b) == 1
    pair.run()

    for end in (ours, theirs):
        with pytest.raises(OSError, match="reset"):
            received(end)


def test_a_paused_process_accepts_connections_and_data_later(pair: Pair) -> None:
    accepted: list[int] = []
    pair.process_b.add_reader(
        pair.listening, lambda: (pair.listening.accept(), accepted.append(pair.kernel.now_us))
    )
    pair.b.pause(500)
    pair.connect()
    pair.run()

    assert len(pair.outcomes) == 1
    assert accepted[0] >= 500_000
