"""Requests that brokers send to the active controller, by a broker that the test plays.

Registration, heartbeats, changes of ISRs, directories and producer ids. The broker has a socket that accepts
connections and never responds.
"""

from __future__ import annotations

import contextlib
import copy
import socket
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.base.ids import ZERO_UUID
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.wire.messages import alter_partition as isr
from ottla.wire.messages import assign_replicas_to_dirs as dirs
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.wire.schema import Message
from tests.compat.differential.controllers import ControllerPlayer, controllers
from tests.compat.differential.three_nodes import ClusterPlayer, create
from tests.support.waiting import wait_until

BROKER, UNKNOWN = 9, 77
DIRECTORIES = [uuid.UUID(int=0x9000 + n) for n in range(2)]
TOPIC, ALONE = "by-nine", "nine-alone"
TOPICS = {TOPIC: {0: [9, 0, 1], 1: [0, 9, 1], 2: [1, 2, 0]}, ALONE: {0: [9]}}
BEYOND = 1 << 40
SAFE_DOWNGRADE = 2


class BrokerPlayer(ControllerPlayer):
    """A controller listener, for requests of brokers."""

    def plain(self, value: Any, of: Message | None = None, name: str = "") -> Any:
        if name in ("broker_epoch", "producer_id_start") and value > 0:
            return f"a {name}"
        return super().plain(value, of, name)


def play(player: ClusterPlayer) -> None:
    active = player.cluster.controller()
    assert active is not None
    listeners = controllers(player, active, BrokerPlayer)
    one = listeners["active controller"]
    with _silent_port() as port:
        registration = _registration(player, port)
        elsewhere(listeners["another controller"], registration)
        refusals(one, registration)
        epoch = registrations(one, registration)
        heartbeats(one, epoch)
        features(player)
        topic_id = _create(player)
        partitions(player, one, epoch, topic_id)
        directories(player, one, epoch, topic_id)
        producer_ids(one, epoch)
        shutdown(player, one, epoch)
        one.ask("unregister", UnregisterBrokerRequest(broker_id=BROKER), 0)
        one.ask("heartbeat, unregistered", _heartbeat(epoch), 1)
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in TOPICS], timeout_ms=30_000)
    player.ask("delete", deletion, 6, [0])
    for each in listeners.values():
        each.reconnect()


@contextlib.contextmanager
def _silent_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


def _registration(player: ClusterPlayer, port: int) -> BrokerRegistrationRequest:
    """The streams groups of this broker cannot be disabled."""
    return BrokerRegistrationRequest(
        broker_id=BROKER,
        cluster_id=player.nodes[0].quietly(MetadataRequest(topics=[]), 12).cluster_id,
        incarnation_id=uuid.UUID(int=0x99),
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=port)],
        features=[
            Feature(
                name=each.name,
                min_supported_version=1 if each.name == "streams.version" else each.min_version,
                max_supported_version=each.max_version,
            )
            for each in SUPPORTED_FEATURES
        ],
        rack=None,
        log_dirs=DIRECTORIES,
    )


def _changed(request: Any, changes: Mapping[str, Any]) -> Any:
    changed = copy.deepcopy(request)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def elsewhere(one: BrokerPlayer, registration: BrokerRegistrationRequest) -> None:
    """A controller that is not active refuses everything."""
    one.ask("register elsewhere", registration, 4)
    one.ask("heartbeat elsewhere", _heartbeat(1), 1)
    topic = isr.TopicData(partitions=[isr.PartitionData()])
    one.ask("alter partition elsewhere", isr.AlterPartitionRequest(topics=[topic]), 3)
    one.ask("alter nothing elsewhere", isr.AlterPartitionRequest(), 3)
    one.ask("producer ids elsewhere", AllocateProducerIdsRequest(broker_id=0), 0)
    one.ask("directories elsewhere", dirs.AssignReplicasToDirsRequest(broker_id=0), 0)


def _range(name: str, low: int, high: int) -> Feature:
    return Feature(name=name, min_supported_version=low, max_supported_version=high)


