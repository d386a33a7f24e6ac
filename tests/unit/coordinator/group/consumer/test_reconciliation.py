"""Single reconciliation steps."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.coordinator.group.consumer.consumer_member import ConsumerMember
from ottla.coordinator.group.consumer.reconciliation import ReconciliationInput, reconciled
from ottla.coordinator.group.consumer.transitions import MemberState
from tests.support.metadata import topic_id_of

T, U = topic_id_of("t"), topic_id_of("u")


def member(
    state: MemberState = MemberState.STABLE,
    epoch: int = 5,
    assigned: Iterable[int] = (),
    revoking: Iterable[int] = (),
    topic: Uuid = T,
) -> ConsumerMember:
    return ConsumerMember(
        "a",
        epoch=epoch,
        previous_epoch=epoch,
        state=state,
        assigned={topic: dict.fromkeys(assigned, 3)} if assigned else {},
        revoking={topic: dict.fromkeys(revoking, 3)} if revoking else {},
    )


def aim(
    target: Iterable[int],
    epoch: int = 6,
    *,
    owned: Iterable[int] | None = None,
    held: Iterable[int] = (),
    subscribed: Iterable[Uuid] = (T, U),
    changed: bool = False,
) -> ReconciliationInput:
    others = set(held)
    return ReconciliationInput(
        epoch,
        {T: frozenset(target)} if target else {},
        frozenset(subscribed),
        lambda topic, partition: partition not in others,
        None if owned is None else {T: frozenset(owned)},
        changed,
    )


def seen(member: ConsumerMember) -> tuple[str, int, list[int], list[int]]:
    return (
        member.state.name,
        member.epoch,
        sorted(member.assigned.get(T, {})),
        sorted(member.revoking.get(T, {})),
    )


def test_a_reconciled_member_does_not_change() -> None:
    there = member(epoch=6, assigned=[1])
    assert reconciled(there, aim([1, 2])) is there


def test_new_partitions_have_the_new_epoch() -> None:
    after = reconciled(member(assigned=[1]), aim([1, 2]))
    assert seen(after) == ("STABLE", 6, [1, 2], [])
    assert after.assigned[T] == {1: 3, 2: 6}, "what it keeps keeps its date"
    assert after.previous_epoch == 5


def test_nothing_is_assigned_before_the_revocation() -> None:
    after = reconciled(member(assigned=[1, 2]), aim([2, 3]))
    assert seen(after) == ("UNREVOKED_PARTITIONS", 5, [2], [1])
    assert after.revoking[T] == {1: 3}


def test_partitions_that_are_not_owned_need_no_revocation() -> None:
    assert seen(reconciled(member(assigned=[1, 2]), aim([2, 3], owned=[2]))) == ("STABLE", 6, [2, 3], [])


@pytest.mark.parametrize("owned", [None, [1], [1, 2]])
def test_a_member_waits_until_it_reports_the_revocation(owned: list[int] | None) -> None:
    waiting = member(MemberState.UNREVOKED_PARTITIONS, assigned=[2], revoking=[1])
    assert reconciled(waiting, aim([2], owned=owned)) is waiting


def test_after_the_revocation_the_newest_target_applies() -> None:
    waiting = member(MemberState.UNREVOKED_PARTITIONS, assigned=[2], revoking=[1])
    assert seen(reconciled(waiting, aim([2, 4], 9, owned=[2]))) == ("STABLE", 9, [2, 4], [])


def test_the_newest_target_may_require_another_revocation() -> None:
    waiting = member(MemberState.UNREVOKED_PARTITIONS, assigned=[2, 3], revoking=[1])
    assert seen(reconciled(waiting, aim([3], 9, owned=[2, 3]))) == ("UNREVOKED_PARTITIONS", 5, [3], [2])


def test_a_revoked_partition_may_be_assigned_again_to_the_same_member() -> None:
    waiting = member(MemberState.UNREVOKED_PARTITIONS, assigned=[2], revoking=[1])
    assert seen(reconciled(waiting, aim([1, 2], 9, owned=[2], held=[1, 2]))) == ("STABLE", 9, [1, 2], [])


def test_a_member_waits_for_unreleased_partitions_at_the_new_epoch() -> None:
    after = reconciled(member(assigned=[1]), aim([1, 2, 3], held=[3]))
    assert seen(after) == ("UNRELEASED_PARTITIONS", 6, [1, 2], [])


def test_released_partitions_are_assigned() -> None:
    waiting = member(MemberState.UNRELEASED_PARTITIONS, 6, assigned=[1])
    assert seen(reconciled(waiting, aim([1, 2, 3], held=[3]))) == ("UNRELEASED_PARTITIONS", 6, [1, 2], [])
    assert seen(reconciled(waiting, aim([1, 2, 3]))) == ("STABLE", 6, [1, 2, 3], [])
    assert reconciled(waiting, aim([1, 2], held=[2])) is waiting


def test_the_target_may_change_while_a_member_waits() -> None:
    waiting = member(MemberState.UNRELEASED_PARTITIONS, 6, assigned=[1])
    assert seen(reconciled(waiting, aim([2], 7, held=[2]))) == ("UNREVOKED_PARTITIONS", 6, [], [1])


def test_unsubscribed_topics_are_not_assigned() -> None:
    assert seen(reconciled(member(assigned=[1]), aim([1, 2], subscribed=[U]))) == (
        "UNREVOKED_PARTITIONS",
        5,
        [],
        [1],
    )


def test_a_changed_subscription_revokes_unsubscribed_topics_at_once() -> None:
    there = member(epoch=6, assigned=[1])
    assert seen(reconciled(there, aim([1], subscribed=[U], changed=True))) == (
        "UNREVOKED_PARTITIONS",
        6,
        [],
        [1],
    )
    gone = reconciled(there, aim([1], owned=[], subscribed=[U], changed=True))
    assert seen(gone) == ("STABLE", 6, [], [])
    assert reconciled(there, aim([1], changed=True)) is there


def test_a_changed_subscription_during_a_revocation_adds_to_it() -> None:
    waiting = member(MemberState.UNREVOKED_PARTITIONS, assigned=[2], revoking=[1])
    after = reconciled(waiting, aim([2], subscribed=[U], changed=True, owned=[1, 2]))
    assert seen(after) == ("UNREVOKED_PARTITIONS", 5, [], [1, 2])


@pytest.mark.parametrize("owned", [None, [1]])
def test_a_member_in_an_unknown_state_must_rejoin(owned: list[int] | None) -> None:
    strange = member(MemberState.UNKNOWN, assigned=[1])
    with pytest.raises(ApiError, match="FENCED_MEMBER_EPOCH"):
        reconciled(strange, aim([1, 2], owned=owned))


def test_a_member_that_rejoins_from_an_unknown_state_gets_its_target() -> None:
    nothing = aim([1, 2])._replace(owned={})
    assert seen(reconciled(member(MemberState.UNKNOWN, assigned=[1]), nothing)) == ("STABLE", 6, [1, 2], [])
