"""Tests of links: delay, loss, bandwidth and cuts, each in one direction."""

from __future__ import annotations

import pytest

from ottla.testing.sim.kernel.links import Conditions
from tests.support.simulated_hosts import Pair, received


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_a_cut_delivers_nothing_in_its_direction_until_it_is_restored(pair: Pair) -> None:
    ours, theirs = pair.connected()
    pair.there.cut()
    ours.send(b"there")
    theirs.send(b"back")
    pair.run()
    assert (received(theirs), received(ours)) == (b"", b"back")

    pair.there.restore()
    pair.run()

    assert received(theirs) == b"there"


def test_a_cut_for_a_while_ends_by_itself(pair: Pair) -> None:
    ours, theirs = pair.connected()
    start_us = pair.kernel.now_us
    pair.there.cut(50)
    pair.there.cut(20)
    ours.send(b"x")
    pair.run(30)
    assert received(theirs) == b""

    pair.run()

    assert received(theirs) == b"x"
    assert pair.kernel.now_us >= start_us + 50_000


def test_a_cut_for_a_while_does_not_end_an_unlimited_cut(pair: Pair) -> None:
    ours, theirs = pair.connected()
    pair.there.cut()
    pair.there.cut(20)
    ours.send(b"x")
    pair.run()

    assert received(theirs) == b""


def test_an_attempt_to_connect_over_a_cut_link_gets_no_response(pair: Pair) -> None:
    pair.back.cut()
    pair.connect()
    pair.run()
    assert pair.outcomes == []

    pair.back.restore()
    pair.run()

    assert len(pair.outcomes) == 1


def test_a_slow_link_delays_by_size_and_only_its_own_direction(pair: Pair) -> None:
    ours, theirs = pair.connected()
    slow = Conditions()
    slow.bytes_per_ms = 10
    pair.there.conditions = slow
    start_us = pair.kernel.now_us
    ours.send(bytes(1000))
    theirs.send(bytes(1000))
    pair.run(99)
    assert (len(received(theirs)), len(received(ours))) == (0, 1000)

    pair.run()

    assert len(received(theirs)) == 1000
    assert pair.kernel.now_us >= start_us + 100_000


def test_lost_packets_stall_a_stream_but_do_not_reorder_it(pair: Pair) -> None:
    ours, theirs = pair.connected()
    pair.there.conditions = Conditions()
    pair.there.conditions.loss_chance = 0.3
    start_us = pair.kernel.now_us
    for number in range(20):
        ours.send(b"%d," % number)
    pair.run()

    assert received(theirs) == b"".join(b"%d," % number for number in range(20))
    assert pair.kernel.now_us - start_us > 200_000


def test_messages_on_two_connections_overtake_each_other() -> None:
    def order(seed: int) -> str:
        pair = Pair(seed)
        ends = [pair.connected() for _ in range(2)]
        seen: list[str] = []
        for name, (_, theirs) in zip("ab", ends, strict=True):
            theirs.on_change = lambda name=name: seen.append(name)
        for ours, _ in ends:
            ours.send(b"x")
        pair.run()
        return "".join(seen)

    assert {order(seed) for seed in range(10)} == {"ab", "ba"}


def test_a_link_that_resets_breaks_the_connection_of_a_message(pair: Pair) -> None:
    ours, theirs = pair.connected()
    pair.there.conditions = Conditions()
    pair.there.conditions.reset_chance = 1.0
    theirs.send(b"back")
    pair.run()
    assert received(ours) == b"back"

    ours.send(b"there")
    pair.run()

    assert ours.broken
    assert theirs.broken


def test_restoring_hosts_ends_cuts_and_conditions_of_single_links(pair: Pair) -> None:
    ours, theirs = pair.connected()
    pair.there.conditions = Conditions()
    pair.there.conditions.reset_chance = 1.0
    pair.back.cut()
    theirs.send(b"back")
    pair.network.restore({pair.a, pair.b})
    ours.send(b"there")
    pair.run()

    assert (received(ours), received(theirs)) == (b"back", b"there")


def test_the_delays_of_a_link_do_not_depend_on_other_links() -> None:
    def arrival_us(others: int) -> int:
        pair = Pair()
        ours, _ = pair.connected()
        other = pair.network.add_host("c")
        link = pair.network.link(pair.a, other)
        for _ in range(others):
            link.transmit(ours, 0, lambda: None)
        pair.there.transmit(ours.peer, 0, lambda: None)
        return ours.peer.last_arrival_us

    assert arrival_us(0) == arrival_us(10)
