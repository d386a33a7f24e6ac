"""Random decisions of the controller keep the invariants of partitions, and no clean election loses a record.

The model has the log of each replica as a number of records. A record is acknowledged when it is on every member of an
ISR that is large enough. Topic `synced` syncs each record, so its replicas lose nothing; a replica of `unsynced` loses
everything when its broker stops uncleanly; `risky` allows unclean elections.
"""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.base.errors import ApiError
from ottla.controller.partitions import alter_partition, elections, reassignment
from ottla.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from ottla.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.support.controller import ControllerBench
from tests.support.metadata import broker_record, features, topic_records

BROKERS = (1, 2, 3, 4)
TOPICS = {
    "synced": {"min.insync.replicas": "2"},
    "synced1": {"min.insync.replicas": "1"},
    "unsynced": {"min.insync.replicas": "2", "flush.messages": "99"},
    "risky": {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"},
}
NAMES = tuple(TOPICS)
SYNCED = ("synced", "synced1", "risky")


class Model:
    """A controller, and the records on the disks of its brokers."""

    def __init__(self) -> None:
        records = [*features(), *(broker_record(each, epoch=each) for each in BROKERS)]
        for name, configs in TOPICS.items():
            records += topic_records(name, [(1, 2, 3)], configs)
        self.bench = ControllerBench(records)
        self.logs: dict[str, dict[int, int]] = {name: dict.fromkeys(BROKERS, 0) for name in NAMES}
        self.acknowledged = dict.fromkeys(NAMES, 0)
        self.delayed: list[AlterPartitionRequest] = []
        self.requested_unclean = False

    def run(self, step: tuple[Any, ...]) -> None:
        name, *arguments = step
        before = self.bench.image
        self.requested_unclean = False
        try:
            getattr(self, name)(*arguments)
        except ApiError:
            assert self.bench.image is before, "a refused request changes nothing"
        for topic in NAMES:
            self.check(topic, _only(before, topic), self.bench.partition(topic))

    # Steps

    def produce(self, topic: str) -> None:
        partition = self.bench.partition(topic)
        if partition.leader == NO_LEADER:
            return
        logs = self.logs[topic]
        minimum = min(int(TOPICS[topic]["min.insync.replicas"]), 3)
        if len(partition.isr) >= minimum:
            self.acknowledged[topic] = end = logs[partition.leader] + 1
            for replica in partition.isr:
                logs[replica] = end

    def fence(self, brokers: tuple[int, ...]) -> None:
        self.bench.fence(*brokers)

    def heartbeat(self, broker_id: int, stops: bool) -> None:
        self.bench.heartbeat(broker_id, want_shut_down=stops)

    def restart(self, broker_id: int, clean: bool) -> None:
        self.bench.sessions.end(broker_id)
        self.bench.register(broker_id, **({} if clean else {"previous_broker_epoch": -1}))
        if not clean:
            self.logs["unsynced"][broker_id] = 0

    def propose(self, topic: str, broker_id: int, grows: bool, now: bool) -> None:
        """The leader proposes to add a follower that has caught up, or to remove one; at once or later."""
        partition = self.bench.partition(topic)
        if partition.leader in (NO_LEADER, broker_id):
            return
        members = [one for one in partition.isr if one != broker_id]
        if grows and broker_id in partition.replicas and self.bench.image.brokers[broker_id].active:
            members.append(broker_id)
            self.logs[topic][broker_id] = self.logs[topic][partition.leader]
        states = [
            BrokerState(broker_id=one, broker_epoch=self.bench.image.brokers[one].epoch) for one in members
        ]
        data = PartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=states,
        )
        topic_id = self.bench.image.topics.by_name[topic].topic_id
        request = AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=self.bench.image.brokers[partition.leader].epoch,
            topics=[TopicData(topic_id=topic_id, partitions=[data])],
        )
        self.delayed.append(request)
        if now:
            self.deliver()

    def deliver(self) -> None:
        """A proposal arrives that was sent earlier. While it is under way the leader counts the larger ISR."""
        if self.delayed:
            request = self.delayed.pop(0)
            self.bench.apply(alter_partition.decide_alter_partition(self.bench.view, request, 3))

    def reassign(self, topic: str, replicas: tuple[int, ...] | None) -> None:
        target = ReassignablePartition(
            partition_index=0, replicas=None if replicas is None else list(replicas)
        )
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=[target])]
        )
        self.bench.apply(reassignment.decide_reassign(self.bench.view, request))

    def elect(self, topic: str, kind: int) -> None:
        self.requested_unclean = kind == 1
        request = ElectLeadersRequest(
            election_type=kind, topic_partitions=[TopicPartitions(topic=topic, partitions=[0])]
        )
        self.bench.apply(elections.decide_elect(self.bench.view, request))

    def periodic(self) -> None:
        self.bench.apply(elections.decide_balance(self.bench.view))
        self.bench.apply(elections.decide_unclean(self.bench.view))

    # Checks

    def check(self, topic: str, old: PartitionImage, new: PartitionImage) -> None:
        brokers = self.bench.image.brokers
        isr, elr = set(new.isr), set(new.eligible_leader_replicas)
        assert len(isr) == len(new.isr)
        assert new.leader == NO_LEADER or new.leader in isr
        assert (new.leader == NO_LEADER) == (not isr)
        assert isr <= set(new.replicas)
        assert elr <= set(new.replicas)
        assert not isr & elr
        assert all(brokers[one].active for one in isr), "a broker that is not active is in no ISR"
        assert new.leader_epoch >= old.leader_epoch
        if new != old:
            assert new.partition_epoch > old.partition_epoch
        if new.leader != old.leader:
            assert new.leader_epoch > old.leader_epoch
            if new.leader != NO_LEADER:
                self.check_election(topic, old, new)
        if set(old.replicas) - set(new.replicas):
            assert new.leader_epoch > old.leader_epoch, "removed replicas are fenced"
        minimum = min(int(TOPICS[topic]["min.insync.replicas"]), 3)
        assert len(isr) < minimum or not elr

    def check_election(self, topic: str, old: PartitionImage, new: PartitionImage) -> None:
        logs = self.logs[topic]
        eligible = {*old.isr, *old.eligible_leader_replicas, *new.isr[1:]}
        if new.leader_recovery_state == 1:
            may_be_unclean = TOPICS[topic].get("unclean.leader.election.enable") == "true"
            assert may_be_unclean or self.requested_unclean or old.last_known_elr == (new.leader,), (
                "an unclean election"
            )
            self.acknowledged[topic] = logs[new.leader]
        else:
            assert new.leader in eligible or new.leader in old.replicas
            assert logs[new.leader] >= self.acknowledged[topic], "the new leader lacks acknowledged records"
        for replica in BROKERS:  # followers truncate to the log of the new leader
            logs[replica] = min(logs[replica], logs[new.leader])


