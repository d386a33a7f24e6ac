"""One step of a member towards its target, rule by rule."""

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


def test_who_is_where_it_should_be_stays_there() -> None:
    there = member(epoch=6, assigned=[1])
    assert reconciled(there, aim([1, 2])) is there


def test_new_partitions_come_with_the_new_epoch_and_are_dated_by_it() -> None:
    after = reconciled(member(assigned=[1]), aim([1, 2]))
    assert seen(after) == ("STABLE", 6, [1, 2], [])
    assert after.assigned[T] == {1: 3, 2: 6}, "what it keeps keeps its date"
    assert after.previous_epoch == 5


def test_nothing_is_given_before_what_must_go_is_gone() -> None:
    after = reconciled(member(assigned=[1, 2]), aim([2, 3]))
    assert seen(after) == ("UNREVOKED_PARTITIONS", 5, [2], [1])
    assert after.revoking[T] == {1: 3}


def test_what_the_member_no_longer_owns_need_not_be_given_up() -> None:
    assert seen(reconciled(member(assigned=[1, 2]), aim([2, 3], owned=[2]))) == ("STABLE", 6, [2, 3], [])


@pytest.mark.parametrize("owned", [None, [1], [1, 2]])
def test_it_waits_until_the_member_says_that_it_gave_them_up(owned: list[int] | None) -> None:
    waiting = member(MemberState.UNREVOKED_PARTITIONS, assigned=[2], revoking=[1])
    assert reconciled(waiting, aim([2], owned=owned)) is waiting


def test_once_they_are_given_up_it_goes_to_the_newest_target() -> None:
    waiting = member(MemberState.UNREVOKED_PARTITIONS, assigned=[2], revoking=[1])
    assert seen(reconciled(waiting, aim([2, 4], 9, owned=[2]))) == ("STABLE", 9, [2, 4], [])


def test_more_may_have_to_be_given_up_by_then() -> None:
    waiting = member(MemberState.UNREVOKED_PARTITIONS, assigned=[2, 3], revoking=[1])
    assert seen(reconciled(waiting, aim([3], 9, owned=[2, 3]))) == ("UNREVOKED_PARTITIONS", 5, [3], [2])


def test_what_was_given_up_may_come_back_though_nobody_else_released_it() -> None:
    waiting = member(MemberState.UNREVOKED_PARTITIONS, assigned=[2], revoking=[1])
    assert seen(reconciled(waiting, aim([1, 2], 9, owned=[2], held=[1, 2]))) == ("STABLE", 9, [1, 2], [])


def test_what_others_hold_is_waited_for_at_the_new_epoch() -> None:
    after = reconciled(member(assigned=[1]), aim([1, 2, 3], held=[3]))
    assert seen(after) == ("UNRELEASED_PARTITIONS", 6, [1, 2], [])


def test_it_gets_the_rest_as_it_becomes_free() -> None:
    waiting = member(MemberState.UNRELEASED_PARTITIONS, 6, assigned=[1])
    assert seen(reconciled(waiting, aim([1, 2, 3], held=[3]))) == ("UNRELEASED_PARTITIONS", 6, [1, 2], [])
    assert seen(reconciled(waiting, aim([1, 2, 3]))) == ("STABLE", 6, [1, 2, 3], [])
    assert reconciled(waiting, aim([1, 2], held=[2])) is waiting


def test_while_it_waits_the_target_may_change() -> None:
    waiting = member(MemberState.UNRELEASED_PARTITIONS, 6, assigned=[1])
    assert seen(reconciled(waiting, aim([2], 7, held=[2]))) == ("UNREVOKED_PARTITIONS", 6, [], [1])


def test_topics_that_are_not_read_any_more_are_no_target() -> None:
    assert seen(reconciled(member(assigned=[1]), aim([1, 2], subscribed=[U]))) == (
        "UNREVOKED_PARTITIONS",
        5,
        [],
        [1],
    )


def test_another_subscription_takes_away_at_once_what_is_not_read_any_more() -> None:
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


def test_another_subscription_while_it_gives_up_adds_to_what_must_go() -> None:
    waiting = member(MemberState.UNREVOKED_PARTITIONS, assigned=[2], revoking=[1])
    after = reconciled(waiting, aim([2], subscribed=[U], changed=True, owned=[1, 2]))
    assert seen(after) == ("UNREVOKED_PARTITIONS", 5, [], [1, 2])


@pytest.mark.parametrize("owned", [None, [1]])
def test_a_state_of_a_newer_coordinator_is_left_by_starting_over(owned: list[int] | None) -> None:
    strange = member(MemberState.UNKNOWN, assigned=[1])
    with pytest.raises(ApiError, match="FENCED_MEMBER_EPOCH"):
        reconciled(strange, aim([1, 2], owned=owned))


def test_who_starts_over_from_such_a_state_gets_its_target() -> None:
    nothing = aim([1, 2])._replace(owned={})
    assert seen(reconciled(member(MemberState.UNKNOWN, assigned=[1]), nothing)) == ("STABLE", 6, [1, 2], [])
