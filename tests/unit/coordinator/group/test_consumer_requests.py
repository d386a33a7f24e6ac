"""Every request to a consumer group, in every state, from every kind of sender: request_tables/consumer_group.md."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.support.consumer_bench import GROUP, ConsumerBench, Parts
from tests.support.request_tables import Case, load

TOPIC, OTHER_TOPIC = "t", "u"
INTERVAL_MS = 1_000
PRODUCER_ID = 7
INSTANCE, LEFT_INSTANCE = "instance", "left-instance"
NO_EPOCH, LEAVES, LEAVES_TEMPORARILY = -1, -1, -2
OLD_PARTITION, NEW_PARTITION, OTHER_PARTITION = "old", "new", "other"


class Scenario:
    """A group in one state.

    `member` is a dynamic member that has held a partition for some epochs and got another one in its current epoch.
    `static` took over its instance id from `fenced`. `left` is a static member that leaves temporarily where a
    request needs it; the group is not stable from then on.
    """

    def __init__(self, state: str) -> None:
        interval = {"group.consumer.assignment.interval.ms": str(INTERVAL_MS)}
        self.bench = ConsumerBench(settings=interval, **{TOPIC: 8, OTHER_TOPIC: 1})
        self.epoch, self.previous, self.left_epoch = 5, 4, 3
        self.partitions = {OLD_PARTITION: 0, NEW_PARTITION: 1, OTHER_PARTITION: 2}
        if state == "no group":
            return
        self._build()
        if state == "Empty":
            for name in list(self.bench.group.members):
                self.bench.classic_leave(name)
        elif state in ("Assigning", "Reconciling"):
            if state == "Reconciling":
                self.bench.advance(INTERVAL_MS)
            self.bench.join("newcomer", TOPIC)
        assert self.bench.group.state_name == state

    def _build(self) -> None:
        """A stable group; one of its members has just left for good, so that `member` got a partition."""
        bench = self.bench
        bench.join("member", TOPIC)
        bench.join("fenced", TOPIC, instance_id=INSTANCE)
        bench.join("left", TOPIC, instance_id=LEFT_INSTANCE)
        bench.join("leaves", TOPIC)
        self._settle("member", "fenced", "left", "leaves")
        bench.beat("fenced", LEAVES_TEMPORARILY, instance_id=INSTANCE)
        bench.join("static", TOPIC, instance_id=INSTANCE)
        self._settle("member", "static", "left", "leaves")
        bench.beat("leaves", LEAVES)
        self._settle("member", "static", "left")
        member = bench.member("member")
        self.epoch, self.previous = member.epoch, member.previous_epoch
        assert self.previous == self.epoch - 1
        held = {
            partition: since for assigned in member.assigned.values() for partition, since in assigned.items()
        }
        self.partitions = {
            OLD_PARTITION: next(each for each, since in held.items() if since < self.epoch),
            NEW_PARTITION: next(each for each, since in held.items() if since == self.epoch),
            OTHER_PARTITION: next(each for each in range(8) if each not in held),
        }
        self.left_epoch = bench.member("left").epoch

    def _settle(self, *members: str) -> None:
        self.bench.advance(INTERVAL_MS)
        self.bench.settle(*members)

    @property
    def members(self) -> Container[str]:
        known = GROUP in self.bench.machine.context.groups
        return self.bench.group.members if known else ()

    def owned(self, *names: str) -> Parts:
        return {TOPIC: tuple(self.partitions[name] for name in names)}


class Sender(NamedTuple):
    """The ids and the epoch that a request names."""

    member_id: str
    epoch: int
    instance: str | None = None


def sender_of(sender: str, scenario: Scenario) -> Sender:
    kind, *details = sender.split(", ")
    if kind.endswith("leaves"):
        return Sender("member" if kind == "member leaves" else "unknown", LEAVES)
    if kind.endswith("leaves temporarily"):
        return Sender(kind.split()[0], LEAVES_TEMPORARILY, INSTANCE)
    epoch = scenario.epoch
    for words, value in (
        ("epoch 0", 0),
        ("previous epoch", scenario.previous),
        ("older epoch", scenario.previous - 1),
        ("future epoch", scenario.epoch + 1),
        ("last epoch", scenario.left_epoch),
        ("no epoch", NO_EPOCH),
    ):
        if words in details:
            epoch = value
    if kind == "left static member":
        return Sender("successor" if "new member id" in details else "left", epoch, LEFT_INSTANCE)
    if kind == "static member" and "static" in scenario.members:
        epoch = scenario.bench.member("static").epoch
    return {
        "new member": Sender("new", epoch),
        "member": Sender("member", epoch),
        "unknown member": Sender("unknown", epoch),
        "static member": Sender("static", epoch, INSTANCE),
        "fenced instance": Sender("fenced", epoch, INSTANCE),
        "unknown instance": Sender("member", epoch, "unknown"),
        "no member id": Sender("", epoch),
    }[kind]


def send(case: Case, scenario: Scenario) -> ErrorCode:
    """Send the request; the error code of the response."""
    bench = scenario.bench
    match case.request:
        case "OffsetDelete":
            return bench.delete_offset(GROUP, TOPIC if case.sender == "subscribed topic" else OTHER_TOPIC)
        case "DeleteGroups":
            return bench.delete_group(GROUP)
    sender = sender_of(case.sender, scenario)
    match case.request:
        case "ConsumerGroupHeartbeat":
            return _heartbeat(case, scenario, sender)
        case "OffsetFetch":
            return _fetch(scenario, sender)
    name = OLD_PARTITION
    if "assigned in the current epoch" in case.sender:
        name = NEW_PARTITION
    elif "not assigned" in case.sender:
        name = OTHER_PARTITION
    ids: dict[str, Any] = {
        "member": sender.member_id,
        "generation": sender.epoch,
        "instance": sender.instance,
        "partition": scenario.partitions[name],
    }
    if case.request == "TxnOffsetCommit":
        return bench.commit_in_transaction(PRODUCER_ID, GROUP, 5, **ids)
    return bench.commit(GROUP, 5, version=8 if "version 8" in case.sender else 9, **ids)


def _heartbeat(case: Case, scenario: Scenario, sender: Sender) -> ErrorCode:
    fields: dict[str, Any] = {"instance_id": sender.instance}
    if sender.epoch == 0:
        fields |= {"owned": {}, "rebalance_timeout_ms": 60_000, "subscribed_topic_names": [TOPIC]}
    elif "owns assigned partitions" in case.sender:
        fields["owned"] = scenario.owned(OLD_PARTITION)
    elif "owns other partitions" in case.sender:
        fields["owned"] = scenario.owned(OLD_PARTITION, OTHER_PARTITION)
    try:
        scenario.bench.beat(sender.member_id, sender.epoch, **fields)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def _fetch(scenario: Scenario, sender: Sender) -> ErrorCode:
    request = OffsetFetchRequestGroup(
        group_id=GROUP,
        member_id=sender.member_id or None,
        member_epoch=sender.epoch,
        topics=[OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])],
    )
    try:
        response = scenario.bench.machine.fetch_offsets(request, require_stable=False)
    except ApiError as error:
        return error.code
    return ErrorCode(response.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("case", load("consumer_group"), ids=str)
def test_error_code_of_a_request_to_a_consumer_group(case: Case) -> None:
    scenario = Scenario(case.state)
    if case.sender.startswith("left static member") and "left" in scenario.members:
        scenario.bench.beat("left", LEAVES_TEMPORARILY, instance_id=LEFT_INSTANCE)
    logged = len(scenario.bench.log)
    assert send(case, scenario).name == case.expected
    if case.expected != "NONE":
        assert len(scenario.bench.log) == logged
    elif "Commit" in case.request:
        assert len(scenario.bench.log) == logged + 1
