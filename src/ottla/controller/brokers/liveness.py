"""Evidence that brokers have ended: which brokers the active controller watches, and what follows from a loss.

While this node is the active controller it watches every other registered broker (`BrokerWatch`). A new active
controller starts at once with all of them, so it learns in milliseconds which brokers are down and does not wait for a
session to time out. Brokers that are lost in one iteration of the event loop are reported together, so that they are
fenced in one batch.

Evidence may be wrong. Fencing is always safe, and a broker that runs is unfenced by its next heartbeat.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from ottla.metadata.image import BrokerImage, Endpoint, MetadataImage


class BrokerWatch(Protocol):
    """Keeps a connection to each watched broker and calls `Liveness.broker_lost` when there is evidence of its end."""

    def watch(self, broker_id: int, host: str, port: int, protocol: int) -> None:
        """Watch a broker; again after each registration of it."""
        ...

    def unwatch(self, broker_id: int) -> None: ...


class Liveness:
    """The brokers that are watched, by the registration for which the watch was started."""

    def __init__(
        self,
        node_id: int,
        listener_name: str,
        on_lost: Callable[[list[int]], None],
        defer: Callable[[Callable[[], None]], object],
    ) -> None:
        """`on_lost` gets brokers whose registration is still the one that was watched. `defer` calls it later."""
        self._node_id = node_id
        self._listener_name = listener_name
        self._on_lost = on_lost
        self._defer = defer
        self._watch: BrokerWatch | None = None
        self._watched: dict[int, tuple[int, Endpoint]] = {}
        self._lost: dict[int, int] = {}
        self._image: MetadataImage | None = None

    def attach(self, watch: BrokerWatch) -> None:
        """Use a watch from now on."""
        self._watch = watch
        if self._image is not None:
            self.follow(self._image.brokers, self._image)

    def activate(self, image: MetadataImage) -> None:
        """This node is the active controller: watch every registered broker."""
        self.follow(image.brokers, image)

    def deactivate(self) -> None:
        """This node is not the active controller any more."""
        for broker_id in list(self._watched):
            self._unwatch(broker_id)
        self._lost.clear()
        self._image = None

    def follow(self, changed: Iterable[int], image: MetadataImage) -> None:
        """Follow changed registrations."""
        self._image = image
        if self._watch is None:
            return
        for broker_id in changed:
            if broker_id == self._node_id:
                continue
            broker = image.brokers.get(broker_id)
            endpoint = None if broker is None else self._endpoint(broker)
            if broker is None or endpoint is None:
                self._unwatch(broker_id)
            elif self._watched.get(broker_id) != (broker.epoch, endpoint):
                self._watched[broker_id] = (broker.epoch, endpoint)
                self._watch.watch(broker_id, endpoint.host, endpoint.port, endpoint.security_protocol)

    def _endpoint(self, broker: BrokerImage) -> Endpoint | None:
        named = [each for each in broker.endpoints if each.name == self._listener_name]
        return next(iter(named or broker.endpoints), None)

    def _unwatch(self, broker_id: int) -> None:
        if self._watched.pop(broker_id, None) is not None and self._watch is not None:
            self._watch.unwatch(broker_id)

    def broker_lost(self, broker_id: int) -> None:
        """There is evidence that a watched broker has ended."""
        watched = self._watched.get(broker_id)
        if watched is None:
            return
        if not self._lost:
            self._defer(self._report)
        self._lost[broker_id] = watched[0]

    def _report(self) -> None:
        lost, self._lost = self._lost, {}
        current = [
            broker_id
            for broker_id, epoch in lost.items()
            if broker_id in self._watched and self._watched[broker_id][0] == epoch
        ]
        if current:
            self._on_lost(current)
