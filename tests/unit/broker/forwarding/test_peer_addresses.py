"""Addresses of the other brokers from images."""

from __future__ import annotations

from ottla.base.ids import ZERO_UUID
from ottla.broker.forwarding.peer_addresses import PeerAddresses
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import BrokerImage, Endpoint, MetadataImage


class Table:
    def __init__(self) -> None:
        self.addresses: dict[int, tuple[str, int]] = {}

    def set_address(self, node_id: int, host: str, port: int) -> None:
        self.addresses[node_id] = (host, port)

    def remove(self, node_id: int) -> None:
        self.addresses.pop(node_id, None)


def image(**ports: int) -> MetadataImage:
    """Brokers `b1`, `b2` … with the listeners INTERNAL at the given port and EXTERNAL at the next one."""
    brokers = {}
    for name, port in ports.items():
        endpoints = (Endpoint("EXTERNAL", "out", port + 1), Endpoint("INTERNAL", "in", port))
        brokers[int(name[1:])] = BrokerImage(int(name[1:]), 5, ZERO_UUID, endpoints)
    return MetadataImage(brokers=brokers)


def test_addresses_follow_the_registrations_of_other_brokers() -> None:
    table, second = Table(), Table()
    addresses = PeerAddresses(1, "INTERNAL", table, second)
    before = image(b1=100, b2=200, b3=300)
    addresses.load(before)
    assert table.addresses == {2: ("in", 200), 3: ("in", 300)}
    after = image(b1=100, b2=250, b4=400)
    addresses.apply(MetadataDelta.between(before, after), after)
    assert table.addresses == {2: ("in", 250), 4: ("in", 400)}
    assert second.addresses == table.addresses


def test_a_broker_without_the_listener_has_no_address() -> None:
    table = Table()
    PeerAddresses(1, "OTHER", table).load(image(b2=200))
    assert table.addresses == {}
