"""Brokers that the test plays, in states by chance: fenced, stopped, started again, with failed directories.

After each step the leaders, ISRs and eligible replicas of all partitions are compared. The played brokers copy no
records; their leaders propose ISRs by chance.
"""

from __future__ import annotations

import contextlib
import random
import socket
import uuid
from collections.abc import Callable
from typing import Any, Final

from ottla.base.errors import ErrorCode
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.wire.messages import alter_partition as isr
from ottla.wire.messages import assign_replicas_to_dirs as dirs
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.schema import Message
from tests.compat.differential.broker_requests import BrokerPlayer
from tests.compat.differential.controllers import controllers
from tests.compat.differential.settings import change
from tests.compat.differential.three_nodes import TOPIC_RESOURCE, ClusterPlayer
from tests.support.waiting import wait_until

BROKERS: Final = (7, 8, 9)
MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
TOPICS: Final[dict[str, tuple[list[list[int]], dict[str, str]]]] = {
    "loose": ([[7, 9], [9, 8]], {MIN_ISR: "1"}),
    "risky": ([[7, 8], [9, 8]], {MIN_ISR: "2", UNCLEAN: "true"}),
    "safe": ([[7, 8, 9], [8, 9, 7], [9, 7, 8]], {MIN_ISR: "2"}),
    "strict": ([[8, 7, 9]], {MIN_ISR: "3"}),
}
SETTINGS: Final = {
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "500",
    # Without syncs a broker that stopped uncleanly is as little eligible as with Kafka (decision 18).
    "log.flush.interval.messages": str((1 << 63) - 1),
    "unclean.leader.election.interval.ms": "3600000",
}
BEYOND: Final = 1 << 40
Partition = tuple[str, int]