def _only(image: MetadataImage, topic: str) -> PartitionImage:
    return image.topics.by_name[topic].partitions[0]


TOPIC = st.sampled_from(NAMES)
BROKER = st.sampled_from(BROKERS)
FLAG = st.booleans()
REPLICAS = st.permutations(BROKERS).flatmap(
    lambda order: st.sampled_from([tuple(order[:2]), tuple(order[:3])])
)
STEPS = st.one_of(
    st.tuples(st.just("produce"), TOPIC),
    st.tuples(st.just("fence"), st.lists(BROKER, min_size=1, max_size=4, unique=True).map(tuple)),
    st.tuples(st.just("heartbeat"), BROKER, st.just(False)),
    st.tuples(st.just("heartbeat"), BROKER, st.just(False)),
    st.tuples(st.just("heartbeat"), BROKER, FLAG),
    st.tuples(st.just("restart"), BROKER, FLAG),
    st.tuples(st.just("propose"), TOPIC, BROKER, FLAG, FLAG),
    st.tuples(st.just("propose"), TOPIC, BROKER, st.just(True), st.just(True)),
    st.tuples(st.just("deliver")),
    st.tuples(st.just("reassign"), TOPIC, st.none() | REPLICAS),
    st.tuples(st.just("elect"), TOPIC, st.integers(0, 1)),
    st.tuples(st.just("periodic")),
)


# A reassignment is cancelled while no broker is active.
@example(
    steps=[
        ("fence", (2, 3)),
        ("heartbeat", 1, True),
        ("reassign", "risky", (1, 2)),
        ("reassign", "risky", None),
    ]
)
@settings(max_examples=150)
@given(steps=st.lists(STEPS, min_size=5, max_size=60))
def test_invariants_of_partitions(steps: list[tuple[Any, ...]]) -> None:
    model = Model()
    for step in steps:
        model.run(step)
