"""`ottla.testing.Cluster`: a cluster of real broker processes on free ports of the loopback interface, with faults.

    with Cluster(brokers=3) as cluster:
        app.publish(cluster.bootstrap)
        cluster.kill(cluster.leader("scores"))
        app.publish(cluster.bootstrap)

All connections pass through proxies in this process, so that `disconnect` separates a broker from the others and from
clients, and `network` can delay, slow down, cut or reset single links. `proxies=False` gives direct connections, which
are faster and cannot be disconnected. Without `data` the brokers use a temporary directory: it is removed at the end,
and the brokers are killed instead of stopped cleanly. A cluster runs once: after its end no broker can be started.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path

from ottla.local.cluster import BrokerPorts, LocalCluster, free_broker_ports
from ottla.testing.proxy import CLIENT, NO_FAULT, Fault, Pair, ProxyNetwork


class _State(Enum):
    """The life of a cluster, each as the end of a sentence about it."""

    NEW = "has not been started: use it in a with statement"
    RUNNING = "has been started already"
    ENDED = "has ended: create another one, with data=… to keep its records"


class Cluster(LocalCluster):
    """Broker processes, their proxies and their faults. Use it as a context manager."""

    def __init__(
        self,
        brokers: int = 3,
        racks: Sequence[str] | None = None,
        config: Mapping[str, str] | None = None,
        data: Path | str | None = None,
        *,
        proxies: bool = True,
    ) -> None:
        if isinstance(racks, str):
            raise TypeError(f"racks is a list of names, as in racks={racks.split(',')}, not a text")
        self._state = _State.NEW
        self._network: ProxyNetwork | None = None
        self._temporary = None if data is not None else Path(tempfile.mkdtemp(prefix="ottla-cluster-"))
        try:
            ports = free_broker_ports(2 * brokers if proxies else brokers)
            hidden, advertised = ports[:brokers], ports[-brokers:]
            super().__init__(
                self._temporary or Path(data or ""),
                brokers,
                racks=racks or (),
                config=config,
                ports=[
                    BrokerPorts(own.client, own.controller, shown.client, shown.controller)
                    for own, shown in zip(hidden, advertised, strict=True)
                ],
            )
        except BaseException:
            self._clean_up()
            raise
        if proxies:
            self._network = ProxyNetwork(self._processes)

    @property
    def network(self) -> ProxyNetwork:
        """The proxies, for faults of single links."""
        self._check(_State.RUNNING)
        if self._network is None:
            raise RuntimeError("the cluster has no proxies")
        return self._network

    def _check(self, expected: _State) -> None:
        if self._state is not expected:
            raise RuntimeError(f"the cluster {self._state.value}")

    def _processes(self) -> dict[int, int]:
        return {node_id: broker.pid for node_id, broker in self.brokers.items() if broker.running}

    def start(self, stop: threading.Event | None = None) -> Cluster:
        self._check(_State.NEW)
        self._state = _State.RUNNING
        try:
            if self._network is not None:
                for node_id, ports in enumerate(self._ports):
                    self._network.add(node_id, ports.advertised_client, ports.client)
                    self._network.add(node_id, ports.advertised_controller, ports.controller)
            super().start(stop)
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._temporary is None:
                self.stop_all()
            else:
                self.kill_all()
        finally:
            self._clean_up()

    def _clean_up(self) -> None:
        self._state = _State.ENDED
        if self._network is not None:
            self._network.shut_down()
            self._network = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def kill(self, node_id: int) -> None:
        self.broker(node_id)
        self._refuse_connections(node_id)
        super().kill(node_id)

    def kill_all(self) -> None:
        for node_id in self.brokers:
            self._refuse_connections(node_id)
        super().kill_all()

    def stop(self, node_id: int) -> None:
        super().stop(node_id)
        self._refuse_connections(node_id)

    def _refuse_connections(self, node_id: int) -> None:
        """A killed process refuses connections. Its proxy must not accept them on its behalf."""
        if self._network is not None:
            self._network.close_listeners(node_id)

    def restart_all(self, node_ids: Iterable[int] | None = None) -> None:
        self._check(_State.RUNNING)
        super().restart_all(node_ids)

    def _prepare_restart(self, node_id: int) -> None:
        if self._network is not None:
            self._network.open(node_id)

    def disconnect(self, node_id: int) -> None:
        """Cut a broker off from the other brokers and from clients: both sides see silence, nothing is closed."""
        self.network.set_faults(dict.fromkeys(self._pairs(node_id), Fault(cut=True)))

    def reconnect(self, node_id: int) -> None:
        """Remove all faults of the links of a broker."""
        self.network.set_faults(dict.fromkeys(self._pairs(node_id), NO_FAULT))

    def slow_down(self, origin: int, target: int, *, delay_s: float = 0.0, rate: int | None = None) -> None:
        """Delay the bytes from one broker to another, or limit them to `rate` per second."""
        self.network.set_fault(origin, target, Fault(delay_s=delay_s, rate=rate))

    def _pairs(self, node_id: int) -> list[Pair]:
        self.broker(node_id)
        others = [CLIENT, *(each for each in self.brokers if each != node_id)]
        return [(node_id, other) for other in others] + [(other, node_id) for other in others]
