"""Checks of a classic group for offset requests, listing and deletion, and its members."""

import pytest

from ottla.base.errors import ApiError, ErrorCode, InvariantViolation
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_member import ClassicMember
from ottla.coordinator.group.classic.transitions import ClassicState
from ottla.coordinator.group.group import GroupKind
from tests.support.classic_groups import FIRST_DELAY_MS, GROUP, Team, subscription
from tests.support.coordination import START_MS, FakeClock


def refusal(team: Team, member_id: str, generation: int, **fields: object) -> ErrorCode:
    """The error code of an offset commit."""
    instance = fields.pop("instance", None)
    transactional = bool(fields.pop("transactional", False))
    try:
        team.group.validate_offset_commit(
            member_id,
            instance,  # type: ignore[arg-type]
            generation,
            transactional=transactional,
            api_version=9,
        )
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


class TestCommits:
    def test_a_member_commits_in_its_generation_only(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        assert refusal(team, member, 1) == ErrorCode.NONE
        assert refusal(team, member, 0) == ErrorCode.ILLEGAL_GENERATION
        assert refusal(team, member, 2) == ErrorCode.ILLEGAL_GENERATION
        assert refusal(team, member, -1) == ErrorCode.ILLEGAL_GENERATION

    def test_unknown_members_do_not_commit(self) -> None:
        team = Team()
        team.stable(1)
        assert refusal(team, "stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert refusal(team, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert refusal(team, "", 1) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_members_commit_during_the_join_phase(self) -> None:
        team = Team()
        leader, follower = team.stable(2)
        team.join(leader)
        assert refusal(team, follower, 1) == ErrorCode.NONE
        assert refusal(team, leader, 1) == ErrorCode.NONE

    def test_no_member_commits_before_the_assignment(self) -> None:
        team = Team()
        leader, _ = team.gather(2)
        assert refusal(team, leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_a_pending_member_does_not_commit(self) -> None:
        team = Team()
        team.stable(1)
        assert refusal(team, team.known_id(), 1) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_only_clients_without_a_member_id_commit_to_an_empty_group(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        team.leave(member)
        assert refusal(team, "", -1) == ErrorCode.NONE
        assert refusal(team, member, 2) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_an_instance_needs_its_current_member_id(self) -> None:
        team = Team()
        (old,) = team.stable_instances("a")
        new = team.join(instance="a").result().member_id
        assert refusal(team, old, 1, instance="a") == ErrorCode.FENCED_INSTANCE_ID
        assert refusal(team, new, 1, instance="a") == ErrorCode.NONE
        assert refusal(team, new, 1, instance="b") == ErrorCode.UNKNOWN_MEMBER_ID
        assert refusal(team, "", -1, instance="b") == ErrorCode.UNKNOWN_MEMBER_ID

    def test_transactions_of_old_clients_name_no_member(self) -> None:
        team = Team()
        leader, _ = team.gather(2)
        assert refusal(team, "", -1, transactional=True) == ErrorCode.NONE
        assert refusal(team, leader, 1, transactional=True) == ErrorCode.NONE
        assert refusal(team, leader, 2, transactional=True) == ErrorCode.ILLEGAL_GENERATION
        assert refusal(team, "stranger", 1, transactional=True) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_dead_group_fails_with_coordinator_not_available(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        group = team.group
        team.groups.on_unloaded()
        with pytest.raises(ApiError) as refused:
            group.validate_offset_commit(member, None, 1, transactional=False, api_version=9)
        assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


class TestDeletion:
    def test_a_group_with_members_is_not_deleted(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        with pytest.raises(ApiError) as refused:
            team.group.validate_delete()
        assert refused.value.code == ErrorCode.NON_EMPTY_GROUP
        team.leave(member)
        team.group.validate_delete()

    def test_a_tombstone_deletes_the_group(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        team.leave(member)
        (tombstone,) = team.group.tombstones()
        assert tombstone.value is None
        team.bench.machine.replay(tombstone, None)  # type: ignore[arg-type]
        assert team.groups.find(GROUP) is None

    @pytest.mark.parametrize("check", ["validate_delete", "validate_offset_delete", "validate_offset_fetch"])
    def test_a_dead_group_is_not_found(self, check: str) -> None:
        group = ClassicGroup(GROUP, FakeClock(), state=ClassicState.DEAD)
        arguments = ("m", 1) if check == "validate_offset_fetch" else ()
        with pytest.raises(ApiError) as refused:
            getattr(group, check)(*arguments)
        assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND

    def test_single_offsets_are_deleted_only_in_groups_of_consumers(self) -> None:
        consumers, workers = Team(), Team()
        consumers.stable(1)
        (worker,) = workers.stable(1, protocol_type="connect")
        consumers.group.validate_offset_delete()
        with pytest.raises(ApiError) as refused:
            workers.group.validate_offset_delete()
        assert refused.value.code == ErrorCode.NON_EMPTY_GROUP
        workers.leave(worker)
        workers.group.validate_offset_delete()

    def test_every_client_may_fetch_offsets(self) -> None:
        team = Team()
        team.stable(1)
        team.group.validate_offset_fetch(None, -1)


class TestSubscriptions:
    def test_a_group_subscribes_to_what_its_members_do(self) -> None:
        team = Team()
        for topic in ("orders", "bills"):
            team.enter(protocols=(("range", subscription(topic)),))
        assert team.group.is_subscribed_to("anything")  # not known before there is a generation
        team.pass_time(2 * FIRST_DELAY_MS)
        assert team.group.is_subscribed_to("orders")
        assert team.group.is_subscribed_to("bills")
        assert not team.group.is_subscribed_to("letters")

    def test_an_unreadable_subscription_may_be_any_topic(self) -> None:
        team = Team()
        team.stable(1, protocols=(("range", b"?"),))
        assert team.group.is_subscribed_to("orders")

    def test_other_protocol_types_subscribe_to_nothing(self) -> None:
        team = Team()
        team.stable(1, protocol_type="connect")
        assert not team.group.is_subscribed_to("orders")

    def test_an_empty_group_subscribes_to_nothing(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        team.leave(member)
        assert not team.group.is_subscribed_to("orders")


class TestRetention:
    def test_retention_of_a_simple_group_starts_at_the_commit(self) -> None:
        assert ClassicGroup(GROUP, FakeClock(), state_since_ms=7).retention_start(5) == 5

    def test_retention_of_an_empty_group_starts_when_it_became_empty(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        team.pass_time(1)
        team.leave(member)
        assert team.group.retention_start(5) == team.bench.clock.now

    def test_retention_starts_at_the_commit_if_the_state_timestamp_is_unknown(self) -> None:
        group = ClassicGroup(GROUP, FakeClock(), protocol_type="consumer")
        assert group.retention_start(5) == 5

    def test_retention_of_a_stable_group_of_consumers_starts_at_the_commit(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        assert team.group.retention_start(5) == 5
        team.join(member)
        assert team.group.retention_start(5) is None

    def test_offsets_of_other_stable_groups_do_not_expire(self) -> None:
        team = Team()
        team.stable(1, protocol_type="connect")
        assert team.group.retention_start(5) is None


def test_a_group_has_a_type_a_state_and_a_protocol_type() -> None:
    team = Team()
    team.stable(1)
    group = team.group
    assert (group.kind, group.state_name, group.protocol_type) == (GroupKind.CLASSIC, "Stable", "consumer")
    assert not group.is_empty()


def test_state_changes_follow_the_table_and_have_a_timestamp() -> None:
    clock = FakeClock()
    group = ClassicGroup(GROUP, clock)
    with pytest.raises(InvariantViolation):
        group.transition_to(ClassicState.STABLE)
    clock.now += 10
    group.transition_to(ClassicState.PREPARING)
    assert group.state_since_ms == START_MS + 10


def test_an_instance_has_one_member() -> None:
    group = ClassicGroup(GROUP, FakeClock())

    def member(member_id: str) -> ClassicMember:
        return ClassicMember(
            member_id,
            instance_id="a",
            client_id="app",
            client_host="/10.0.0.7",
            rebalance_timeout_ms=1,
            session_timeout_ms=1,
            protocol_type="consumer",
            protocols=(("range", b""),),
        )

    group.add(member("1"))
    with pytest.raises(InvariantViolation):
        group.add(member("2"))


def test_cost_is_linear_in_members() -> None:
    """Joins and heartbeats do not iterate over all members; the end of a join phase does so a few times."""
    looked = 0

    class Counted(dict[str, ClassicMember]):
        def values(self):  # type: ignore[no-untyped-def]
            nonlocal looked
            looked += len(self)
            return super().values()

        def items(self):  # type: ignore[no-untyped-def]
            nonlocal looked
            looked += len(self)
            return super().items()

    team = Team()
    count = 1_000
    team.enter()
    team.group.members = Counted(team.group.members)
    entered = [team.enter(protocols=(("range", b""),)) for _ in range(count - 1)]
    assert looked <= count
    while not entered[-1][1].done:
        team.pass_time(FIRST_DELAY_MS)
    assert looked <= 10 * count
    looked = 0
    for member_id, _ in entered:
        assert team.beat(member_id, 1) == ErrorCode.NONE
    assert looked == 0
