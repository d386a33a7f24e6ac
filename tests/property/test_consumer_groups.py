"""Consumer groups under random members: answers get lost, members stall, vanish and come back, topics change.

Each member is modelled from its own side: it knows only what answers told it. After every step:
- no two members that may still be reading own the same partition;
- epochs never go back: the group's, the target's, and those a member is told while it stays a member;
- a target gives every partition of every topic to exactly one member.
At the end, when everybody sends heartbeats and nothing is lost, everything is owned exactly once.

Steps are drawn by weight from a seed: most are heartbeats, so that groups get somewhere between two upsets.
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
"""What a member does with the answer to a heartbeat."""
STEPS = 150


class Client:
    """A member as it sees itself."""

    def __init__(self, name: str, topics: tuple[str, ...], instance: str | None) -> None:
        self.name = name
        self.topics = topics
        self.instance = instance
        self.epoch = 0
        self.owned: set[tuple[str, int]] = set()
        self.wanted: set[tuple[str, int]] = set()
        self.tells_all = True
        self.heard_ms = 0

    def reset(self) -> None:
        """Start over: it gives up everything before it joins again."""
        self.epoch, self.owned, self.wanted, self.tells_all = 0, set(), set(), True

    def fields(self) -> dict[str, Any]:
        """What it says in its next heartbeat."""
        owned: dict[str, tuple[int, ...]] = {}
        for topic, partition in sorted(self.owned):
            owned[topic] = (*owned.get(topic, ()), partition)
        fields: dict[str, Any] = {"owned": owned, "instance_id": self.instance}
        if self.tells_all:
            fields |= {"subscribed_topic_names": list(self.topics), "rebalance_timeout_ms": TIMEOUT_MS}
        return fields

    def hear(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        assert answer.member_epoch >= self.epoch, "epochs never go back"
        self.epoch, self.tells_all = answer.member_epoch, False
        if answer.assignment is not None:
            known = {topic_id_of(name): name for name in TOPICS}
            self.wanted = {
                (known[each.topic_id], partition)
                for each in answer.assignment.topic_partitions
                for partition in each.partitions
            }

    def miss(self) -> None:
        """No answer came. It said what it owns, so it must not begin with anything older answers gave it."""
        self.wanted &= self.owned
        self.tells_all = True

    def follow(self) -> None:
        """Give up what it must, begin with what it may."""
        self.owned = set(self.wanted)

    def give_up(self) -> None:
        """Give up what it must, but do not begin with anything yet."""
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
        """One thing happens."""
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

    # What members do

    def come(self, name: str) -> None:
        self.count += 1
        instance = self.rng.choice([None, None, f"i-{name}"])
        self.clients[name] = Client(f"{name}{self.count}", self.rng.choice(SUBSCRIPTIONS), instance)
        self.clients[name].heard_ms = self.bench.clock.now
        self.beat(name)

    def beat(self, name: str) -> None:
        """A heartbeat. If its answer is lost the member says everything the next time."""
        self.beat_and(name, self.rng.choice(ACTS))

    def beat_and(self, name: str, act: str) -> None:
        client = self.clients[name]
        answer = self.ask(client, client.epoch, **client.fields())
        if not isinstance(answer, ErrorCode):
            client.heard_ms = self.bench.clock.now
        if act == "lose":
            client.miss()
        elif answer is ErrorCode.UNRELEASED_INSTANCE_ID:
            del self.clients[name]
        elif isinstance(answer, ErrorCode):
            assert answer in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
            client.reset()
        else:
            client.hear(answer)
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
        self.clients[name].tells_all = True

    def leave(self, name: str) -> None:
        """A member stops reading and says so; nobody hears whether it arrived."""
        client = self.clients.pop(name)
        epoch = self.rng.choice([-1, -2]) if client.instance is not None else -1
        answer = self.ask(client, epoch, instance_id=client.instance)
        unknown = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.FENCED_INSTANCE_ID)
        assert not isinstance(answer, ErrorCode) or answer in unknown

    def vanish(self, name: str) -> None:
        del self.clients[name]

    # What else happens

    def wait(self, _: str) -> None:
        """Time passes. A client that hears nothing for a session knows that it is out, and stops reading."""
        self.bench.advance(self.rng.choice([500, 500, 5_000, 5_000, 20_000, 50_000]))
        for client in self.clients.values():
            if self.bench.clock.now - client.heard_ms >= min(self.session_ms, TIMEOUT_MS):
                client.reset()

    def grow(self, _: str) -> None:
        topic = self.rng.choice(TOPICS)
        count = len(self.bench.image.topics.by_name[topic].partitions)
        if count < 6:
            self.bench.add_partitions(topic, count + 1)

    def restart(self, _: str) -> None:
        """Another coordinator takes over; sessions begin anew."""
        self.bench.restart()

    # What must always hold

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
        """Calm returns: in the end everything that somebody reads is owned exactly once."""
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
