"""A cluster of broker processes on this machine, with their data below one directory.

Node ids start at 0. Broker `i` has the data directory `broker-<i>` and belongs to a rack if racks are given: the
brokers are divided into contiguous blocks, one per rack. An odd number of brokers, at most five, are also controllers:
the first ones, or brokers of each rack in turn. Topics get replication factor min(3, brokers), and
`min.insync.replicas` 2 from three brokers on, unless `config` contains other values.

With `secure` the brokers use TLS, authentication and ACLs. Their credentials are created in that folder at the first
start.

`start` launches all processes at once and returns when each broker lists all brokers in its metadata, that is when all
are registered and unfenced. Not thread-safe.
"""

from __future__ import annotations

import datetime as dt
import ssl
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from ottla.base.clock import SystemClock
from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.local.broker_process import START_TIMEOUT_S, BrokerProcess
from ottla.local.ports import free_ports
from ottla.local.requests import request_controller, request_ends, request_metadata
from ottla.local.secure.folder import CLIENTS, CONTROLLER, NODES, NodePlan, SecureFolder
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponsePartition

LOOPBACK = "127.0.0.1"
REPLICATION_MAX = 3
MIN_IN_SYNC = 2
NO_LEADER = -1
VOTERS_MAX = 5
_HOSTS = ("localhost", LOOPBACK)
_CHECK_INTERVAL_S = 0.02


class BrokerPorts(NamedTuple):
    """The ports of one broker. Clients and other brokers connect to the advertised ones."""

    client: int
    controller: int
    advertised_client: int
    advertised_controller: int
    nodes: int = 0
    """The port for other brokers in a secured cluster."""

    @classmethod
    def direct(cls, client: int, controller: int, nodes: int = 0) -> BrokerPorts:
        return cls(client, controller, client, controller, nodes)


def free_broker_ports(brokers: int) -> list[BrokerPorts]:
    """Free ports for a number of brokers."""
    ports = free_ports(3 * brokers)
    return [BrokerPorts.direct(*each) for each in zip(ports[::3], ports[1::3], ports[2::3], strict=True)]