def refusals(one: BrokerPlayer, usual: BrokerRegistrationRequest) -> None:
    metadata, groups = _range("metadata.version", 7, 30), _range("group.version", 2, 3)
    without_metadata = [each for each in usual.features if each.name != "metadata.version"]
    without_groups = [each for each in usual.features if each.name != "group.version"]
    cases: dict[str, dict[str, Any]] = {
        "another cluster": {"cluster_id": "another"},
        "another cluster, of ZooKeeper": {"cluster_id": "another", "is_migrating_zk_broker": True},
        "of ZooKeeper": {"is_migrating_zk_broker": True},
        "of ZooKeeper, no directory": {"is_migrating_zk_broker": True, "log_dirs": []},
        "no directory": {"log_dirs": []},
        "no directory, no feature": {"log_dirs": [], "features": []},
        "a reserved directory": {"log_dirs": [uuid.UUID(int=3)]},
        "the directory 0": {"log_dirs": [ZERO_UUID]},
        "the directory 100": {"log_dirs": [uuid.UUID(int=100)]},
        "a directory twice": {"log_dirs": [DIRECTORIES[0]] * 2},
        "no feature": {"features": []},
        "without metadata.version": {"features": without_metadata},
        "without metadata.version, another range": {"features": [groups]},
        "an old metadata.version": {"features": [*without_metadata, _range("metadata.version", 1, 29)]},
        "without group.version": {"features": without_groups},
        "another range": {"features": [*without_groups, groups]},
        "only metadata.version": {"features": [metadata]},
        "an unknown feature": {"features": [*usual.features, _range("x.version", 1, 2)]},
        "broker 0": {"broker_id": 0},
        "broker 0, no directory": {"broker_id": 0, "log_dirs": []},
    }
    for title, changes in cases.items():
        one.ask(f"register, {title}", _changed(usual, changes), 4)


def registrations(one: BrokerPlayer, usual: BrokerRegistrationRequest) -> int:
    first = one.ask("register", usual, 4)
    again = one.ask("register again", usual, 4)
    one.keep("the epoch is the same", first.broker_epoch == again.broker_epoch)
    other = _changed(usual, {"incarnation_id": uuid.UUID(int=0x98)})
    second = one.ask("register another process", other, 3)
    one.keep("the epoch is higher", second.broker_epoch > again.broker_epoch)
    return int(second.broker_epoch)


def _heartbeat(epoch: int, **fields: Any) -> BrokerHeartbeatRequest:
    usual: dict[str, Any] = {
        "broker_id": BROKER,
        "broker_epoch": epoch,
        "current_metadata_offset": BEYOND,
    }
    return BrokerHeartbeatRequest(**usual | fields)


def heartbeats(one: BrokerPlayer, epoch: int) -> None:
    cases: dict[str, dict[str, Any]] = {
        "another epoch": {"broker_epoch": epoch + 1},
        "no epoch": {"broker_epoch": -1},
        "an unknown broker": {"broker_id": UNKNOWN},
        "behind": {"current_metadata_offset": epoch - 1},
        "to be fenced": {"want_fence": True},
        "to stop": {"want_shut_down": True},
        "to be unfenced": {},
        "again": {},
        "behind, unfenced": {"current_metadata_offset": 0},
        "to be fenced again": {"want_fence": True},
        "to be unfenced again": {},
        "unknown directory": {"offline_log_dirs": [uuid.UUID(int=0x77)]},
    }
    for title, fields in cases.items():
        one.ask(f"heartbeat {title}", _heartbeat(epoch, **fields), 1)


def features(player: ClusterPlayer) -> None:
    """Each node has to support a level."""
    for feature, level in {"streams.version": 0, "share.version": 0, "x.version": 0}.items():
        update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=SAFE_DOWNGRADE)
        request = UpdateFeaturesRequest(feature_updates=[update], validate_only=True)
        player.ask(f"update {feature}", request, 2, [0])


def _create(player: ClusterPlayer) -> uuid.UUID:
    for name, assignment in TOPICS.items():
        create(player, name, assignment, 0)
    return player.nodes[0].topic_id(TOPIC)


def _state(player: ClusterPlayer, label: str) -> None:
    player.until_applied()
    described = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in TOPICS])
    player.ask(label, described, 0, [0])


