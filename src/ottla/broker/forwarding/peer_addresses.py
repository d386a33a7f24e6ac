"""Addresses of the other brokers, kept current from metadata images.

A broker is reached at its listener of the name `inter.broker.listener.name`. A fenced broker keeps its address: it may
be reachable. A broker that is no longer registered, or that has no such listener, has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import Endpoint, MetadataImage


class AddressTable(Protocol):
    """The part of `ottla.peer.peers.Peers` that is used here."""

    def set_address(self, node_id: int, host: str, port: int) -> None: ...

    def remove(self, node_id: int) -> None: ...


def broker_endpoint(image: MetadataImage, broker_id: int, listener_name: str) -> Endpoint | None:
    """The listener of a registered broker by its name."""
    broker = image.brokers.get(broker_id)
    endpoints = () if broker is None else broker.endpoints
    return next((each for each in endpoints if each.name == listener_name), None)


class PeerAddresses:
    """Follows the registrations of brokers. `load` once, then `apply` for each change."""

    def __init__(self, node_id: int, listener_name: str, *tables: AddressTable) -> None:
        self._node_id = node_id
        self._listener_name = listener_name
        self._tables = tables

    def load(self, image: MetadataImage) -> None:
        self._update(image.brokers, image)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follow the changed registrations; a listener of the metadata publisher."""
        self._update(delta.changed_brokers, image)

    def _update(self, broker_ids: Iterable[int], image: MetadataImage) -> None:
        for broker_id in broker_ids:
            if broker_id == self._node_id:
                continue
            endpoint = broker_endpoint(image, broker_id, self._listener_name)
            for table in self._tables:
                if endpoint is None:
                    table.remove(broker_id)
                else:
                    table.set_address(broker_id, endpoint.host, endpoint.port)
