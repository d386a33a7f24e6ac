"""Combined nodes whose voters are in the log: they start, and requests change their voters."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

from ottla.base.errors import ErrorCode
from ottla.base.ids import METADATA_TOPIC, parse_uuid
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_ports
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    PartitionData,
    TopicData,
)
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from tests.support.raw import Address, Closed, RawClient
from tests.support.waiting import wait_until


class Controllers:
    """Combined nodes whose settings name three bootstrap servers and no voters."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
        self.nodes: dict[int, BrokerProcess] = {}

    def start(self, node_id: int, **settings: str) -> BrokerProcess:
        return self.prepare(node_id, **settings).start()

    def prepare(self, node_id: int, arguments: Sequence[str] = (), **settings: str) -> BrokerProcess:
        known = self.nodes.get(node_id)
        port = known.port if known else free_ports(1)[0]
        everywhere = ",".join(f"127.0.0.1:{each}" for each in self.ports.values())
        own = {
            "node.id": str(node_id),
            "controller.quorum.bootstrap.servers": everywhere,
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{self.ports[node_id]}",
            "metadata.log.max.record.bytes.between.snapshots": "2000",
        }
        node = self.nodes[node_id] = self.process(node_id, {**own, **settings}, port, arguments)
        return node

    def process(
        self, node_id: int, settings: dict[str, str], port: int, arguments: Sequence[str]
    ) -> BrokerProcess:
        return BrokerProcess(self.data(node_id), settings, port=port, arguments=arguments)

    def found(self) -> None:
        """Start node 1 as a plain single node, and again as a node that others can follow."""
        with BrokerProcess(self.data(1), {"node.id": "1"}) as alone:
            create_topic(alone, "of-the-single-node")
        self.start(1)

    def grow(self) -> None:
        """Three voters, one after the other."""
        self.found()
        for node_id in (2, 3):
            self.start(node_id)
            assert self.add(1, node_id) is ErrorCode.NONE

    def data(self, node_id: int) -> Path:
        return self.folder / f"node{node_id}"

    def directory_id(self, node_id: int) -> uuid.UUID:
        lines = (self.data(node_id) / "meta.properties").read_text().splitlines()
        return parse_uuid(next(line for line in lines if line.startswith("directory.id=")).partition("=")[2])

    def add(self, at: int, node_id: int) -> ErrorCode:
        listener = Listener(name="CONTROLLER", host="127.0.0.1", port=self.ports[node_id])
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=20_000,
            voter_id=node_id,
            voter_directory_id=self.directory_id(node_id),
            listeners=[listener],
        )
        with self.client(at) as client:
            response = client.ask(request, 1, AddRaftVoterResponse)
        assert not isinstance(response, Closed)
        return ErrorCode(response.error_code)

    def remove(self, at: int, node_id: int, directory_id: uuid.UUID | None = None) -> ErrorCode:
        directory_id = directory_id or self.directory_id(node_id)
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=directory_id)
        with self.client(at) as client:
            response = client.ask(request, 0, RemoveRaftVoterResponse)
        assert not isinstance(response, Closed)
        return ErrorCode(response.error_code)

    def client(self, at: int) -> RawClient:
        return RawClient(Address("127.0.0.1", self.nodes[at].port))

    def describe(self, at: int) -> DescribeQuorumResponse:
        topic = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])
        with self.client(at) as client:
            response = client.ask(DescribeQuorumRequest(topics=[topic]), 2, DescribeQuorumResponse)
        assert not isinstance(response, Closed)
        return response

    def quorum(self, at: int) -> DescribeQuorumResponsePartitionData:
        return self.describe(at).topics[0].partitions[0]

    def endpoints(self, at: int) -> dict[int, int]:
        """The ports of the controller listeners of the voters."""
        return {node.node_id: node.listeners[0].port for node in self.describe(at).nodes}

    def voters(self, at: int) -> dict[int, uuid.UUID]:
        return {each.replica_id: each.replica_directory_id for each in self.quorum(at).current_voters}

    def kill(self) -> None:
        for node in self.nodes.values():
            node.kill()


def create_topic(node: BrokerProcess, name: str) -> None:
    """Create a topic by requests to this node, which forwards them, as soon as there is a controller.

    librdkafka would send the request to the broker that the metadata name as the controller, which may just have been
    killed, and wait for it.
    """
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)

    def is_created() -> bool:
        with RawClient(Address("127.0.0.1", node.port)) as client:
            response = client.ask(request, 7, CreateTopicsResponse)
        assert not isinstance(response, Closed)
        return response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    wait_until(is_created, f"the topic {name}")
