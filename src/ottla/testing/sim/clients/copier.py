"""Copiers: members of a group that consume, transform and produce exactly once, with transactions.

Each transaction copies some records from the member's partitions to the same partitions of another topic, and commits
their offsets with the generation of the member, so that a copier that has lost its partitions cannot commit.
"""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.testing.sim.checkers.offsets import Commit, Slot
from ottla.testing.sim.clients.classic_member import ClassicMember
from ottla.testing.sim.clients.consumer_member import ConsumerMember
from ottla.testing.sim.clients.member import Member, MembershipLost
from ottla.testing.sim.clients.process import NoResponse
from ottla.testing.sim.clients.producer_session import MustAbort, TransactionalSession
from ottla.testing.sim.cluster import Cluster

OUT_TOPIC = "out"

_BATCH_RECORDS_MAX = 12
"""A larger batch may not fit into a tiny segment."""


class _Copier(Member):
    """Replaces processing and committing of a member by transactions."""

    session: TransactionalSession
    _initialised = False

    def _start_session(self) -> None:
        traits = self.cluster.stream(f"session of {self.client_id}")
        self.session = TransactionalSession(self, generation=traits.choice((1, 2)), timeout_ms=4000)
        self.instance_id = None
        self._copies = 0

    async def poll(self, wait_ms: int) -> int:
        """Run one transaction, if there are records to copy."""
        if not self._initialised:
            await self.session.init()
            self._initialised = True
        if not self.positions:
            await self.process.sleep(wait_ms)
            return 0
        before, after = dict(self.positions), dict(self.positions)
        try:
            found = await self.fetcher.fetch(after, wait_ms)
        except NoResponse:
            return 0
        moved = {tp: after[tp] for tp in found if after[tp] > before[tp]}
        if not moved:
            return 0
        txn = self.session.begin(self.group)
        # Positions after a rebalance are checked elsewhere: in the history each transaction is one consumer.
        self.cluster.txns.read(str(txn.name), found, txn)
        try:
            number = 0
            for tp in sorted(moved):
                self.cluster.processed_by(self.group, tp, before[tp], after[tp])
                if found[tp]:
                    target = TopicPartition(OUT_TOPIC, tp.partition)
                    values = [
                        f"{txn.name}/{number + each}={value.replace('/', ':')}"
                        for each, (_, value) in enumerate(found[tp])
                    ]
                    number += len(values)
                    await self.session.add([target])
                    for first in range(0, len(values), _BATCH_RECORDS_MAX):
                        await self.session.produce(target, values[first : first + _BATCH_RECORDS_MAX], txn)
            offsets: dict[TopicPartition, tuple[int, str]] = {}
            for tp, offset in moved.items():
                self._copies += 1
                name = f"{self.name}#t{self._copies}"
                commit = Commit(Slot(self.group, tp), offset, self.member_id, self.generation, txn)
                self.cluster.offsets.requested(name, commit)
                offsets[tp] = (offset, name)
            await self.session.send_offsets(self.group, self.member_id, self.generation, offsets)
            if self.rng.random() < 0.15:
                # Other members may get its partitions meanwhile, and must wait for its open transaction.
                await self.process.sleep(self.rng.uniform(0, 5000))
            committed = self.rng.random() > 0.15
            await self.session.end(txn, committed=committed)
        except MustAbort:
            await self.session.abandon(txn)
            raise MembershipLost(ErrorCode.REBALANCE_IN_PROGRESS) from None
        if not committed:
            # An application that aborts continues at the committed offsets.
            offsets_now = await self.committed_offsets(list(moved), 8)
            self.positions.update({tp: max(offset, 0) for tp, offset in offsets_now.items()})
            return 0
        self.positions.update(moved)
        self.kernel.count("transactions of copiers")
        return sum(map(len, found.values()))

    async def commit(self) -> None:
        """Do nothing: offsets are committed by transactions only."""


class ClassicCopier(_Copier, ClassicMember):
    """A copier in a classic group."""

    def __init__(
        self, cluster: Cluster, client_id: str, incarnation: int = 0, *, group: str, topics: tuple[str, ...]
    ) -> None:
        super().__init__(cluster, client_id, incarnation, group=group, topics=topics)
        self._start_session()


class ConsumerCopier(_Copier, ConsumerMember):
    """A copier in a consumer group."""

    def __init__(
        self, cluster: Cluster, client_id: str, incarnation: int = 0, *, group: str, topics: tuple[str, ...]
    ) -> None:
        super().__init__(cluster, client_id, incarnation, group=group, topics=topics)
        self._start_session()
