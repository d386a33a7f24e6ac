"""Consumer groups under random members: answers get lost, members stall, vanish and come back, topics change.

Each member is modelled from its own side: it knows only what answers told it. After every step:
- no two members that may still be reading own the same partition;
- epochs never go back: the group's, the target's, and those a member is told while it stays a member;
- a target gives every partition of every topic to exactly one member.
At the end, when everybody sends heartbeats and nothing is lost, everything is owned exactly once.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.group.consumer.transitions import GROUP, GroupState
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.support.consumer_bench import TIMEOUT_MS, ConsumerBench
from tests.support.metadata import topic_id_of

NAMES = st.sampled_from("abcd")
TOPICS = ("t", "u")
SUBSCRIPTIONS = st.sampled_from([("t",), ("u",), ("t", "u")])


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

    def follow(self) -> None:
        """Give up what it must, begin with what it may."""
        self.owned = set(self.wanted)

    def give_up(self) -> None:
        """Give up what it must, but do not begin with anything yet."""
        self.owned &= self.wanted


class Groups(RuleBasedStateMachine):
    """Random steps."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[str, Client] = {}
        self.epochs = (0, 0)
        self.state = GroupState.EMPTY
        self.count = 0

    @initialize(interval=st.sampled_from(["0", "1000"]))
    def start(self, interval: str) -> None:
        self.bench = ConsumerBench({"group.consumer.assignment.interval.ms": interval}, t=3, u=2)
        self.session_ms = self.bench.machine.context.settings.consumer({}).session_timeout_ms

    # What members do

    @rule(name=NAMES, topics=SUBSCRIPTIONS, static=st.booleans(), lost=st.booleans())
    def come(self, name: str, topics: tuple[str, ...], static: bool, lost: bool) -> None:
        if name not in self.clients:
            self.count += 1
            self.clients[name] = Client(f"{name}{self.count}", topics, f"i-{name}" if static else None)
            self.clients[name].heard_ms = self.bench.clock.now
            self.beat(name, lost)

    @rule(name=NAMES, lost=st.booleans())
    def beat(self, name: str, lost: bool) -> None:
        """A heartbeat whose answer may be lost; then the member says everything the next time."""
        client = self.clients.get(name)
        if client is None:
            return
        answer = self.ask(client, client.epoch, **client.fields())
        if not isinstance(answer, ErrorCode):
            client.heard_ms = self.bench.clock.now
        if lost:
            client.tells_all = True
        elif answer is ErrorCode.UNRELEASED_INSTANCE_ID:
            del self.clients[name]
        elif isinstance(answer, ErrorCode):
            assert answer in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
            client.reset()
        else:
            client.hear(answer)

    def ask(self, client: Client, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse | ErrorCode:
        try:
            return self.bench.send(self.bench.request(client.name, epoch, **fields))
        except ApiError as error:
            return error.code

    @rule(name=NAMES)
    def follow(self, name: str) -> None:
        if name in self.clients:
            self.clients[name].follow()

    @rule(name=NAMES)
    def give_up(self, name: str) -> None:
        if name in self.clients:
            self.clients[name].give_up()

    @rule(name=NAMES, topics=SUBSCRIPTIONS)
    def subscribe(self, name: str, topics: tuple[str, ...]) -> None:
        if name in self.clients:
            self.clients[name].topics, self.clients[name].tells_all = topics, True

    @rule(name=NAMES, for_a_while=st.booleans())
    def leave(self, name: str, for_a_while: bool) -> None:
        """A member stops reading and says so; nobody hears whether it arrived."""
        client = self.clients.pop(name, None)
        if client is None:
            return
        epoch = -2 if for_a_while and client.instance is not None else -1
        answer = self.ask(client, epoch, instance_id=client.instance)
        unknown = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.FENCED_INSTANCE_ID)
        assert not isinstance(answer, ErrorCode) or answer in unknown

    @rule(name=NAMES)
    def vanish(self, name: str) -> None:
        self.clients.pop(name, None)

    # What else happens

    @rule(seconds=st.sampled_from([0.5, 5, 20, 50]))
    def wait(self, seconds: float) -> None:
        """Time passes. A client that hears nothing for a session knows that it is out, and stops reading."""
        self.bench.advance(int(seconds * 1000))
        for client in self.clients.values():
            if self.bench.clock.now - client.heard_ms >= min(self.session_ms, TIMEOUT_MS):
                client.reset()

    @rule(topic=st.sampled_from(TOPICS))
    def grow(self, topic: str) -> None:
        count = len(self.bench.image.topics.by_name[topic].partitions)
        if count < 6:
            self.bench.add_partitions(topic, count + 1)

    @rule()
    def restart(self) -> None:
        """Another coordinator takes over; sessions begin anew."""
        self.bench.restart()

    # What must always hold

    @invariant()
    def no_partition_is_read_twice(self) -> None:
        owners: dict[tuple[str, int], str] = {}
        for client in self.clients.values():
            for partition in client.owned:
                assert partition not in owners, f"{partition}: {owners[partition]} and {client.name}"
                owners[partition] = client.name

    @invariant()
    @precondition(lambda self: "g" in self.bench.machine.context.groups)
    def epochs_grow_and_targets_are_whole(self) -> None:
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

    def teardown(self) -> None:
        """Calm returns: in the end everything that somebody reads is owned exactly once."""
        if not self.clients:
            return
        self.bench.advance(50_000)
        for client in self.clients.values():
            client.reset()
        for _ in range(12):
            self.bench.advance(1_000)
            for name in list(self.clients):
                self.beat(name, False)
                if name in self.clients:
                    self.clients[name].follow()
            self.no_partition_is_read_twice()
        read = {topic for client in self.clients.values() for topic in client.topics}
        wanted = {
            (topic, partition)
            for topic in read
            for partition in self.bench.image.topics.by_name[topic].partitions
        }
        owned = [partition for client in self.clients.values() for partition in client.owned]
        assert sorted(owned) == sorted(wanted)
        assert self.bench.group.state_name == "Stable"


Groups.TestCase.settings = settings(stateful_step_count=40, deadline=None)
TestGroups = Groups.TestCase
