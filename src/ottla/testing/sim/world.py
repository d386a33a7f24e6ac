"""Everything of one run in one place: kernel, network, broker, what is known, and who is there."""

from __future__ import annotations

from ottla.base.ids import TopicPartition, Uuid
from ottla.testing.sim.claims import Claims
from ottla.testing.sim.group_ledger import GroupLedger
from ottla.testing.sim.kernel import Kernel
from ottla.testing.sim.log_follower import Listener, LogFollower
from ottla.testing.sim.network import Network, Weather
from ottla.testing.sim.node import SimNode
from ottla.testing.sim.offsets_ledger import OffsetsLedger, Slot
from ottla.testing.sim.txn_ledger import TxnLedger
from ottla.testing.sim.txn_states import TxnStates

OFFSETS_TOPIC = "__consumer_offsets"
TXN_TOPIC = "__transaction_state"

__all__ = ["OFFSETS_TOPIC", "TXN_TOPIC", "World"]


class World:
    def __init__(self, seed: int, settings: dict[str, str]) -> None:
        self.kernel = Kernel(seed)
        self.network = Network(self.kernel, Weather(self.kernel.stream("weather")))
        self.node = SimNode(self.kernel, self.network, settings)
        self.claims = Claims(self.kernel)
        self.groups = GroupLedger(self.kernel)
        self.txns = TxnLedger(self.kernel)
        self.offsets = OffsetsLedger(self.kernel, self.txns, self.groups)
        self.txn_states = TxnStates(self.kernel)
        self.follower = LogFollower(self.kernel, self._listener_of)
        self.topics: dict[str, int] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.transaction_version = 2
        self.closing = False
        """Producers and members with an end of their own come to it."""
        self.node.on_ready = self._verify

    def places(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, index) for index in range(self.topics[topic])]

    def log_ends(self) -> dict[TopicPartition, int]:
        """Where the logs end now, staged records included."""
        return {part.log.topic_partition: part.log.log_end_offset for part in self.node.partitions}

    def look(self) -> None:
        """After each event: has anything been committed that must not be?"""
        for partition in self.node.partitions:
            self.follower.look(partition)

    def consumed(self, group: str, place: TopicPartition, start: int, end: int) -> None:
        """A member has processed the offsets from `start` to before `end`."""
        slot = Slot(group, place)
        done = self.offsets.processed.get(slot, 0)
        self.kernel.check(
            start <= done, "G6 a group skips nothing", f"{slot}: goes on at {start}, was at {done}"
        )
        self.offsets.processed[slot] = max(done, end)

    def _verify(self) -> None:
        for partition in self.node.partitions:
            self.follower.verify(partition.log)

    def _listener_of(self, topic: str) -> Listener:
        if topic == OFFSETS_TOPIC:
            return self.offsets
        return self.txn_states if topic == TXN_TOPIC else self.txns
