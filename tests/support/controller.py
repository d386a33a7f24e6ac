"""A controller for tests of its decisions: each decision is applied at once, without a quorum."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from ottla.config.broker import BrokerConfig
from ottla.controller.brokers import heartbeats, registration
from ottla.controller.controller import Controller
from ottla.controller.decision import Decision
from ottla.controller.partitions import alter_partition, reassignment
from ottla.controller.partitions.replica_index import ReplicaIndex
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import MetadataImage, PartitionImage
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponsePartitionData,
    BrokerState,
    PartitionData,
    TopicData,
)
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from ottla.wire.schema import Message
from tests.support.metadata import broker_record, features, replayed, topic_id_of, topic_records

R = TypeVar("R")
CLUSTER_ID = "the-cluster"


def directory_of(broker_id: int, number: int = 0) -> uuid.UUID:
    """The directory id that `tests.support.metadata.broker_record` gives to a broker."""
    return uuid.UUID(int=1000 * broker_id + number + 10)


class ControllerBench:
    """A controller whose image follows its decisions. `now` is its clock."""

    def __init__(self, records: Iterable[Message], **settings: str) -> None:
        config = BrokerConfig({"node.id": "1", **{k.replace("_", "."): v for k, v in settings.items()}})
        self.controller = Controller(config, 1, random.Random(1))
        self.controller.reset(replayed(records))
        self.sessions = self.controller.sessions
        self.now = 100.0
        self.kraft_version = 0

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    @property
    def view(self) -> Any:
        return self.controller.view()

    def partition(self, topic: str = "t", index: int = 0) -> PartitionImage:
        return self.image.topics.by_name[topic].partitions[index]

    def apply(self, decision: Decision[R]) -> R:
        """Replay a decision; checks that the index has followed."""
        records, response = decision
        if records:
            image = self.image
            self.controller.advance(self.controller.replayed(records, image.offset + len(records), 1))
            self.check_index()
        return response

    def replay(self, *records: Message) -> None:
        """Change the image by records that no decision made."""
        self.apply(Decision(list(records), None))

    def check_index(self) -> None:
        index, fresh = self.controller.index, ReplicaIndex()
        fresh.load(self.image)
        brokers_known = self.image.brokers.keys()
        for broker_id in brokers_known:
            assert set(index.replicas_of((broker_id,))) == set(fresh.replicas_of((broker_id,)))
            assert index.leads(broker_id) == fresh.leads(broker_id)
        for name in ("leaderless", "imbalanced", "reassigning"):
            assert set(getattr(index, name)) == set(getattr(fresh, name)), name
        assert +index.preferred_leaders() == +fresh.preferred_leaders()

    # Requests

    def register(self, broker_id: int, **changes: Any) -> BrokerRegistrationResponse:
        """Register another process as the broker, cleanly stopped unless `previous_broker_epoch` says otherwise."""
        known = self.image.brokers.get(broker_id)
        settings: dict[str, Any] = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": uuid.UUID(int=10_000 + self.image.offset),
            "features": [
                Feature(name=f.name, min_supported_version=f.min_version, max_supported_version=f.max_version)
                for f in SUPPORTED_FEATURES
            ],
            "listeners": [Listener(name="PLAINTEXT", host="h", port=9000 + broker_id)],
            "log_dirs": [directory_of(broker_id)],
            "previous_broker_epoch": -1 if known is None else known.epoch,
        }
        decision = registration.decide_register_broker(
            self.controller.view(),
            self.sessions,
            BrokerRegistrationRequest(**{**settings, **changes}),
            cluster_id=CLUSTER_ID,
            now=self.now,
            next_offset=self.image.offset + 1,
            kraft_version=self.kraft_version,
        )
        return self.apply(decision)

    def heartbeat(self, broker_id: int, **changes: Any) -> BrokerHeartbeatResponse:
        """A heartbeat of the registered process that has applied everything."""
        known = self.image.brokers.get(broker_id)
        settings = {
            "broker_id": broker_id,
            "broker_epoch": -1 if known is None else known.epoch,
            "current_metadata_offset": self.image.offset,
        }
        decision = heartbeats.decide_heartbeat(
            self.controller.view(),
            self.sessions,
            BrokerHeartbeatRequest(**{**settings, **changes}),
            now=self.now,
            next_offset=self.image.offset + 1,
        )
        return self.apply(decision)

    def fence(self, *broker_ids: int) -> None:
        self.apply(heartbeats.decide_fence(self.controller.view(), broker_ids))

    def restart(self, broker_id: int, *, clean: bool) -> None:
        """Another process registers and is unfenced."""
        self.sessions.end(broker_id)
        self.register(broker_id, **({} if clean else {"previous_broker_epoch": -1}))
        self.heartbeat(broker_id)

    def alter_partition(
        self, isr: Sequence[int | tuple[int, int]], topic: str = "t", index: int = 0, **changes: Any
    ) -> AlterPartitionResponsePartitionData:
        """The leader proposes an ISR; members are ids, or ids with broker epochs."""
        partition = self.partition(topic, index)
        leader = changes.pop("broker_id", partition.leader)
        epoch = changes.pop("broker_epoch", None)
        states = [
            BrokerState(broker_id=one[0], broker_epoch=one[1])
            if isinstance(one, tuple)
            else BrokerState(broker_id=one, broker_epoch=self.image.brokers[one].epoch)
            for one in isr
        ]
        data = PartitionData(
            **{
                "partition_index": index,
                "leader_epoch": partition.leader_epoch,
                "partition_epoch": partition.partition_epoch,
                "new_isr_with_epochs": states,
                **changes,
            }
        )
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=self.image.brokers[leader].epoch if epoch is None else epoch,
            topics=[TopicData(topic_id=self.image.topics.by_name[topic].topic_id, partitions=[data])],
        )
        response = self.apply(alter_partition.decide_alter_partition(self.controller.view(), request, 3))
        return response.topics[0].partitions[0]

    def reassign(self, replicas: list[int] | None, index: int = 0, **changes: Any) -> int:
        """Reassign a partition of topic t; the error code."""
        target = ReassignablePartition(partition_index=index, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name="t", partitions=[target])], **changes
        )
        response = self.apply(reassignment.decide_reassign(self.controller.view(), request))
        return response.responses[0].partitions[0].error_code


def cluster(
    count: int = 3,
    assignments: Sequence[Sequence[int]] = ((1, 2, 3),),
    *,
    min_insync_replicas: str = "1",
    configs: dict[str, str] | None = None,
    **settings: str,
) -> ControllerBench:
    """Brokers 1 to `count`, unfenced, and the topic t."""
    records = [*features(), *(broker_record(broker, epoch=broker) for broker in range(1, count + 1))]
    topic_configs = {"min.insync.replicas": min_insync_replicas, **(configs or {})}
    return ControllerBench([*records, *topic_records("t", assignments, topic_configs)], **settings)


TOPIC_ID = topic_id_of("t")
