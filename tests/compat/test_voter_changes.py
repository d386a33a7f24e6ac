"""Changes of the voters (KIP-853): Apache Kafka's tool on Ottla, and the same requests to a quorum of Apache Kafka."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.clusters import KafkaProcess
from bench.kafka_jars import java
from ottla.base.errors import ErrorCode
from ottla.base.ids import uuid_text
from ottla.local.broker_process import BrokerProcess
from ottla.wire.messages import add_raft_voter, remove_raft_voter, update_raft_voter
from ottla.wire.schema import Message
from tests.compat.java_tools import JavaTools
from tests.support.controllers import Controllers, create_topic
from tests.support.raw import Address, RawClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.compat
OTHER = uuid.UUID(int=77)
RESPONSES: dict[type[Message], tuple[int, type[Any]]] = {
    add_raft_voter.AddRaftVoterRequest: (1, add_raft_voter.AddRaftVoterResponse),
    remove_raft_voter.RemoveRaftVoterRequest: (0, remove_raft_voter.RemoveRaftVoterResponse),
    update_raft_voter.UpdateRaftVoterRequest: (0, update_raft_voter.UpdateRaftVoterResponse),
}


class KafkaController(KafkaProcess):
    """A combined node of Apache Kafka that is the first voter, or follows."""

    is_first = False

    def prepare(self) -> None:
        self.data.parent.mkdir(parents=True, exist_ok=True)
        settings = {
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.data),
            "process.roles": "broker,controller",
            **self._overrides,
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        if not (self.data / "meta.properties").exists():
            kind = "--standalone" if self.is_first else "--no-initial-controllers"
            command = [*java("kafka.tools.StorageTool"), "format", "-t", self.cluster_id, kind]
            subprocess.run([*command, "-c", str(self._properties)], check=True, capture_output=True)


class KafkaControllers(Controllers):
    def process(
        self, node_id: int, settings: dict[str, str], port: int, arguments: Sequence[str]
    ) -> BrokerProcess:
        node = KafkaController(self.data(node_id), settings, port=port)
        node.is_first = node_id == 1
        return node

    def found(self) -> None:
        self.start(1)


class Requests:
    """The codes of the responses to requests, in their order."""

    def __init__(self, nodes: Controllers) -> None:
        self.nodes = nodes
        self.codes: list[tuple[str, str]] = []

    def send(self, label: str, request: Message, at: int = 1, *, controller: bool = False) -> None:
        """Send a request to a broker listener, or to a controller listener."""
        version, kind = RESPONSES[type(request)]
        port = self.nodes.ports[at] if controller else self.nodes.nodes[at].port
        with RawClient(Address("127.0.0.1", port)) as client:
            self.codes.append((label, ErrorCode(client.ask(request, version, kind).error_code).name))

    def _voter(self, node_id: int, directory_id: uuid.UUID | None) -> dict[str, Any]:
        directory_id = directory_id or self.nodes.directory_id(node_id)
        return {"cluster_id": None, "voter_id": node_id, "voter_directory_id": directory_id}

    def add(self, node_id: int, directory_id: uuid.UUID | None = None, **changes: Any) -> Message:
        port = self.nodes.ports.get(node_id, 1)
        listeners = [add_raft_voter.Listener(name="CONTROLLER", host="127.0.0.1", port=port)]
        fields = {"timeout_ms": 5000, "listeners": listeners, **self._voter(node_id, directory_id)}
        return add_raft_voter.AddRaftVoterRequest(**fields | changes)

    def remove(self, node_id: int, directory_id: uuid.UUID | None = None) -> Message:
        return remove_raft_voter.RemoveRaftVoterRequest(**self._voter(node_id, directory_id))

    def update(
        self, node_id: int, epoch: int, directory_id: uuid.UUID | None = None, **changes: Any
    ) -> Message:
        port = self.nodes.ports.get(node_id, 1)
        fields = {
            "current_leader_epoch": epoch,
            "listeners": [update_raft_voter.Listener(name="CONTROLLER", host="127.0.0.1", port=port)],
            "kraft_version_feature": update_raft_voter.KRaftVersionFeature(max_supported_version=1),
            **self._voter(node_id, directory_id),
        }
        return update_raft_voter.UpdateRaftVoterRequest(**fields | changes)


def play(nodes: Controllers) -> list[tuple[str, str]]:
    """Refused and accepted changes of the voters of three nodes."""
    nodes.found()
    nodes.start(2)
    nodes.start(3)

    def caught_up() -> bool:
        found = nodes.quorum(1)
        ends = {each.replica_id: each.log_end_offset for each in found.observers}
        return {2, 3} <= ends.keys() and min(ends[2], ends[3]) >= found.high_watermark

    wait_until(caught_up, "observers that have caught up")
    asking = Requests(nodes)
    send, add, remove, update = asking.send, asking.add, asking.remove, asking.update
    send("add a node that is not reachable", add(9, OTHER))
    send("add another directory of a node", add(2, OTHER))
    send("add at a follower", add(2), 2, controller=True)
    send("remove an unknown voter", remove(9, OTHER))
    send("remove the last voter", remove(1))
    send("remove an observer", remove(2))
    send("remove at a follower", remove(1), 2, controller=True)
    send("add", add(2))
    send("add again", add(2))
    send("add a second directory", add(2, OTHER))
    send("add through another broker", add(3), 3)
    epoch = nodes.quorum(1).leader_epoch
    _update(send, update, epoch)
    send("remove another directory", remove(3, OTHER))
    send("remove", remove(3), 2)
    send("remove again", remove(3))
    send("add without waiting", add(3, ack_when_committed=False))
    wait_until(lambda: set(nodes.voters(1)) == {1, 2, 3}, "three voters")
    create_topic(nodes.nodes[1], "after-the-addition")  # the addition is committed before
    send("remove the leader", remove(1), 2)
    assert asking.codes[-1][1] == "NONE", asking.codes
    wait_until(lambda: nodes.quorum(2).leader_id in (2, 3), "another leader")
    assert set(nodes.voters(2)) == {2, 3}
    return asking.codes


def _update(send: Callable[..., None], update: Callable[..., Message], epoch: int) -> None:
    level = update_raft_voter.KRaftVersionFeature
    send("update another directory", update(2, epoch, OTHER), controller=True)
    send("update an unknown voter", update(9, epoch, OTHER), controller=True)
    send("update in an old epoch", update(2, epoch - 1), controller=True)
    send("update in a later epoch", update(2, epoch + 1), controller=True)
    send("update at a follower", update(2, epoch), 2, controller=True)
    send("update without a listener", update(2, epoch, listeners=[]), controller=True)
    send("update of an old voter", update(2, epoch, kraft_version_feature=level()), controller=True)
    mixed = level(min_supported_version=1, max_supported_version=0)
    send("update with mixed versions", update(2, epoch, kraft_version_feature=mixed), controller=True)


def test_the_codes_are_those_of_apache_kafka(tmp_path: Path) -> None:
    found = []
    for kind in (KafkaControllers, Controllers):
        folder = tmp_path / kind.__name__
        folder.mkdir()
        nodes = kind(folder)
        try:
            found.append(play(nodes))
        finally:
            nodes.kill()
    assert found[0] == found[1]


def test_directories_with_several_initial_voters_of_apache_kafka(tmp_path: Path) -> None:
    nodes = Controllers(tmp_path)
    directories = {node_id: uuid.UUID(int=2**100 + node_id) for node_id in (1, 2, 3)}
    initial = ",".join(
        f"{node_id}@127.0.0.1:{nodes.ports[node_id]}:{uuid_text(directory_id)}"
        for node_id, directory_id in directories.items()
    )
    try:
        for node_id in (1, 2, 3):
            path = settings_of(nodes, node_id)
            command = [
                *java("kafka.tools.StorageTool"),
                "format",
                "-t",
                KafkaProcess.cluster_id,
                "-c",
                str(path),
            ]
            subprocess.run([*command, "--initial-controllers", initial], check=True, capture_output=True)
            nodes.prepare(node_id).launch()
        for node in nodes.nodes.values():
            node.wait_ready()
        assert nodes.voters(1) == directories
        create_topic(nodes.nodes[1], "of-three-voters")
    finally:
        nodes.kill()


def settings_of(nodes: Controllers, node_id: int) -> Path:
    """A file with the settings of a node, for the tools of Apache Kafka."""
    settings = {
        "node.id": node_id,
        "process.roles": "controller",
        "log.dirs": nodes.data(node_id),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://127.0.0.1:{nodes.ports[node_id]}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{nodes.ports[1]}",
    }
    path = nodes.folder / f"{node_id}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def test_apache_kafkas_tool_changes_the_voters(tools: JavaTools, tmp_path: Path) -> None:
    nodes = Controllers(tmp_path)
    try:
        nodes.found()
        for node_id in (2, 3):
            nodes.start(node_id)
        brokers = ("--bootstrap-server", nodes.nodes[1].bootstrap)
        controllers = ("--bootstrap-controller", f"127.0.0.1:{nodes.ports[1]}")
        for node_id, at in ((2, brokers), (3, controllers)):
            command = ("--command-config", str(settings_of(nodes, node_id)), "add-controller")
            added = tools.good("kafka-metadata-quorum", *at, *command)
            assert f"Added controller {node_id} with directory id" in added.out
        assert set(nodes.voters(1)) == {1, 2, 3}
        for node_id, at in ((3, brokers), (1, controllers)):
            directory_id = uuid_text(nodes.directory_id(node_id))
            named = ("--controller-id", str(node_id), "--controller-directory-id", directory_id)
            tools.good("kafka-metadata-quorum", *at, "remove-controller", *named)
        assert set(nodes.voters(1)) == {2}
        create_topic(nodes.nodes[1], "after-the-changes")
    finally:
        nodes.kill()