def rack_of(broker: int, brokers: int, racks: Sequence[str]) -> str | None:
    """The rack of a broker: contiguous blocks of brokers, as equal as possible."""
    return racks[broker * len(racks) // brokers] if racks else None


def voter_count(brokers: int) -> int:
    """How many of the brokers are also controllers. With an even number one failure more would not be survived."""
    return min(VOTERS_MAX, brokers if brokers % 2 else brokers - 1)


def choose_voters(brokers: int, racks: Sequence[str]) -> tuple[int, ...]:
    """The brokers that are also controllers, of each rack in turn: no rack of three or more has a majority of them."""
    in_rack: dict[str | None, int] = defaultdict(int)
    turns = []
    for broker in range(brokers):
        rack = rack_of(broker, brokers, racks)
        turns.append((in_rack[rack], broker))
        in_rack[rack] += 1
    return tuple(sorted(broker for _, broker in sorted(turns)[: voter_count(brokers)]))


class LocalCluster:
    """Broker processes that form one cluster. Use it as a context manager, or call `start` and `stop`."""

    def __init__(
        self,
        data: Path,
        brokers: int = 3,
        *,
        racks: Sequence[str] = (),
        config: Mapping[str, str] | None = None,
        ports: Sequence[BrokerPorts] | None = None,
        secure: SecureFolder | None = None,
        voters: Sequence[int] | None = None,
    ) -> None:
        """`voters` are the brokers that are also controllers, if they are known."""
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        if len(racks) > brokers:
            raise ValueError(f"{len(racks)} racks need at least as many brokers, not {brokers}")
        self.data = data
        self.racks = tuple(racks)
        self._ports = list(ports or free_broker_ports(brokers))
        self._secure = secure
        self._tls: ssl.SSLContext | None = None
        """How this process connects to the brokers of a secured cluster."""
        self.voters = tuple(voters or choose_voters(brokers, self.racks))
        quorum = ",".join(f"{id_}@{LOOPBACK}:{self._ports[id_].advertised_controller}" for id_ in self.voters)
        self.brokers: dict[int, BrokerProcess] = {}
        for node_id in range(brokers):
            settings = {**self._settings(node_id, brokers, quorum), **(config or {})}
            folder = data / f"broker-{node_id}"
            self.brokers[node_id] = self._process(node_id, folder, settings)
        if secure is not None:
            self._create_credentials(secure)
            self._tls = secure.node_context()

    def _process(self, node_id: int, folder: Path, settings: Mapping[str, str]) -> BrokerProcess:
        arguments: list[str] = []
        if self._secure is not None:
            arguments += ["--config", str(self._secure.server_properties(node_id))]
            arguments += ["--add-scram-file", str(self._secure.first_users)]
        return BrokerProcess(folder, settings, port=self._ports[node_id].client, arguments=arguments)

    def _create_credentials(self, secure: SecureFolder) -> None:
        if not secure.exists:
            if any((broker.data / "meta.properties").exists() for broker in self.brokers.values()):
                raise LocalError(
                    f"{self.data} has a cluster, but {secure.authority_certificate} does not exist. New credentials "
                    f"would not be those of its administrator: restore {secure.path}, or choose another --data"
                )
            plans = [NodePlan(node_id, _HOSTS, {}) for node_id in self.brokers]
            now = dt.datetime.fromtimestamp(SystemClock().now_ms() / 1000, dt.UTC)
            secure.create("Ottla", self.bootstrap, plans, now)

    def _settings(self, node_id: int, brokers: int, quorum: str) -> dict[str, str]:
        ports = self._ports[node_id]
        is_voter = node_id in self.voters
        listeners = {
            "PLAINTEXT" if self._secure is None else CLIENTS: (ports.client, ports.advertised_client)
        }
        if self._secure is not None:
            listeners[NODES] = (ports.nodes, ports.nodes)
        advertised = ",".join(f"{name}://{LOOPBACK}:{port}" for name, (_, port) in listeners.items())
        if is_voter:
            listeners[CONTROLLER] = (ports.controller, ports.advertised_controller)
        settings = {
            "node.id": str(node_id),
            "process.roles": "broker,controller" if is_voter else "broker",
            "listeners": ",".join(f"{name}://{LOOPBACK}:{port}" for name, (port, _) in listeners.items()),
            "advertised.listeners": advertised,
            "controller.quorum.voters": quorum,
            "default.replication.factor": str(min(REPLICATION_MAX, brokers)),
        }
        if brokers >= REPLICATION_MAX:
            settings["min.insync.replicas"] = str(MIN_IN_SYNC)
        if (rack := rack_of(node_id, brokers, self.racks)) is not None:
            settings["broker.rack"] = rack
        return settings

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, for clients."""
        return ",".join(self.address(node_id) for node_id in self.brokers)

    def address(self, node_id: int) -> str:
        """The address of one broker, for clients."""
        return f"{LOOPBACK}:{self._ports[node_id].advertised_client}"

    def controller_address(self, node_id: int) -> str:
        """The address of the controller listener of a voter."""
        return f"{LOOPBACK}:{self._ports[node_id].advertised_controller}"

    @property
    def running(self) -> list[int]:
        """The brokers whose process runs and is not paused."""
        return [id_ for id_, broker in self.brokers.items() if broker.running and not broker.paused]

    # --- start and stop

    def start(self, stop: threading.Event | None = None) -> Self:
        """Start all brokers and wait until each lists all of them, or until `stop` is set."""
        try:
            self.launch()
        except BaseException:
            self.kill_all()
            raise
        return self.wait_started(stop)

    def launch(self) -> None:
        """Start all processes and return at once; `wait_started` waits for them."""
        for broker in self.brokers.values():
            broker.launch()

    def wait_started(self, stop: threading.Event | None = None) -> Self:
        """Wait until each broker lists all of them, or until `stop` is set; all are killed if the start fails."""
        try:
            for broker in self.brokers.values():
                broker.wait_ready(stop)
            self.wait_registered(self.brokers, stop)
        except BaseException:
            self.kill_all()
            raise
        return self

    def stop_all(self) -> None:
        """Stop all brokers cleanly, at the same time."""
        for broker in self.brokers.values():
            broker.request_stop()
        failures = []
        for broker in self.brokers.values():
            try:
                broker.stop()
            except TimeoutError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    def kill_all(self) -> None:
        """SIGKILL to all brokers, so that none can react to the end of another."""
        for broker in self.brokers.values():
            broker.send_kill()
        for broker in self.brokers.values():
            broker.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop_all()

    # --- one broker

    def broker(self, node_id: int) -> BrokerProcess:
        """The process of a broker; ValueError if there is no broker of this id, such as the -1 of no leader."""
        if node_id not in self.brokers:
            raise ValueError(
                f"there is no broker {node_id}; the brokers are {', '.join(map(str, self.brokers))}"
            )
        return self.brokers[node_id]

    def kill(self, node_id: int) -> None:
        """SIGKILL: the process ends at once, and its sockets are closed by the kernel."""
        self.broker(node_id).kill()

    def stop(self, node_id: int) -> None:
        """Stop a broker cleanly: it hands over its leaderships first."""
        self.broker(node_id).stop()

    def pause(self, node_id: int) -> None:
        """SIGSTOP: the process does nothing, and its sockets stay open."""
        self.broker(node_id).pause()

    def resume(self, node_id: int) -> None:
        """SIGCONT after `pause`."""
        self.broker(node_id).resume()

    def restart(self, node_id: int) -> None:
        """Start a broker that was stopped or killed, and wait until all running brokers list it."""
        self.restart_all([node_id])

    def restart_all(self, node_ids: Iterable[int] | None = None) -> None:
        """As `restart`, for several brokers at the same time; without an argument for all that do not run."""
        if node_ids is None:
            node_ids = [id_ for id_, broker in self.brokers.items() if not broker.running]
        node_ids = list(node_ids)
        for broker in [self.broker(node_id) for node_id in node_ids]:
            broker.kill()
        for node_id in node_ids:
            self._prepare_restart(node_id)
            self.brokers[node_id].launch()
        for node_id in node_ids:
            self.brokers[node_id].wait_ready()
        self.wait_registered(node_ids)

    def _prepare_restart(self, node_id: int) -> None:
        """Called before a process is started again."""

    # --- metadata

    def metadata(self, topics: Iterable[str] | None = (), at: int | None = None) -> MetadataResponse | None:
        """The metadata of one broker; without `at`, of the first that responds. None if none responds."""
        for node_id in self.running if at is None else [at]:
            response = request_metadata(LOOPBACK, self._port(node_id), topics, tls=self._tls)
            if response is not None:
                return response
        return None

    def partition(
        self, topic: str, partition: int, at: int | None = None
    ) -> MetadataResponsePartition | None:
        """Leader, replicas and in-sync replicas of a partition; None if it is unknown."""
        response = self.metadata([topic], at)
        found = [] if response is None else [each for one in response.topics for each in one.partitions]
        return next((each for each in found if each.partition_index == partition), None)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The leader of a partition, or -1."""
        found = self.partition(topic, partition)
        return NO_LEADER if found is None else found.leader_id

    def in_sync(self, topic: str, partition: int = 0, at: int | None = None) -> set[int]:
        """The in-sync replicas of a partition."""
        found = self.partition(topic, partition, at)
        return set() if found is None else set(found.isr_nodes)

    def controller(self) -> int | None:
        """The node id of the active controller; None if no broker knows it."""
        for node_id in self.running:
            if (found := request_controller(LOOPBACK, self._port(node_id), tls=self._tls)) is not None:
                return found
        return None

    def ends(self, node_id: int, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermarks of partitions that a broker leads."""
        return request_ends(LOOPBACK, self._port(node_id), partitions, tls=self._tls)

    def _port(self, node_id: int) -> int:
        """The port to which this process connects."""
        return self.brokers[node_id].port if self._tls is None else self._ports[node_id].nodes

    def wait_leader(self, topic: str, partition: int = 0, *, other_than: int = NO_LEADER) -> int:
        """Wait until a partition has a leader, other than a given broker; return it."""
        self.wait_until(
            lambda: self.leader(topic, partition) not in (NO_LEADER, other_than),
            f"a leader of {topic}-{partition}",
        )
        return self.leader(topic, partition)

    def wait_in_sync(
        self, topic: str, replicas: Iterable[int], partition: int = 0, at: int | None = None
    ) -> None:
        """Wait until the in-sync replicas of a partition are exactly these, as a broker lists them."""
        wanted = set(replicas)
        self.wait_until(
            lambda: self.in_sync(topic, partition, at) == wanted,
            f"the ISR of {topic}-{partition} to be {wanted}",
        )

    def wait_registered(self, node_ids: Iterable[int], stop: threading.Event | None = None) -> None:
        """Wait until every running broker lists these brokers, and these list all running brokers; or for `stop`."""
        wanted = set(node_ids)

        def listed(node_id: int) -> bool:
            response = self.metadata(at=node_id)
            expected = wanted | ({*self.running} if node_id in wanted else set())
            return response is not None and expected <= {each.node_id for each in response.brokers}

        self.wait_until(
            lambda: (stop is not None and stop.is_set()) or all(map(listed, self.running)),
            f"the brokers {sorted(wanted)} to be listed by all",
        )

    def wait_until(
        self, condition: Callable[[], bool], what: str, timeout_s: float = START_TIMEOUT_S
    ) -> None:
        """Wait for a condition; raises TimeoutError, with the last output of the brokers."""
        pause = threading.Event()
        for _ in range(int(timeout_s / _CHECK_INTERVAL_S)):
            if condition():
                return
            pause.wait(_CHECK_INTERVAL_S)
        outputs = "\n".join(
            f"--- broker {id_}:\n{broker.output()[-1500:]}" for id_, broker in self.brokers.items()
        )
        raise TimeoutError(f"waited {timeout_s:g} s in vain for {what}\n{outputs}")
