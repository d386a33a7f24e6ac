"""The timers of a rebalance of a classic group."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.group.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS
from tests.support.classic_groups import (
    FIRST_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    Team,
    error_of,
)


class TestInitialDelay:
    def test_an_empty_group_waits_for_the_initial_delay(self) -> None:
        team = Team()
        _, join = team.enter()
        team.pass_time(FIRST_DELAY_MS - 1)
        assert not join.done
        team.pass_time(1)
        assert join.result().generation_id == 1

    def test_all_members_joined_does_not_end_the_initial_delay(self) -> None:
        team = Team()
        first = team.join(instance="a")
        second = team.join(instance="b")
        assert not first.done
        assert not second.done

    def test_a_new_member_extends_the_initial_delay(self) -> None:
        team = Team()
        _, first = team.enter()
        team.pass_time(FIRST_DELAY_MS - 1)
        _, second = team.enter()
        team.pass_time(FIRST_DELAY_MS)
        assert not first.done
        team.pass_time(1)
        assert len(first.result().members) == 2
        assert second.done

    def test_the_initial_delay_is_limited_by_the_rebalance_timeout(self) -> None:
        team = Team()
        _, first = team.enter(rebalance_ms=8_000)
        for _ in range(7):
            team.pass_time(1_000)
            assert not first.done
            team.enter(rebalance_ms=8_000)
        team.pass_time(1_000)
        assert len(first.result().members) == 8

    def test_an_initial_delay_of_zero_ends_at_once(self) -> None:
        team = Team(group_initial_rebalance_delay_ms="0")
        _, join = team.enter()
        team.pass_time(0)
        assert error_of(join) == ErrorCode.NONE

    def test_a_group_that_became_empty_waits_again(self) -> None:
        team = Team()
        (leader,) = team.stable(1)
        team.leave(leader)
        _, join = team.enter()
        assert not join.done
        team.pass_time(FIRST_DELAY_MS)
        assert join.result().generation_id == 3

    def test_a_group_that_all_members_leave_is_empty_again(self) -> None:
        team = Team()
        member, join = team.enter()
        team.leave(member)
        assert error_of(join) == ErrorCode.UNKNOWN_MEMBER_ID
        team.pass_time(FIRST_DELAY_MS)
        assert team.state == "Empty"
        assert team.group.generation == 1
        value = team.written()[-1]
        assert value is not None
        assert (value.generation, value.members, value.protocol_type) == (1, [], "consumer")


class TestJoinTimer:
    def test_a_rebalance_does_not_end_before_all_members_rejoined(self) -> None:
        team = Team()
        members = team.stable(3)
        joins = [team.join(each) for each in members[:2]]
        assert not any(join.done for join in joins)
        assert team.group.generation == 1
        last = team.join(members[2])
        assert all(join.result().generation_id == 2 for join in [*joins, last])

    def test_rejoining_twice_counts_once(self) -> None:
        team = Team()
        leader, follower = team.stable(2)
        first = team.join(leader)
        second = team.join(leader)
        assert error_of(first) == ErrorCode.REBALANCE_IN_PROGRESS
        assert not second.done
        assert team.group.joined == 1
        team.join(follower)
        assert second.result().generation_id == 2

    def test_a_member_that_does_not_rejoin_in_time_is_removed(self) -> None:
        team = Team()
        leader, late = team.stable(2, session_ms=2 * REBALANCE_MS)
        rejoin = team.join(leader)
        team.pass_time(REBALANCE_MS - 1)
        assert not rejoin.done
        team.pass_time(1)
        assert [each.member_id for each in rejoin.result().members] == [leader]
        assert team.beat(late, 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert team.due_in("session", late) is None

    def test_the_largest_rebalance_timeout_applies(self) -> None:
        team = Team()
        _, join = team.enter(session_ms=1_000_000)
        team.enter(rebalance_ms=REBALANCE_MS + 5_000, session_ms=1_000_000)
        team.pass_time(2 * FIRST_DELAY_MS)
        team.settle(*team.group.members)
        team.join(join.result().member_id, session_ms=1_000_000)
        assert team.due_in("join") == REBALANCE_MS + 5_000

    def test_a_late_leader_is_replaced_by_a_joined_member(self) -> None:
        team = Team()
        leader, follower = team.stable(2, session_ms=2 * REBALANCE_MS)
        rejoin = team.join(follower, protocols=(("range", b"new"),), session_ms=2 * REBALANCE_MS)
        team.pass_time(REBALANCE_MS)
        assert rejoin.result().leader == follower
        assert leader not in team.group.members

    def test_a_late_instance_stays_a_member_but_not_the_leader(self) -> None:
        team = Team()
        leader, follower = team.stable_instances("a", "b", session_ms=1_800_000)
        rejoin = team.join(follower, instance="b", protocols=(("range", b"new"),), session_ms=1_800_000)
        team.pass_time(REBALANCE_MS)
        assert rejoin.result().leader == follower
        assert len(rejoin.result().members) == 2
        assert leader in team.group.members

    def test_a_rebalance_waits_if_only_late_instances_are_left(self) -> None:
        team = Team()
        member, newcomer = team.stable_instances("a", "b", session_ms=1_800_000)
        join = team.join(newcomer, instance="b", protocols=(("range", b"new"),), session_ms=1_800_000)
        team.leave((newcomer, "b"))
        assert error_of(join) == ErrorCode.UNKNOWN_MEMBER_ID
        team.pass_time(REBALANCE_MS)
        assert team.state == "PreparingRebalance"
        assert team.group.generation == 1
        assert team.due_in("join") == REBALANCE_MS
        back = team.join(member, instance="a", session_ms=1_800_000)
        assert back.result().generation_id == 2

    def test_the_join_timer_is_cancelled_at_the_end(self) -> None:
        team = Team()
        leader, follower = team.stable(2)
        team.join(leader)
        team.join(follower)
        assert team.due_in("join") is None


class TestSessions:
    def test_an_expired_session_removes_the_member_and_starts_a_rebalance(self) -> None:
        team = Team()
        leader, silent = team.stable(2)
        team.pass_time(SESSION_MS - 1)
        assert team.beat(leader, 1) == ErrorCode.NONE
        assert silent in team.group.members
        team.pass_time(1)
        assert silent not in team.group.members
        assert team.state == "PreparingRebalance"
        assert team.beat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        assert team.join(leader).result().generation_id == 2

    def test_a_heartbeat_restarts_the_session(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        for _ in range(5):
            team.pass_time(SESSION_MS - 1)
            assert team.beat(member, 1) == ErrorCode.NONE

    def test_a_refused_heartbeat_does_not_restart_the_session(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        team.pass_time(SESSION_MS - 1)
        assert team.beat(member, 0) == ErrorCode.ILLEGAL_GENERATION
        team.pass_time(1)
        assert team.state == "Empty"

    def test_a_commit_restarts_the_session(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        team.pass_time(SESSION_MS - 1)
        team.groups.keep_alive(team.group, member)
        team.pass_time(SESSION_MS - 1)
        assert member in team.group.members

    def test_an_expired_last_member_makes_the_group_empty(self) -> None:
        team = Team()
        team.stable(1)
        team.pass_time(SESSION_MS)
        assert team.state == "Empty"
        value = team.written()[-1]
        assert value is not None
        assert (value.generation, value.members, value.protocol, value.leader) == (2, [], None, None)
        assert value.protocol_type == "consumer"
        assert value.current_state_timestamp == team.bench.clock.now

    def test_a_member_that_waits_in_the_join_phase_does_not_expire(self) -> None:
        team = Team()
        leader, late = team.stable(2, session_ms=SESSION_MS)
        rejoin = team.join(leader)
        for _ in range(3):
            team.pass_time(SESSION_MS - 1)
            team.beat(late, 1)
        assert leader in team.group.members
        team.join(late)
        assert rejoin.result().generation_id == 2

    def test_a_member_that_waits_for_its_assignment_does_not_expire(self) -> None:
        team = Team()
        leader, follower = team.gather(2)
        waiting = team.sync(follower, 1)
        for _ in range(3):
            team.pass_time(SESSION_MS - 1)
            team.beat(leader, 1)
        team.sync(leader, 1, {follower: b"mine"})
        assert waiting.result().assignment == b"mine"
        assert team.due_in("session", follower) == SESSION_MS

    def test_a_new_member_expires_after_five_minutes(self) -> None:
        team = Team()
        (leader,) = team.stable(1, rebalance_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS)
        _, join = team.enter()
        for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 5_000):
            assert not join.done
            team.pass_time(5_000)
            team.beat(leader, 1)
        assert error_of(join) == ErrorCode.UNKNOWN_MEMBER_ID
        assert list(team.group.members) == [leader]

    def test_sessions_begin_with_the_generation(self) -> None:
        team = Team()
        (member,) = team.gather(1)
        assert team.due_in("session", member) == SESSION_MS

    def test_the_rebalance_continues_when_the_missing_member_expires(self) -> None:
        team = Team()
        leader, _ = team.stable(2)
        rejoin = team.join(leader)
        team.pass_time(SESSION_MS)
        assert [each.member_id for each in rejoin.result().members] == [leader]


class TestSyncTimer:
    def test_a_member_that_does_not_sync_is_removed(self) -> None:
        team = Team()
        leader, silent = team.gather(2, session_ms=2 * REBALANCE_MS)
        team.sync(leader, 1, {leader: b"1", silent: b"2"})
        assert team.state == "Stable"
        team.pass_time(REBALANCE_MS - 1)
        assert silent in team.group.members
        team.pass_time(1)
        assert list(team.group.members) == [leader]
        assert team.state == "PreparingRebalance"
        assert team.due_in("session", silent) is None

    def test_a_leader_that_does_not_sync_is_removed(self) -> None:
        team = Team()
        leader, follower = team.gather(2, session_ms=2 * REBALANCE_MS)
        waiting = team.sync(follower, 1)
        team.pass_time(REBALANCE_MS)
        assert error_of(waiting) == ErrorCode.REBALANCE_IN_PROGRESS
        assert team.group.leader_id == follower
        assert leader not in team.group.members

    def test_a_group_in_which_no_member_syncs_is_empty(self) -> None:
        team = Team()
        team.gather(2, session_ms=2 * REBALANCE_MS)
        team.pass_time(REBALANCE_MS)
        assert team.state == "Empty"
        assert team.group.generation == 2

    def test_the_sync_timer_is_cancelled_when_all_members_synced(self) -> None:
        team = Team()
        leader, follower = team.gather(2)
        assert team.due_in("sync") == REBALANCE_MS
        team.sync(leader, 1)
        assert team.due_in("sync") == REBALANCE_MS
        team.sync(follower, 1)
        assert team.due_in("sync") is None

    def test_a_new_rebalance_cancels_the_sync_timer(self) -> None:
        team = Team()
        team.gather(2)
        team.known_id()
        team.join(instance="i")
        assert team.state == "PreparingRebalance"
        assert team.due_in("sync") is None


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_every_join_phase_raises_the_generation_by_one(rounds: int) -> None:
    team = Team()
    leader, follower = team.stable(2)
    for generation in range(2, 2 + rounds):
        joins = [team.join(leader), team.join(follower)]
        assert [join.result().generation_id for join in joins] == [generation, generation]
        team.settle(leader, follower)
