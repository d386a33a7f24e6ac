"""Checker of the group records in `__consumer_offsets`: owners, generations and epochs.

Rules, after every batch:

- G1 no partition is assigned to two members of a consumer group, even while one of them must still revoke it;
- G2 generations of classic groups, epochs of consumer groups, and epochs of their members never decrease. A group that
  was deleted, or an empty classic group that a consumer group replaces, begins again.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.base.ids import TopicPartition, Uuid
from ottla.coordinator.group import records as keys
from ottla.testing.sim.kernel.events import Kernel
from ottla.wire.schema import Message

_LEFT_EPOCHS = (-1, -2)  # epochs of static members that have left


class GroupChecker:
    """State of all groups, replayed from `__consumer_offsets`."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.topic_names: dict[Uuid, str] = {}
        self.generations: dict[str, int] = {}
        self.epochs: dict[str, int] = {}
        self._member_epochs: dict[tuple[str, str], int] = {}
        self._owned: dict[str, dict[str, list[TopicPartition]]] = {}
        self._touched: dict[str, None] = {}

    def members(self, group: str) -> dict[str, list[TopicPartition]]:
        """The partitions of each member of a consumer group, including those that it must still revoke."""
        return self._owned.get(group, {})

    def reason_against(self, group: str, tp: TopicPartition, member: str, generation: int) -> str | None:
        """Why a commit must not be in the log at this point; None if it may be."""
        owned = self._owned.get(group)
        if owned:
            mine = owned.get(member, [])
            return None if tp in mine else f"{member} owns {mine}, not {tp}"
        newest = self.generations.get(group, -1)
        return None if generation >= newest else f"generation {generation}, the current one is {newest}"

    # Replay

    def replay(self, key: Message, value: Message | None) -> None:
        if isinstance(key, keys.GroupMetadataKey):
            if isinstance(value, keys.GroupMetadataValue):
                self._classic(key.group, value)
            else:
                self.generations.pop(key.group, None)
        elif isinstance(key, keys.ConsumerGroupMetadataKey):
            if isinstance(value, keys.ConsumerGroupMetadataValue):
                self._advance(self.epochs, key.group_id, value.epoch, "the epoch of a group")
            else:
                self.epochs.pop(key.group_id, None)
        elif isinstance(key, keys.ConsumerGroupCurrentMemberAssignmentKey):
            self._touched[key.group_id] = None
            owned = self._owned.setdefault(key.group_id, {})
            if isinstance(value, keys.ConsumerGroupCurrentMemberAssignmentValue):
                self._member(key.group_id, key.member_id, value)
                owned[key.member_id] = [
                    *self._partitions(value.assigned_partitions),
                    *self._partitions(value.partitions_pending_revocation),
                ]
            else:
                owned.pop(key.member_id, None)
                self._member_epochs.pop((key.group_id, key.member_id), None)

    def batch_ended(self) -> None:
        for group in self._touched:
            owners: dict[TopicPartition, str] = {}
            for member, partitions in self._owned[group].items():
                for tp in partitions:
                    other = owners.setdefault(tp, member)
                    self._kernel.check(
                        other == member,
                        "G1 a partition has one owner",
                        f"{group}: {tp} is owned by {other} and {member}",
                    )
        self._touched.clear()

    def _classic(self, group: str, value: keys.GroupMetadataValue) -> None:
        self._advance(self.generations, group, value.generation, "the generation of a group")

    def _member(self, group: str, member: str, value: keys.ConsumerGroupCurrentMemberAssignmentValue) -> None:
        before = self._member_epochs.get((group, member))
        epoch = value.member_epoch
        if before is not None and before not in _LEFT_EPOCHS and epoch not in _LEFT_EPOCHS:
            self._kernel.check(
                epoch >= before,
                "G2 epochs and generations never decrease",
                f"member {member} of {group}: {before} to {epoch}",
            )
        self._member_epochs[group, member] = epoch

    def _advance(self, table: dict[str, int], group: str, number: int, what: str) -> None:
        before = table.get(group, -1)
        if number > before:
            self._kernel.count("group epochs" if table is self.epochs else "group generations")
        self._kernel.check(
            number >= before,
            "G2 epochs and generations never decrease",
            f"{what} {group}: {before} to {number}",
        )
        table[group] = number

    def _partitions(self, topics: Iterable[keys.TopicPartitions]) -> list[TopicPartition]:
        return [
            TopicPartition(self.topic_names.get(topic.topic_id, str(topic.topic_id)), partition)
            for topic in topics
            for partition in topic.partitions
        ]
