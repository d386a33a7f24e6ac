"""Consumer groups under random members: responses are lost, members stall, stop and return, topics change.

Each member is modelled from the client side and uses only the responses that it received. After every step:
- no two members that may still be consuming own the same partition;
- epochs never decrease: the group's, the target's, and those of a member while it stays a member;
- a target assigns every partition of every topic to exactly one member.
At the end, when all members send heartbeats and nothing is lost, every partition is owned exactly once.

Steps are drawn by weight from a seed: most are heartbeats, so that groups make progress between two faults.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.group.consumer.transitions import GROUP, GroupState
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.support.consumer_bench import TIMEOUT_MS, ConsumerBench
from tests.support.metadata import topic_id_of

NAMES = "abc"
TOPICS = ("t", "u")
SUBSCRIPTIONS = (("t",), ("t",), ("t", "u"), ("u",))
ACTS = ("follow", "follow", "give up", "stall", "lose")
"""What a member does with the response to a heartbeat."""
STEPS = 150


class Client:
    """The client side of a member."""

    def __init__(self, name: str, topics: tuple[str, ...], instance: str | None) -> None:
        self.name = name
        self.topics = topics
        self.instance = instance
        self.epoch = 0
        self.owned: set[tuple[str, int]] = set()
        self.wanted: set[tuple[str, int]] = set()
        self.sends_all_fields = True
        self.heard_ms = 0
        self.assigned: set[tuple[str, int]] = set()
        """Of the last response, also if it was lost."""
        self.asked_ms: int | None = None
        """Since when the coordinator waits until this member has revoked partitions."""

    def reset(self) -> None:
        """Revoke all partitions before the next join."""
        self.epoch, self.owned, self.wanted, self.sends_all_fields = 0, set(), set(), True
        self.assigned, self.asked_ms = set(), None

    def fields(self) -> dict[str, Any]:
        """The fields of the next heartbeat."""
        owned: dict[str, tuple[int, ...]] = {}
        for topic, partition in sorted(self.owned):
            owned[topic] = (*owned.get(topic, ()), partition)
        fields: dict[str, Any] = {"owned": owned, "instance_id": self.instance}
        if self.sends_all_fields:
            fields |= {"subscribed_topic_names": list(self.topics), "rebalance_timeout_ms": TIMEOUT_MS}
        return fields

    def sent(self, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        """The coordinator has sent a response, which may be lost."""
        if response.assignment is not None:
            known = {topic_id_of(name): name for name in TOPICS}
            self.assigned = {
                (known[each.topic_id], partition)
                for each in response.assignment.topic_partitions
                for partition in each.partitions
            }
        if self.owned <= self.assigned:
            self.asked_ms = None
        elif self.asked_ms is None:
            self.asked_ms = now_ms

    def receive(self, response: ConsumerGroupHeartbeatResponse) -> None:
        assert response.member_epoch >= self.epoch, "epochs never decrease"
        self.epoch, self.sends_all_fields = response.member_epoch, False
        if response.assignment is not None:
            self.wanted = set(self.assigned)

    def miss(self) -> None:
        """The response was lost. The request listed the owned partitions, so no other partition may be consumed."""
        self.wanted &= self.owned
        self.sends_all_fields = True

    def follow(self) -> None:
        """Revoke partitions and start to consume new ones."""
        self.owned = set(self.wanted)

    def give_up(self) -> None:
        """Revoke partitions without starting to consume new ones."""
        self.owned &= self.wanted


class Groups:
    """Random steps."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        interval = self.rng.choice(["0", "0", "1000"])
        self.bench = ConsumerBench({"group.consumer.assignment.interval.ms": interval}, t=3, u=2)
        self.session_ms = self.bench.machine.context.settings.consumer({}).session_timeout_ms
        self.clients: dict[str, Client] = {}
        self.epochs = (0, 0)
        self.state = GroupState.EMPTY
        self.count = 0

    def step(self) -> None:
        """One random step."""
        name = self.rng.choice(NAMES)
        if name not in self.clients:
            self.come(name)
            return
        acts = [
            self.beat,
            self.follow,
            self.subscribe,
            self.leave,
            self.vanish,
            self.wait,
            self.grow,
            self.restart,
        ]
        act = self.rng.choices(acts, [60, 8, 4, 4, 2, 12, 2, 3])[0]
        act(name)

    # Requests

    def come(self, name: str) -> None:
        self.count += 1
        instance = self.rng.choice([None, None, f"i-{name}"])
        self.clients[name] = Client(f"{name}{self.count}", self.rng.choice(SUBSCRIPTIONS), instance)
        self.clients[name].heard_ms = self.bench.clock.now
        self.beat(name)

    def beat(self, name: str) -> None:
        """A heartbeat. If its response is lost, the next heartbeat has all fields."""
        self.beat_and(name, self.rng.choice(ACTS))

    def beat_and(self, name: str, act: str) -> None:
        client = self.clients[name]
        response = self.ask(client, client.epoch, **client.fields())
        if not isinstance(response, ErrorCode):
            client.heard_ms = self.bench.clock.now
            client.sent(response, self.bench.clock.now)
        if act == "lose":
            client.miss()
        elif response is ErrorCode.UNRELEASED_INSTANCE_ID:
            del self.clients[name]
        elif isinstance(response, ErrorCode):
            assert response in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
            client.reset()
        else:
            client.receive(response)
            if act == "follow":
                client.follow()
            elif act == "give up":
                client.give_up()

    def ask(self, client: Client, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse | ErrorCode:
        try:
            return self.bench.send(self.bench.request(client.name, epoch, **fields))
        except ApiError as error:
            return error.code

    def follow(self, name: str) -> None:
        self.clients[name].follow()

    def subscribe(self, name: str) -> None:
        self.clients[name].topics = self.rng.choice(SUBSCRIPTIONS)
        self.clients[name].sends_all_fields = True

    def leave(self, name: str) -> None:
        """A member leaves; its response may be lost."""
        client = self.clients.pop(name)
        epoch = self.rng.choice([-1, -2]) if client.instance is not None else -1
        response = self.ask(client, epoch, instance_id=client.instance)
        unknown = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.FENCED_INSTANCE_ID)
        assert not isinstance(response, ErrorCode) or response in unknown

    def vanish(self, name: str) -> None:
        del self.clients[name]

    # Events

    def wait(self, _: str) -> None:
        """Time passes. A client without a response for a session timeout stops to consume.

        So does one that has not revoked partitions within the rebalance timeout: the coordinator has removed it. With
        Kafka too, a client may consume meanwhile, until its next heartbeat; this is not modelled.
        """
        self.bench.advance(self.rng.choice([500, 500, 5_000, 5_000, 20_000, 50_000]))
        for client in self.clients.values():
            silent_ms = self.bench.clock.now - client.heard_ms
            revoking_ms = 0 if client.asked_ms is None else self.bench.clock.now - client.asked_ms
            if silent_ms >= min(self.session_ms, TIMEOUT_MS) or revoking_ms >= TIMEOUT_MS:
                client.reset()

    def grow(self, _: str) -> None:
        topic = self.rng.choice(TOPICS)
        count = len(self.bench.image.topics.by_name[topic].partitions)
        if count < 6:
            self.bench.add_partitions(topic, count + 1)

    def restart(self, _: str) -> None:
        """Another coordinator takes over; sessions restart."""
        self.bench.restart()

    # Invariants

    def check(self) -> None:
        self.check_owners()
        if "g" in self.bench.machine.context.groups:
            self.check_group()

    def check_owners(self) -> None:
        owners: dict[tuple[str, int], str] = {}
        for client in self.clients.values():
            for partition in client.owned:
                assert partition not in owners, f"{partition}: {owners[partition]} and {client.name}"
                owners[partition] = client.name

    def check_group(self) -> None:
        group = self.bench.group
        epochs = (group.epoch, group.target_epoch)
        assert epochs[0] >= self.epochs[0]
        assert epochs[1] >= self.epochs[1]
        assert epochs[1] <= epochs[0]
        self.epochs = epochs
        after = group.state
        assert after is self.state or GROUP.allows(self.state, after)
        self.state = after
        meant = [
            (topic, partition)
            for target in group.targets.values()
            for topic, partitions in target.items()
            for partition in partitions
        ]
        assert len(meant) == len(set(meant))

    def calm_down(self) -> None:
        """Without faults every subscribed partition is owned exactly once in the end."""
        self.bench.advance(50_000)
        for client in self.clients.values():
            client.reset()
        for _ in range(12):
            self.bench.advance(1_000)
            for name in list(self.clients):
                self.beat_and(name, "follow")
            self.check()
        read = {topic for client in self.clients.values() for topic in client.topics}
        wanted = {
            (topic, partition)
            for topic in read
            for partition in self.bench.image.topics.by_name[topic].partitions
        }
        owned = [partition for client in self.clients.values() for partition in client.owned]
        assert sorted(owned) == sorted(wanted)
        assert not self.clients or self.bench.group.state_name == "Stable"


@given(seed=st.integers(0, 2**32))
@settings(max_examples=25)
def test_members_never_share_a_partition_and_in_the_end_read_them_all(seed: int) -> None:
    groups = Groups(seed)
    for _ in range(STEPS):
        groups.step()
        groups.check()
    groups.calm_down()