class PlayedBrokers:
    """The brokers, as one run of the steps has left them."""

    def __init__(self, player: ClusterPlayer, seed: int, ports: dict[int, int]) -> None:
        self.player = player
        self.node = player.nodes[0]
        self.controller = self.find_controller()
        self.cluster_id = self.node.quietly(MetadataRequest(topics=[]), 12).cluster_id
        self.rng = random.Random(seed)
        self.ports = ports
        self.epochs: dict[int, int] = {}
        self.processes = dict.fromkeys(BROKERS, 0)
        self.fenced = dict.fromkeys(BROKERS, True)
        self.stopped: set[int] = set()
        self.partition_epochs: dict[Partition, int] = {}
        self.label = "first"
        self.steps: dict[str, Callable[[int, Partition], None]] = {
            "fence": self.fence,
            "unfence": self.unfence,
            "stop": self.stop,
            "restart": self.restart,
            "alter": self.alter,
            "elect": self.elect,
            "allow unclean elections": self.allow_unclean,
            "assign a directory": self.assign,
            "lose a directory": self.lose_directory,
        }
        for broker in BROKERS:
            self.register(broker, -1)
            self.unfence(broker, ("", 0))
        self.create()
        self.state = self.look()

    def find_controller(self) -> BrokerPlayer:
        active = self.player.cluster.controller()
        assert active is not None
        return controllers(self.player, active, BrokerPlayer)["active controller"]

    def send(self, request: Message, version: int) -> Any:
        """The response of the active controller, which can become another one on a busy machine."""
        answers = []

        def is_answered() -> bool:
            answers.append(self.controller.quietly(request, version))
            code = getattr(answers[-1], "error_code", ErrorCode.NOT_CONTROLLER)
            if code == ErrorCode.NOT_CONTROLLER:
                self.controller.reconnect()
                self.controller = self.find_controller()
            return code != ErrorCode.NOT_CONTROLLER

        wait_until(is_answered, "the active controller to respond", 60)
        return answers[-1]

    def create(self) -> None:
        for name, (assignment, configs) in TOPICS.items():
            wanted = CreatableTopic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                    for index, replicas in enumerate(assignment)
                ],
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
            answer = self.node.quietly(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7)
            assert answer.topics[0].error_code == 0, answer
            self.player.names[answer.topics[0].topic_id] = name

    def look(self) -> dict[Partition, Any]:
        self.player.until_applied()
        described = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in TOPICS])
        answer = self.node.quietly(described, 0)
        found = {
            (topic.name, each.partition_index): each for topic in answer.topics for each in topic.partitions
        }
        for each in found.values():
            each.eligible_leader_replicas.sort()  # the order has no meaning
        self.node.keep(f"{self.label}: partitions", self.node.plain(answer))
        return found

    def step(self, number: int) -> None:
        self.keep_alive()
        kind = self.rng.choice(list(self.steps))
        broker, partition = self.rng.choice(BROKERS), self.rng.choice(sorted(self.state))
        self.label = f"{number}, {kind}, {broker}, {partition}"
        self.steps[kind](broker, partition)
        self.state = self.look()

    # Brokers

    def heartbeat(self, broker: int, **fields: Any) -> Any:
        usual: dict[str, Any] = {
            "broker_id": broker,
            "broker_epoch": self.epochs[broker],
            "current_metadata_offset": BEYOND,
            "want_fence": self.fenced[broker],
            "want_shut_down": broker in self.stopped,
        }
        return self.send(BrokerHeartbeatRequest(**usual | fields), 1)

    def keep_alive(self, without: int | None = None) -> None:
        for broker in BROKERS:
            if broker != without:
                self.heartbeat(broker)

    def change_state(self, broker: int, **fields: Any) -> None:
        self.controller.keep(self.label, self.controller.plain(self.heartbeat(broker, **fields)))

    def fence(self, broker: int, _: Partition) -> None:
        self.fenced[broker] = True
        self.change_state(broker)

    def unfence(self, broker: int, _: Partition) -> None:
        if broker not in self.stopped:
            self.fenced[broker] = False
            self.change_state(broker)

    def stop(self, broker: int, _: Partition) -> None:
        if self.fenced[broker]:
            return
        self.change_state(broker, want_shut_down=True)

        def is_stopped() -> bool:
            self.keep_alive(without=broker)
            return bool(self.heartbeat(broker, want_shut_down=True).should_shut_down)

        wait_until(is_stopped, f"broker {broker} to be allowed to stop", 30)
        self.stopped.add(broker)
        self.fenced[broker] = True

    def restart(self, broker: int, _: Partition) -> None:
        """Another process registers after a clean or an unclean stop, as soon as the session has ended."""
        self.fence(broker, ("", 0))
        is_clean = self.rng.random() < 0.5
        epoch = self.epochs[broker]

        def is_registered() -> bool:
            self.keep_alive(without=broker)
            return self.register(broker, epoch if is_clean else -1)

        wait_until(is_registered, f"broker {broker} to be registered", 30)
        if self.rng.random() < 0.7:
            self.unfence(broker, ("", 0))

    def register(self, broker: int, previous_epoch: int) -> bool:
        request = BrokerRegistrationRequest(
            broker_id=broker,
            cluster_id=self.cluster_id,
            incarnation_id=uuid.UUID(int=broker * 1000 + self.processes[broker]),
            listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=self.ports[broker])],
            features=[
                Feature(
                    name=each.name,
                    min_supported_version=each.min_version,
                    max_supported_version=each.max_version,
                )
                for each in SUPPORTED_FEATURES
            ],
            rack=None,
            log_dirs=directories(broker),
            previous_broker_epoch=previous_epoch,
        )
        answer = self.send(request, 4)
        if answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return False
        assert not answer.error_code, answer
        self.epochs[broker] = answer.broker_epoch
        self.processes[broker] += 1
        self.stopped.discard(broker)
        return True

    def lose_directory(self, broker: int, _: Partition) -> None:
        if not self.fenced[broker]:
            self.change_state(broker, offline_log_dirs=directories(broker)[1:])

    # Partitions

    def alter(self, _: int, partition: Partition) -> None:
        """The leader proposes an ISR, in the partition epoch that it finds by attempts."""
        name, index = partition
        found = self.state[partition]
        leader = found.leader_id
        others = [each for each in found.replica_nodes if each != leader]
        members = [leader, *self.rng.sample(others, self.rng.randint(0, len(others)))]
        if leader not in BROKERS:
            return
        states = [isr.BrokerState(broker_id=each, broker_epoch=self.epochs[each]) for each in members]
        epoch = self.partition_epochs.get(partition, 0)
        while True:
            data = isr.PartitionData(
                partition_index=index,
                leader_epoch=found.leader_epoch,
                partition_epoch=epoch,
                new_isr_with_epochs=states,
            )
            request = isr.AlterPartitionRequest(
                broker_id=leader,
                broker_epoch=self.epochs[leader],
                topics=[isr.TopicData(topic_id=self.node.topic_id(name), partitions=[data])],
            )
            answer = self.send(request, 3)
            assert not answer.error_code, answer
            if answer.topics[0].partitions[0].error_code != ErrorCode.INVALID_UPDATE_VERSION:
                break
            epoch += 1
        self.partition_epochs[partition] = epoch
        self.controller.keep(f"{self.label}: to {members} at {epoch}", self.controller.plain(answer))

    def elect(self, _: int, partition: Partition) -> None:
        kind = self.rng.choice((0, 1))
        wanted = TopicPartitions(topic=partition[0], partitions=[partition[1]])
        self.node.ask(
            f"{self.label}: {kind}",
            ElectLeadersRequest(election_type=kind, topic_partitions=[wanted], timeout_ms=30_000),
            2,
        )

    def allow_unclean(self, _: int, partition: Partition) -> None:
        value = self.rng.choice(("true", "false"))
        request = change((TOPIC_RESOURCE, partition[0], [(UNCLEAN, 0, value)]))
        self.node.ask(f"{self.label}: {value}", request, 1)

    def assign(self, broker: int, partition: Partition) -> None:
        topic = dirs.TopicData(
            topic_id=self.node.topic_id(partition[0]),
            partitions=[dirs.PartitionData(partition_index=partition[1])],
        )
        directory = dirs.DirectoryData(id=self.rng.choice(directories(broker)), topics=[topic])
        request = dirs.AssignReplicasToDirsRequest(
            broker_id=broker, broker_epoch=self.epochs[broker], directories=[directory]
        )
        self.controller.keep(self.label, self.controller.plain(self.send(request, 0)))


def directories(broker: int) -> list[uuid.UUID]:
    return [uuid.UUID(int=broker * 1000 + number) for number in range(2)]


def play(player: ClusterPlayer, seed: int, steps: int) -> None:
    with contextlib.ExitStack() as stack:
        sockets = {broker: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for broker in BROKERS}
        ports = {broker: each.getsockname()[1] for broker, each in sockets.items()}
        played = PlayedBrokers(player, seed, ports)
        for number in range(steps):
            played.step(number)
        played.controller.reconnect()
