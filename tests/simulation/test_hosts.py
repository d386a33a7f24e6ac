"""Several hosts in one run: independent clusters, faults of single hosts, and connections between nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import cast

import pytest

from ottla.testing.disk import Survival
from ottla.testing.sim.clients.client import Client
from ottla.testing.sim.clients.producer_session import ProducerSession
from ottla.testing.sim.cluster import Cluster
from ottla.testing.sim.kernel.links import Conditions
from ottla.testing.sim.kernel.sockets import Socket
from ottla.testing.sim.node import SimNode
from ottla.testing.sim.run import Result, Run, Simulation
from ottla.testing.sim.topology import PORT
from ottla.wire.frames import parse_response_header, request_frame, take_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

NAMES = ("x", "y", "z")
FAULT_MS = 4_000


def three_clusters(seed: int, faulty: tuple[str, ...]) -> tuple[Run, Result]:
    run = Run(seed, fault_ms=FAULT_MS, clusters=NAMES, faulty=faulty)
    return run, run.finish()


# Independent clusters


def test_faults_in_one_cluster_do_not_change_what_happens_in_the_others() -> None:
    """The traces of the other clusters are equal in a run with faults and in a run without."""
    with_faults, result = three_clusters(3, faulty=("x",))
    without_faults, other = three_clusters(3, faulty=())

    assert (result.violation, other.violation) == (None, None)
    pairs = zip(with_faults.scenarios, without_faults.scenarios, strict=True)
    for name, (one, two) in zip(NAMES, pairs, strict=True):
        assert (one.cluster.digests == two.cluster.digests) is (name != "x")
    x, y, z = (scenario.cluster.counts for scenario in with_faults.scenarios)
    assert x["broker crashes"] + x["broker stops"] > 0
    assert y["broker starts"] == z["broker starts"] == 1
    assert y["records read"] > 0 < z["records read"]


def test_the_clusters_of_a_run_have_different_histories() -> None:
    run, result = three_clusters(3, faulty=NAMES)

    assert result.violation is None
    assert len({str(scenario.cluster.counts) for scenario in run.scenarios}) == len(NAMES)


LOGGED = (
    "from ottla.node import main; from ottla.node.membership import lifecycle;"
    "lifecycle._log.info('logged before the run');"
)


@pytest.mark.parametrize(("hash_seed", "before"), [("0", ""), ("4711", LOGGED)])
def test_a_run_of_three_clusters_is_reproducible(hash_seed: str, before: str) -> None:
    """The digest is the same in another process, with another order of sets and with the logs of a broker process."""
    code = (
        f"{before}from ottla.testing.sim.run import Run;"
        f"print(Run(5, fault_ms={FAULT_MS}, clusters={NAMES}).finish().digest)"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )

    assert other.stdout.strip() == three_clusters(5, NAMES)[1].digest


# Faults of one host


class Writer(Client):
    """Creates a topic, then produces one record after another; `written` counts acknowledged records."""

    written = 0

    async def run(self) -> None:
        self.cluster.topics = {"t": 1}
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
        await self.retried(self.connection, request, 7, CreateTopicsResponse)
        session = ProducerSession(self)
        await session.init()
        while True:
            value = f"{self.client_id}/{self.incarnation}/0/{self.written}"
            await session.produce(self.cluster.partitions("t")[0], [value])
            self.written += 1


class Brokers:
    """Three clusters of one node with a producer each."""

    def __init__(self, seed: int = 1) -> None:
        self.simulation = Simulation(seed)
        self.clusters = [self.simulation.add_cluster(name) for name in NAMES]
        self.nodes = [cluster.node for cluster in self.clusters]
        self.writers = [Writer(cluster, "writer") for cluster in self.clusters]
        for node, writer in zip(self.nodes, self.writers, strict=True):
            node.start()
            writer.start()

    def write(self, count: int, *writers: Writer) -> None:
        """Run until each of the writers has written that many more records."""
        wanted = [writer.written + count for writer in writers]
        self.until(
            lambda: all(writer.written >= number for writer, number in zip(writers, wanted, strict=True))
        )

    def until(self, condition: Callable[[], bool]) -> None:
        deadline_ms = self.simulation.kernel.now_ms + 60_000
        self.simulation.run(lambda: condition() or self.simulation.kernel.now_ms > deadline_ms)
        assert self.simulation.kernel.violation is None
        assert condition(), "\n".join(self.simulation.kernel.lines[-20:])


@pytest.fixture
def brokers() -> Brokers:
    made = Brokers()
    made.write(5, *made.writers)
    return made


@pytest.mark.parametrize(
    "crash",
    [
        pytest.param(lambda node: node.kill(), id="kill"),
        pytest.param(lambda node: node.power_off(Survival.NONE), id="power failure"),
        pytest.param(lambda node: node.host.disk.lose_power_in(3), id="power failure at a write"),
    ],
)
def test_a_node_crashes_and_recovers_while_the_others_continue(
    brokers: Brokers, crash: Callable[[SimNode], None]
) -> None:
    node, (writer, *others) = brokers.nodes[0], brokers.writers
    failed = [cluster.counts["requests without response"] for cluster in brokers.clusters]
    crash(node)
    brokers.until(lambda: not node.running)
    written = writer.written
    brokers.write(50, *others)
    assert writer.written <= written + 1  # one response may have been in flight

    node.start()
    brokers.write(20, *brokers.writers)

    assert [each.incarnation for each in brokers.nodes] == [2, 1, 1]
    now = [cluster.counts["requests without response"] for cluster in brokers.clusters]
    assert now[0] > failed[0]
    assert now[1:] == failed[1:]


def test_a_paused_host_continues_where_it_was(brokers: Brokers) -> None:
    node, (writer, *others) = brokers.nodes[0], brokers.writers
    node.host.pause(2_000)
    written = writer.written
    brokers.write(20, *others)
    assert writer.written <= written + 1

    brokers.write(20, *brokers.writers)

    assert node.incarnation == 1


def test_a_clean_stop_of_one_node_does_not_stop_the_others(brokers: Brokers) -> None:
    stopped: list[bool] = []
    brokers.nodes[1].stop(lambda: stopped.append(True))
    brokers.until(lambda: bool(stopped))
    assert not brokers.nodes[1].running

    brokers.write(10, brokers.writers[0], brokers.writers[2])


# Connections between nodes


class PeerConnection:
    """A connection that one node opens to another node with `Machine.connect`, to send ApiVersions requests."""

    def __init__(self, brokers: Brokers, source: SimNode, target: SimNode) -> None:
        assert source.loop is not None
        self._brokers = brokers
        self._loop = source.loop
        self.error: OSError | None = None
        self.socket: Socket | None = None
        self.responses: list[int] = []
        self._received = bytearray()
        self._target = target
        self.cancel = source.machine(source.loop).connect(target.host.name, PORT, self._connected)

    def _connected(self, sock: object, error: OSError | None) -> None:
        self.error = error
        if sock is not None:
            self.socket = cast(Socket, sock)
            self._loop.add_reader(self.socket, self._read)

    def send(self, correlation: int) -> None:
        assert self.socket is not None
        request = ApiVersionsRequest(client_software_name="peer", client_software_version="1")
        self.socket.send(request_frame(request, 3, correlation, "peer"))

    def _read(self) -> None:
        assert self.socket is not None
        buffer = bytearray(1 << 16)
        try:
            size = self.socket.recv_into(memoryview(buffer))
        except OSError as error:
            size, self.error = 0, error
        if not size:
            self._loop.remove_reader(self.socket)
            self.error = self.error or ConnectionError("closed")
            return
        self._received += buffer[:size]
        while (frame := take_frame(self._received)) is not None:
            self.responses.append(parse_response_header(frame, 18, 3)[0])


@pytest.fixture
def peers(brokers: Brokers) -> PeerConnection:
    peer = PeerConnection(brokers, brokers.nodes[0], brokers.nodes[1])
    brokers.until(lambda: peer.socket is not None)
    peer.send(1)
    brokers.until(lambda: peer.responses == [1])
    return peer


def test_a_one_way_cut_between_nodes_delays_the_response_until_it_ends(
    brokers: Brokers, peers: PeerConnection
) -> None:
    network = brokers.simulation.network
    back = network.link(brokers.nodes[1].host, brokers.nodes[0].host)
    back.cut()
    peers.send(2)
    brokers.write(10, *brokers.writers)
    assert (peers.responses, peers.error) == ([1], None)

    back.restore()
    brokers.until(lambda: peers.responses == [1, 2])


def test_a_slow_link_between_nodes_delays_the_response(brokers: Brokers, peers: PeerConnection) -> None:
    network = brokers.simulation.network
    link = network.link(brokers.nodes[1].host, brokers.nodes[0].host)
    link.conditions = Conditions()
    link.conditions.bytes_per_ms = 0.1
    sent_ms = brokers.simulation.kernel.now_ms
    peers.send(2)
    brokers.until(lambda: peers.responses == [1, 2])

    assert brokers.simulation.kernel.now_ms - sent_ms > 1000


def test_a_reset_link_between_nodes_breaks_the_connection_and_a_new_one_works(
    brokers: Brokers, peers: PeerConnection
) -> None:
    first, second = brokers.nodes[0], brokers.nodes[1]
    assert brokers.simulation.network.reset_connections(first.host, second.host) == 1
    brokers.until(lambda: peers.error is not None)

    again = PeerConnection(brokers, first, second)
    brokers.until(lambda: again.socket is not None)
    again.send(3)
    brokers.until(lambda: again.responses == [3])
    brokers.write(5, *brokers.writers)


def test_a_connection_to_a_killed_node_ends_and_new_ones_are_refused(
    brokers: Brokers, peers: PeerConnection
) -> None:
    brokers.nodes[1].kill()
    brokers.until(lambda: peers.error is not None)

    again = PeerConnection(brokers, brokers.nodes[0], brokers.nodes[1])
    brokers.until(lambda: isinstance(again.error, ConnectionRefusedError))


def test_a_connection_to_a_node_without_power_gets_no_response(
    brokers: Brokers, peers: PeerConnection
) -> None:
    brokers.nodes[1].power_off(Survival.SOME)
    peers.send(2)
    again = PeerConnection(brokers, brokers.nodes[0], brokers.nodes[1])
    brokers.write(50, brokers.writers[0], brokers.writers[2])

    assert (peers.responses, peers.error) == ([1], None)
    assert (again.socket, again.error) == (None, None)


def test_cluster_names_must_differ() -> None:
    simulation = Simulation(1)
    simulation.add_cluster("a")
    with pytest.raises(ValueError, match="unique"):
        simulation.add_cluster("a")


def test_a_cluster_creates_a_host_for_each_client_once() -> None:
    cluster: Cluster = Simulation(1).add_cluster("a")

    assert cluster.host("client") is cluster.host("client")
    assert cluster.host("client").name == "a-client"
