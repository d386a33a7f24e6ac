"""Classic groups of a shard: loading, unloading, replay and description."""

from ottla.base.errors import ErrorCode
from ottla.coordinator.group.classic.transitions import ClassicState
from ottla.coordinator.group.records import GroupMetadataKey
from ottla.coordinator.runtime.decision import LogRecord
from ottla.coordinator.runtime.state_machine import Stamp
from tests.support.classic_groups import FIRST_DELAY_MS, GROUP, RANGE, SESSION_MS, Team, error_of


class TestLoading:
    def test_a_stable_group_is_restored(self) -> None:
        team = Team()
        members = team.stable_instances("a", "b")
        team.bench.restart()
        assert (team.state, team.group.generation, team.group.leader_id) == ("Stable", 1, members[0])
        assert list(team.group.members) == members
        assert team.group.static_members == {"a": members[0], "b": members[1]}
        assert team.group.protocol_type == "consumer"
        assert team.group.is_subscribed_to("orders")
        assert not team.group.is_subscribed_to("bills")
        for member, instance in zip(members, "ab", strict=True):
            assert team.beat(member, 1, instance=instance) == ErrorCode.NONE
            assert team.sync(member, 1, instance=instance).result().assignment == member.encode()

    def test_restored_members_have_new_sessions(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        team.pass_time(SESSION_MS - 1)
        team.bench.restart()
        assert team.due_in("session", member) == SESSION_MS
        team.pass_time(SESSION_MS)
        assert team.state == "Empty"

    def test_a_follower_that_rejoins_gets_the_generation(self) -> None:
        team = Team()
        _, follower = team.stable(2)
        team.bench.restart()
        assert team.join(follower, protocols=RANGE).result().generation_id == 1

    def test_an_empty_group_is_restored(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        team.leave(member)
        since = team.bench.clock.now
        team.pass_time(1)
        team.bench.restart()
        assert (team.state, team.group.generation) == ("Empty", 2)
        assert team.group.state_since_ms == since

    def test_generations_continue_after_a_restart(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        team.leave(member)
        team.bench.restart()
        _, join = team.enter()
        team.pass_time(FIRST_DELAY_MS)
        assert join.result().generation_id == 3

    def test_a_generation_without_an_assignment_is_not_restored(self) -> None:
        team = Team()
        leader, follower = team.stable(2)
        team.join(leader)
        team.join(follower)
        assert team.group.generation == 2
        team.bench.restart()
        assert (team.state, team.group.generation) == ("Stable", 1)
        assert team.beat(leader, 2) == ErrorCode.ILLEGAL_GENERATION

    def test_the_last_record_of_a_group_counts(self) -> None:
        team = Team()
        leader, follower = team.stable(2)
        team.leave(follower)
        team.join(leader)
        team.settle(leader)
        team.bench.restart()
        assert list(team.group.members) == [leader]
        assert team.group.generation == 2

    def test_a_deleted_group_is_not_restored(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        team.leave(member)
        team.bench.log.append((LogRecord(GroupMetadataKey(group=GROUP)), Stamp(9, 0)))
        team.bench.restart()
        assert team.groups.find(GROUP) is None


class TestUnloading:
    def test_waiting_joins_fail_with_not_coordinator(self) -> None:
        team = Team()
        _, join = team.enter()
        team.bench.machine.on_unloaded()
        response = join.result()
        assert response.error_code == ErrorCode.NOT_COORDINATOR

    def test_waiting_syncs_fail_with_not_coordinator(self) -> None:
        team = Team()
        _, follower = team.gather(2)
        waiting = team.sync(follower, 1)
        team.bench.machine.on_unloaded()
        assert error_of(waiting) == ErrorCode.NOT_COORDINATOR

    def test_the_group_is_dead_and_refuses_requests(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        team.bench.machine.on_unloaded()
        gone = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert team.state == "Dead"
        assert error_of(team.join()) == gone
        assert error_of(team.join(member)) == gone
        assert error_of(team.sync(member, 1)) == gone
        assert team.beat(member, 1) == gone
        assert team.leave(member).error_code == gone

    def test_no_timer_is_left(self) -> None:
        team = Team()
        team.stable(2)
        team.known_id()
        team.join(instance="i")
        team.bench.machine.on_unloaded()
        assert not team.bench.timers.pending


class TestReplay:
    def test_the_replay_of_an_own_record_does_not_change_the_group(self) -> None:
        team = Team()
        pending = team.known_id()
        group = team.group
        team.join(pending)
        assert team.group is group
        assert team.group.state is ClassicState.PREPARING

    def test_a_tombstone_fails_waiting_requests_and_cancels_timers(self) -> None:
        team = Team()
        _, join = team.enter()
        team.bench.machine.replay(LogRecord(GroupMetadataKey(group=GROUP)), Stamp(1, 0))
        assert error_of(join) == ErrorCode.UNKNOWN_MEMBER_ID
        assert not team.bench.timers.pending

    def test_a_tombstone_of_an_unknown_group_has_no_effect(self) -> None:
        team = Team()
        team.bench.machine.replay(LogRecord(GroupMetadataKey(group=GROUP)), Stamp(1, 0))
        assert team.groups.find(GROUP) is None


def test_a_group_for_offsets_alone_is_empty_and_has_no_type() -> None:
    team = Team()
    team.groups.ensure(GROUP)
    group = team.group
    assert (group.state_name, group.protocol_type, group.generation) == ("Empty", "", 0)
    team.groups.ensure(GROUP)
    assert team.group is group
    _, join = team.enter()
    team.pass_time(FIRST_DELAY_MS)
    assert join.result().generation_id == 1


class TestDescription:
    def test_a_stable_group_is_described_completely(self) -> None:
        team = Team()
        (member,) = team.stable_instances("a")
        described = team.groups.describe(team.group)
        assert (described.group_id, described.group_state) == (GROUP, "Stable")
        assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
        (shown,) = described.members
        assert (shown.member_id, shown.group_instance_id) == (member, "a")
        assert (shown.client_id, shown.client_host) == ("app", "/10.0.0.7")
        assert (shown.member_metadata, shown.member_assignment) == (RANGE[0][1], member.encode())

    def test_a_rebalancing_group_is_described_without_protocol_and_metadata(self) -> None:
        team = Team()
        leader, _ = team.stable(2)
        team.join(leader)
        described = team.groups.describe(team.group)
        assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
        assert [each.member_metadata for each in described.members] == [b"", b""]
