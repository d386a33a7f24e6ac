"""Consume, transform, produce, exactly once: a member of a group whose offsets go with its transactions.

Each transaction copies some records of the partitions the member owns to the same partitions of another topic and
commits their offsets, with the member's generation, so that a copier which lost its partitions cannot commit.
"""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.testing.sim.actors.classic import ClassicMember
from ottla.testing.sim.actors.consumer import ConsumerMember
from ottla.testing.sim.actors.member import Member, Out
from ottla.testing.sim.actors.producing import MustAbort, TxnSession
from ottla.testing.sim.actors.reading import fetch
from ottla.testing.sim.client import Unanswered
from ottla.testing.sim.offsets_ledger import Commit, Slot
from ottla.testing.sim.world import World

OUT_TOPIC = "out"


class _Copying(Member):
    """What a copier does instead of processing and committing."""

    session: TxnSession
    _initialised = False

    def equip(self) -> None:
        traits = self.world.kernel.stream(f"session of {self.who}")
        self.session = TxnSession(self, generation=traits.choice((1, 2)), timeout_ms=4000)
        self.instance_id = None
        self._copies = 0

    async def poll(self, wait_ms: int) -> int:
        """One transaction, if there is anything to copy."""
        if not self._initialised:
            await self.session.init()
            self._initialised = True
        if not self.positions:
            await self.process.sleep(wait_ms)
            return 0
        before, after = dict(self.positions), dict(self.positions)
        try:
            found = await fetch(self, self.data, after, committed=True, wait_ms=wait_ms)
        except Unanswered:
            return 0
        moved = {place: after[place] for place in found if after[place] > before[place]}
        if not moved:
            return 0
        txn = self.session.begin()
        try:
            number = 0
            for place in sorted(moved):
                self.world.consumed(self.group, place, before[place], after[place])
                if found[place]:
                    target = TopicPartition(OUT_TOPIC, place.partition)
                    values = [
                        f"{txn.name}/{number + each}={value.replace('/', ':')}"
                        for each, (_, value) in enumerate(found[place])
                    ]
                    number += len(values)
                    await self.session.add([target])
                    await self.session.produce(target, values, txn)
            offsets: dict[TopicPartition, tuple[int, str]] = {}
            for place, offset in moved.items():
                self._copies += 1
                name = f"{self.name}#t{self._copies}"
                commit = Commit(Slot(self.group, place), offset, self.member_id, self.generation, txn)
                self.world.offsets.asked(name, commit)
                offsets[place] = (offset, name)
            await self.session.send_offsets(self.group, self.member_id, self.generation, offsets)
            if self.rng.random() < 0.15:
                # Meanwhile others may get its partitions, and must wait for what it has open.
                await self.process.sleep(self.rng.uniform(0, 5000))
            committed = self.rng.random() > 0.15
            await self.session.end(txn, committed=committed)
        except MustAbort:
            await self.session.give_up(txn)
            raise Out(ErrorCode.REBALANCE_IN_PROGRESS) from None
        if not committed:
            # As an application does that changes its mind: back to what is committed.
            offsets_now = await self.committed_offsets(list(moved), 8)
            self.positions.update({place: max(offset, 0) for place, offset in offsets_now.items()})
            return 0
        self.positions.update(moved)
        self.kernel.count("transactions of copiers")
        return sum(map(len, found.values()))

    async def commit(self) -> None:
        """Offsets are committed by transactions only."""


class ClassicCopier(_Copying, ClassicMember):
    def __init__(self, world: World, who: str, life: int = 0, *, group: str, topics: tuple[str, ...]) -> None:
        super().__init__(world, who, life, group=group, topics=topics)
        self.equip()


class ConsumerCopier(_Copying, ConsumerMember):
    def __init__(self, world: World, who: str, life: int = 0, *, group: str, topics: tuple[str, ...]) -> None:
        super().__init__(world, who, life, group=group, topics=topics)
        self.equip()
