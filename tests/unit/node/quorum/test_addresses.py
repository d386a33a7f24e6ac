"""The addresses of controllers reach everything that follows them."""

from __future__ import annotations

from ottla.node.quorum.addresses import ControllerAddresses
from ottla.node.settings.quorum_config import VoterAddress


def test_a_follower_gets_the_known_addresses_and_each_new_one_once() -> None:
    addresses = ControllerAddresses(1, [VoterAddress(1, "own", 1), VoterAddress(2, "two", 2)])
    seen: list[tuple[int, str, int]] = []
    addresses.follow(lambda *address: seen.append(address))
    addresses.set(3, "three", 3)
    addresses.set(3, "three", 3)
    addresses.set(2, "moved", 9)
    addresses.set(1, "own", 7)
    assert seen == [(2, "two", 2), (3, "three", 3), (2, "moved", 9)]
