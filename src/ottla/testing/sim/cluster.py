"""Everything of one run in one place: kernel, network, broker, what is known, and who is there."""

from __future__ import annotations

from ottla.base.ids import TopicPartition, Uuid
from ottla.testing.sim.checkers.groups import GroupChecker
from ottla.testing.sim.checkers.logs import Listener, LogChecker
from ottla.testing.sim.checkers.offsets import OffsetChecker, Slot
from ottla.testing.sim.checkers.ownership import OwnershipChecker
from ottla.testing.sim.checkers.transaction_states import TransactionStateChecker
from ottla.testing.sim.checkers.transactions import TransactionChecker
from ottla.testing.sim.kernel.events import Kernel
from ottla.testing.sim.kernel.network import Network, Weather
from ottla.testing.sim.node import SimNode

OFFSETS_TOPIC = "__consumer_offsets"
TXN_TOPIC = "__transaction_state"

__all__ = ["OFFSETS_TOPIC", "TXN_TOPIC", "Cluster"]


class Cluster:
    def __init__(self, seed: int, settings: dict[str, str]) -> None:
        self.kernel = Kernel(seed)
        self.network = Network(self.kernel, Weather(self.kernel.stream("weather")))
        self.node = SimNode(self.kernel, self.network, settings)
        self.ownership = OwnershipChecker(self.kernel)
        self.groups = GroupChecker(self.kernel)
        self.txns = TransactionChecker(self.kernel)
        self.offsets = OffsetChecker(self.kernel, self.txns, self.groups)
        self.txn_states = TransactionStateChecker(self.kernel)
        self.logs = LogChecker(self.kernel, self._listener_of)
        self.topics: dict[str, int] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.transaction_version = 2
        self.ending = False
        """Producers and members with an end of their own come to it."""
        self.node.on_ready = self._verify

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, index) for index in range(self.topics[topic])]

    def log_ends(self) -> dict[TopicPartition, int]:
        """Where the logs end now, staged records included."""
        return {part.log.topic_partition: part.log.log_end_offset for part in self.node.partitions}

    def check(self) -> None:
        """After each event: has anything been committed that must not be?"""
        for partition in self.node.partitions:
            self.logs.check(partition)

    def processed_by(self, group: str, tp: TopicPartition, start: int, end: int) -> None:
        """A member has processed the offsets from `start` to before `end`."""
        slot = Slot(group, tp)
        done = self.offsets.processed.get(slot, 0)
        self.kernel.check(
            start <= done, "G6 a group skips nothing", f"{slot}: goes on at {start}, was at {done}"
        )
        self.offsets.processed[slot] = max(done, end)

    def _verify(self) -> None:
        for partition in self.node.partitions:
            self.logs.verify(partition.log)

    def _listener_of(self, topic: str) -> Listener:
        if topic == OFFSETS_TOPIC:
            return self.offsets
        return self.txn_states if topic == TXN_TOPIC else self.txns