def partitions(player: ClusterPlayer, one: BrokerPlayer, epoch: int, topic_id: uuid.UUID) -> None:
    def ask(
        label: str,
        index: int,
        members: Mapping[int, int],
        top: Mapping[str, Any] | None = None,
        **fields: int,
    ) -> None:
        states = [isr.BrokerState(broker_id=each, broker_epoch=at) for each, at in members.items()]
        for version in (2, 3):
            data = isr.PartitionData(partition_index=index, **fields)
            if version == 2:
                data.new_isr = list(members)
            else:
                data.new_isr_with_epochs = states
            usual: dict[str, Any] = {
                "broker_id": BROKER,
                "broker_epoch": epoch,
                "topics": [isr.TopicData(topic_id=topic_id, partitions=[data])],
            }
            request = isr.AlterPartitionRequest(**usual | dict(top or {}))
            one.ask(f"alter, {label}, v{version}", request, version)

    known = {BROKER: epoch, 0: -1, 1: -1}
    ask("another epoch of the broker", 0, known, {"broker_epoch": epoch + 1})
    ask("an unknown broker", 0, known, {"broker_id": UNKNOWN})
    ask("nothing", 0, known, {"topics": []})
    ask("nothing, another epoch of the broker", 0, known, {"topics": [], "broker_epoch": epoch + 1})
    for title, other in {"an unknown topic": uuid.UUID(int=5), "the topic 0": ZERO_UUID}.items():
        data = isr.PartitionData()
        ask(title, 0, known, {"topics": [isr.TopicData(topic_id=other, partitions=[data])]})
    ask("an unknown partition", 7, known)
    ask("a later leader epoch", 0, known, leader_epoch=1)
    ask("a later partition epoch", 0, known, partition_epoch=1)
    ask("an earlier leader epoch", 0, known, leader_epoch=-1)
    ask("an earlier leader epoch, a later partition epoch", 0, known, leader_epoch=-1, partition_epoch=1)
    ask("not the leader", 1, known)
    ask("not the leader, an earlier partition epoch", 1, known, partition_epoch=-1)
    ask("not a replica", 2, {BROKER: epoch})
    ask("an earlier partition epoch", 0, known, partition_epoch=-1)
    ask("no member", 0, {})
    ask("without the leader", 0, {0: -1, 1: -1})
    ask("another broker", 0, {BROKER: epoch, 2: -1})
    ask("an unknown member", 0, {BROKER: epoch, UNKNOWN: -1})
    ask("recovering with others", 0, known, leader_recovery_state=1)
    ask("recovering", 0, {BROKER: epoch}, leader_recovery_state=1)
    ask("another epoch of a member", 0, {BROKER: epoch + 1, 0: -1})
    ask("as it is", 0, known)
    one.quietly(_heartbeat(epoch), 1)
    ask("smaller", 0, {BROKER: epoch, 1: -1})
    ask("larger", 0, {1: -1, BROKER: -1, 0: -1}, partition_epoch=1)
    _state(player, "partitions")


def directories(player: ClusterPlayer, one: BrokerPlayer, epoch: int, topic_id: uuid.UUID) -> None:
    def ask(label: str, directory: uuid.UUID, topic: uuid.UUID, *indexes: int, **fields: Any) -> None:
        data = dirs.TopicData(
            topic_id=topic, partitions=[dirs.PartitionData(partition_index=each) for each in indexes]
        )
        usual: dict[str, Any] = {
            "broker_id": BROKER,
            "broker_epoch": epoch,
            "directories": [dirs.DirectoryData(id=directory, topics=[data])],
        }
        one.ask(f"assign {label}", dirs.AssignReplicasToDirsRequest(**usual | fields), 0)

    one.quietly(_heartbeat(epoch), 1)
    here, there = DIRECTORIES
    ask("another epoch", here, topic_id, 0, broker_epoch=epoch + 1)
    ask("unknown broker", here, topic_id, 0, broker_id=UNKNOWN)
    ask("nothing", here, topic_id)
    ask("unknown topic", here, uuid.UUID(int=5), 0)
    ask("the topic 0", here, ZERO_UUID, 0)
    ask("unknown partition, no replica", here, topic_id, 9, 2)
    ask("replicas", here, topic_id, 0, 1)
    ask("again", here, topic_id, 0, 1)
    ask("to another", there, topic_id, 1)
    _state(player, "directories")
    one.ask("heartbeat without a directory", _heartbeat(epoch, offline_log_dirs=[there]), 1)
    _state(player, "a failed directory")
    ask("to the failed one", there, topic_id, 0)
    _state(player, "a replica in the failed directory")
    ask("back", here, topic_id, 0, 1)
    _state(player, "replicas in another directory")


def producer_ids(one: BrokerPlayer, epoch: int) -> None:
    one.ask("producer ids", AllocateProducerIdsRequest(broker_id=BROKER, broker_epoch=epoch), 0)
    one.ask(
        "producer ids, another epoch", AllocateProducerIdsRequest(broker_id=BROKER, broker_epoch=epoch + 1), 0
    )
    one.ask(
        "producer ids, unknown broker", AllocateProducerIdsRequest(broker_id=UNKNOWN, broker_epoch=epoch), 0
    )


def shutdown(player: ClusterPlayer, one: BrokerPlayer, epoch: int) -> None:
    """The broker hands over its leaderships and stops. One topic has no other replica."""
    one.ask("heartbeat before it stops", _heartbeat(epoch), 1)
    one.ask("heartbeat to stop, as a leader", _heartbeat(epoch, want_shut_down=True), 1)
    player.until_applied()
    new = CreatableTopic(name="while-nine-stops", num_partitions=1, replication_factor=4)
    player.ask("create while it stops", CreateTopicsRequest(topics=[new], validate_only=True), 7, [0])

    def stopped() -> bool:
        answer = one.quietly(_heartbeat(epoch, want_shut_down=True), 1)
        return bool(answer.should_shut_down)

    wait_until(stopped, "the broker to be allowed to stop", 30)
    one.ask("heartbeat after the stop", _heartbeat(epoch, want_shut_down=True), 1)
    _state(player, "after the stop")
