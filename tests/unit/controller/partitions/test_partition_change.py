"""Changes of one partition: who leads, who is in sync, who may still lead, and when the leader epoch rises."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import pytest
from msgspec import structs

from ottla.controller.partitions.partition_change import RECOVERED, RECOVERING, Election, PartitionChange
from ottla.metadata.image import DIRECTORY_UNASSIGNED, PartitionImage
from ottla.metadata.records import PartitionChangeRecord

UNCHANGED = -2
NO_LEADER = -1


def partition(
    isr: Iterable[int] = (1, 2, 3),
    leader: int = 1,
    replicas: tuple[int, ...] = (1, 2, 3),
    elr: tuple[int, ...] = (),
    last_known: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
    adding: tuple[int, ...] = (),
    recovery: int = RECOVERED,
) -> PartitionImage:
    return PartitionImage(
        replicas=replicas,
        directories=(DIRECTORY_UNASSIGNED,) * len(replicas),
        isr=tuple(isr),
        leader=leader,
        leader_recovery_state=recovery,
        removing_replicas=removing,
        adding_replicas=adding,
        eligible_leader_replicas=elr,
        last_known_elr=last_known,
    )


def change(
    image: PartitionImage, *, alive: Iterable[int] = (1, 2, 3, 4, 5), min_isr: int = 2, elr: bool = True
) -> PartitionChange:
    online = set(alive)
    return PartitionChange(
        image, lambda broker_id: broker_id in online, min_insync_replicas=min_isr, elr_enabled=elr
    )


def test_nothing_changes_while_everything_is_in_order() -> None:
    assert change(partition()).build() is None


def test_a_shrunk_isr_keeps_leader_and_leader_epoch() -> None:
    made = change(partition())
    made.isr = (1, 2)
    assert made.build() == PartitionChangeRecord(isr=[1, 2])


def test_a_leader_that_left_the_isr_is_replaced_in_the_order_of_the_assignment() -> None:
    made = change(partition(), alive=(2, 3))
    made.isr = (3, 2)
    assert made.build() == PartitionChangeRecord(leader=2, isr=[3, 2])


def test_a_replica_outside_the_isr_is_not_elected() -> None:
    made = change(partition(isr=(1,), elr=()), alive=(2, 3), min_isr=1)
    made.isr = ()
    record = made.build()
    assert record is not None
    assert (record.leader, record.isr, record.last_known_elr) == (NO_LEADER, [], [1])


@pytest.mark.parametrize(
    ("isr", "target", "elr", "expected"),
    [
        ((1, 2, 3), (1, 2), (), None),
        ((1, 2), (1,), (), [2]),
        ((1,), (), (2,), [2, 1]),
        ((1,), (1, 2), (2,), []),
        ((1,), (1, 3), (2,), []),
    ],
)
def test_eligible_replicas_are_those_that_left_an_isr_below_the_minimum(
    isr: tuple[int, ...], target: tuple[int, ...], elr: tuple[int, ...], expected: list[int] | None
) -> None:
    made = change(partition(isr=isr, elr=elr), alive=(1,) if target else ())
    made.isr = target
    record = made.build()
    assert record is not None
    assert record.eligible_leader_replicas == expected


def test_a_replica_that_stopped_uncleanly_is_not_eligible() -> None:
    made = change(partition(isr=(1, 2)), alive=(1,))
    made.isr = (1,)
    made.unclean_replicas = frozenset({2})
    record = made.build()
    assert record == PartitionChangeRecord(isr=[1])


def test_an_eligible_replica_is_elected_when_the_isr_is_empty() -> None:
    image = partition(isr=(), leader=NO_LEADER, elr=(2, 3), last_known=(1,))
    record = change(image, alive=(3,)).build()
    assert record == PartitionChangeRecord(leader=3, isr=[3], eligible_leader_replicas=[2], last_known_elr=[])


def test_an_eligible_replica_is_not_elected_while_the_isr_has_members() -> None:
    image = partition(isr=(1,), leader=NO_LEADER, elr=(2,))
    assert change(image, alive=(2,)).build() is None


def test_the_last_known_leader_is_elected_when_no_replica_is_eligible() -> None:
    image = partition(isr=(), leader=NO_LEADER, last_known=(1,))
    record = change(image, alive=(1, 2)).build()
    assert record == PartitionChangeRecord(
        leader=1, isr=[1], last_known_elr=[], leader_recovery_state=RECOVERING
    )


def test_a_last_known_leader_that_is_no_replica_any_more_is_not_elected() -> None:
    image = partition(isr=(), leader=NO_LEADER, last_known=(4,))
    assert change(image).build() is None
    made = change(image)
    made.election = Election.UNCLEAN
    record = made.build()
    assert record is not None
    assert record.leader == 1


def test_a_leader_that_is_no_replica_any_more_is_not_stored_as_the_last_known_one() -> None:
    made = change(partition(isr=(4,), leader=4, replicas=(4, 1, 2), adding=(4,)), alive=())
    made.replicas, made.isr, made.adding = (1, 2), (), ()
    record = made.build()
    assert record is not None
    assert (record.leader, record.last_known_elr) == (NO_LEADER, None)


def test_an_unclean_election_takes_any_replica_and_marks_it_as_recovering() -> None:
    made = change(partition(isr=(1,), elr=()), alive=(3,), min_isr=1)
    made.isr = ()
    made.election = Election.UNCLEAN
    record = made.build()
    assert record is not None
    assert (record.leader, record.isr, record.leader_recovery_state) == (3, [3], RECOVERING)


def test_an_unclean_election_prefers_a_replica_in_sync() -> None:
    made = change(partition(), alive=(3,))
    made.isr = (3,)
    made.election = Election.UNCLEAN
    record = made.build()
    assert record is not None
    assert (record.leader, record.leader_recovery_state) == (3, -1)


def test_the_preferred_leader_returns_only_if_it_is_in_sync() -> None:
    made = change(partition(leader=2))
    made.election = Election.PREFERRED
    assert made.build() == PartitionChangeRecord(leader=1)
    made = change(partition(leader=2, isr=(2, 3)))
    made.election = Election.PREFERRED
    assert made.build() is None


def test_a_reassignment_is_completed_when_all_new_replicas_are_in_sync() -> None:
    image = partition(isr=(1, 2, 4), replicas=(1, 2, 3, 4), adding=(4,), removing=(3,))
    record = change(image).build()
    assert record == PartitionChangeRecord(
        leader=1,
        replicas=[1, 2, 4],
        directories=[DIRECTORY_UNASSIGNED] * 3,
        removing_replicas=[],
        adding_replicas=[],
    )


def test_a_reassignment_that_only_adds_replicas_is_completed() -> None:
    image = partition(isr=(1, 2, 3, 4), replicas=(1, 2, 3, 4), adding=(4,))
    assert change(image).build() == PartitionChangeRecord(adding_replicas=[])


def test_a_reassignment_does_not_wait_for_replicas_that_it_does_not_add() -> None:
    image = partition(isr=(1, 4), replicas=(1, 2, 4, 3), adding=(4,), removing=(3,))
    record = change(image).build()
    assert record is not None
    assert (record.replicas, record.adding_replicas, record.removing_replicas) == ([1, 2, 4], [], [])


def test_a_reassignment_that_makes_a_partition_smaller_waits_for_all_replicas_that_stay() -> None:
    image = partition(isr=(1, 3), replicas=(1, 2, 3), removing=(3,))
    assert change(image).build() is None


def test_replicas_that_stay_keep_their_directories() -> None:
    directories = (uuid.UUID(int=11), uuid.UUID(int=12), uuid.UUID(int=13))
    made = change(structs.replace(partition(), directories=directories))
    made.replicas, made.adding = (1, 2, 3, 4), (4,)
    made.directories[2] = uuid.UUID(int=99)
    record = made.build(lambda broker_id: uuid.UUID(int=1000 + broker_id))
    assert record is not None
    assert record.directories == [
        directories[0],
        uuid.UUID(int=99),
        directories[2],
        uuid.UUID(int=1004),
    ]


def test_a_reassignment_waits_for_its_new_replicas() -> None:
    image = partition(isr=(1, 2, 3), replicas=(1, 2, 3, 4), adding=(4,), removing=(3,))
    assert change(image).build() is None


def test_a_completed_reassignment_that_removes_the_leader_elects_another() -> None:
    image = partition(isr=(1, 2, 4), replicas=(1, 2, 4), adding=(4,), removing=(1,))
    record = change(image).build()
    assert record is not None
    assert (record.leader, record.isr, record.replicas) == (2, [2, 4], [2, 4])


def test_without_eligible_replicas_an_empty_isr_is_never_written() -> None:
    made = change(partition(isr=(1,)), alive=(2, 3), elr=False)
    made.isr = ()
    record = made.build()
    assert record == PartitionChangeRecord(leader=NO_LEADER)


def test_a_leader_is_unchanged_by_default() -> None:
    made = change(partition(isr=(1, 2)))
    made.isr = (1, 2, 3)
    record = made.build()
    assert record is not None
    assert record.leader == UNCHANGED


def test_leader_from_the_eligible_replicas_that_can_commit_alone_leaves_no_others_eligible() -> None:
    image = partition(isr=(), leader=NO_LEADER, elr=(1, 2, 3), last_known=(1,))
    for min_isr, eligible in ((1, []), (2, [1, 3])):
        record = change(image, alive=(2,), min_isr=min_isr).build()
        assert record is not None
        assert (record.leader, record.isr, record.eligible_leader_replicas) == (2, [2], eligible)


def test_the_last_known_leader_is_forgotten_without_eligible_leader_replicas() -> None:
    image = partition(isr=(1, 2), last_known=(3,))
    assert change(image, elr=False).build() == PartitionChangeRecord(last_known_elr=[])
