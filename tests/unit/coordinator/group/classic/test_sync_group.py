"""SyncGroup and Heartbeat for classic groups."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.runtime.decision import Decision
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.classic_groups import GROUP, SESSION_MS, Team, error_of


class TestRefusals:
    def test_an_empty_group_id_is_refused(self) -> None:
        team = Team()
        assert error_of(team.sync("m", 1, group="")) == ErrorCode.INVALID_GROUP_ID
        assert team.beat("m", 1, group="") == ErrorCode.INVALID_GROUP_ID

    def test_without_a_group_every_member_is_unknown(self) -> None:
        team = Team()
        assert error_of(team.sync("m", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
        assert team.beat("m", 1) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_in_an_empty_group_every_member_is_unknown(self) -> None:
        team = Team()
        (member,) = team.stable(1)
        team.leave(member)
        assert error_of(team.sync(member, 2)) == ErrorCode.UNKNOWN_MEMBER_ID
        assert team.beat(member, 2) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_unknown_members_are_refused(self) -> None:
        team = Team()
        team.stable(1)
        assert error_of(team.sync("stranger", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
        assert team.beat("stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize("generation", [-1, 0, 1, 3])
    def test_only_the_current_generation_is_accepted(self, generation: int) -> None:
        team = Team()
        leader, follower = team.stable(2)
        team.join(leader)
        team.join(follower)
        assert team.group.generation == 2
        assert error_of(team.sync(leader, generation, {leader: b"x"})) == ErrorCode.ILLEGAL_GENERATION
        assert team.beat(follower, generation) == ErrorCode.ILLEGAL_GENERATION
        assert team.state == "CompletingRebalance"

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
            ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
            ({"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.NONE),
            ({}, ErrorCode.NONE),
        ],
    )
    def test_protocol_type_and_name_must_match(self, fields: dict[str, str], code: ErrorCode) -> None:
        team = Team()
        (member,) = team.stable(1)
        assert error_of(team.sync(member, 1, **fields)) == code  # type: ignore[arg-type]

    def test_a_sync_during_the_join_phase_is_refused(self) -> None:
        team = Team()
        leader, follower = team.stable(2)
        team.join(leader)
        assert error_of(team.sync(follower, 1)) == ErrorCode.REBALANCE_IN_PROGRESS


class TestAssignment:
    def test_each_member_gets_its_own_assignment(self) -> None:
        team = Team()
        leader, *followers = team.gather(3)
        waiting = [team.sync(each, 1) for each in followers]
        assert not any(each.done for each in waiting)
        plan = {each: f"for {each}".encode() for each in (leader, *followers)}
        promises = [team.sync(leader, 1, plan), *waiting]
        for member, promise in zip((leader, *followers), promises, strict=True):
            response = promise.result()
            assert response.assignment == f"for {member}".encode()
            assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
        assert team.state == "Stable"

    def test_a_later_sync_gets_the_assignment_at_once(self) -> None:
        team = Team()
        leader, follower = team.gather(2)
        team.sync(leader, 1, {follower: b"mine"})
        assert team.sync(follower, 1).result().assignment == b"mine"
        assert team.sync(follower, 1).result().assignment == b"mine"

    def test_a_later_sync_restarts_the_session(self) -> None:
        team = Team()
        leader, follower = team.gather(2)
        team.sync(leader, 1, {follower: b"mine"})
        team.pass_time(SESSION_MS - 1)
        assert team.due_in("session", follower) == 1
        team.sync(follower, 1)
        assert team.due_in("session", follower) == SESSION_MS

    def test_assignments_of_a_follower_are_ignored(self) -> None:
        team = Team()
        leader, follower = team.gather(2)
        waiting = team.sync(follower, 1, {leader: b"stolen", follower: b"stolen"})
        assert not waiting.done
        assert team.state == "CompletingRebalance"
        team.sync(leader, 1, {follower: b"planned"})
        assert waiting.result().assignment == b"planned"

    def test_missing_members_get_an_empty_assignment_and_unknown_ones_are_dropped(self) -> None:
        team = Team()
        leader, follower = team.gather(2)
        team.sync(leader, 1, {leader: b"all", "stranger": b"x"})
        assert team.sync(follower, 1).result().assignment == b""
        value = team.written()[-1]
        assert value is not None
        assert {each.member_id: each.assignment for each in value.members} == {leader: b"all", follower: b""}

    def test_the_assignment_is_appended_with_the_generation(self) -> None:
        team = Team()
        began = team.bench.clock.now
        leader, follower = team.gather(2)
        team.pass_time(5)
        team.settle(leader, follower)
        value = team.written()[-1]
        assert value is not None
        assert (value.generation, value.protocol, value.protocol_type) == (1, "range", "consumer")
        assert value.leader == leader
        assert began < value.current_state_timestamp == team.bench.clock.now - 5
        first = value.members[0]
        assert (first.client_id, first.client_host) == ("app", "/10.0.0.7")
        assert (first.session_timeout, first.rebalance_timeout) == (SESSION_MS, 60_000)

    def test_a_stable_group_appends_no_second_assignment(self) -> None:
        team = Team()
        leader, follower = team.stable(2)
        before = len(team.written())
        assert team.sync(leader, 1, {follower: b"other"}).result().assignment == leader.encode()
        assert len(team.written()) == before


class TestCommit:
    """The assignment takes effect when it is committed."""

    def plan(self, team: Team, leader: str, generation: int = 1) -> Decision[object]:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=leader,
            assignments=[SyncGroupRequestAssignment(member_id=leader, assignment=b"all")],
        )
        return team.groups.sync(request)  # type: ignore[return-value]

    def commit(self, decision: Decision[object], code: ErrorCode = ErrorCode.NONE) -> None:
        assert decision.on_complete is not None
        decision.on_complete(code)

    def test_no_member_gets_the_assignment_before_the_commit(self) -> None:
        team = Team()
        leader, follower = team.gather(2)
        waiting = team.sync(follower, 1)
        decision = self.plan(team, leader)
        team.bench.machine.replay(decision.records[0], None)  # type: ignore[arg-type]
        assert team.state == "CompletingRebalance"
        assert not waiting.done
        self.commit(decision)
        assert team.state == "Stable"
        assert waiting.done

    def test_an_assignment_is_obsolete_after_another_member_joined(self) -> None:
        team = Team()
        (leader,) = team.gather(1)
        decision = self.plan(team, leader)
        newcomer, _ = team.enter()
        assert team.state == "PreparingRebalance"
        self.commit(decision)
        assert team.state == "PreparingRebalance"
        assert team.group.members[leader].assignment == b""
        assert newcomer in team.group.members

    def test_an_assignment_of_an_earlier_generation_is_ignored(self) -> None:
        team = Team()
        leader, follower = team.gather(2)
        decision = self.plan(team, leader)
        team.leave(follower)
        team.join(leader)
        assert (team.state, team.group.generation) == ("CompletingRebalance", 2)
        self.commit(decision)
        assert team.state == "CompletingRebalance"
        assert team.group.members[leader].assignment == b""

    def test_a_repeated_sync_of_the_leader_appends_one_assignment(self) -> None:
        team = Team()
        (leader,) = team.gather(1)
        first = self.plan(team, leader)
        again = team.sync(leader, 1, {leader: b"other"})
        assert not again.done
        self.commit(first)
        assert again.result().assignment == b"all"

    def test_a_failed_append_fails_all_syncs_and_starts_a_rebalance(self) -> None:
        team = Team()
        leader, follower = team.gather(2)
        waiting = team.sync(follower, 1)
        decision = self.plan(team, leader)
        self.commit(decision, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert error_of(waiting) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert team.state == "PreparingRebalance"
        assert all(member.assignment == b"" for member in team.group.members.values())
        team.join(leader)
        assert team.join(follower).result().generation_id == 2

    def test_a_group_too_large_for_a_batch_is_a_server_error(self) -> None:
        team = Team()
        leader, follower = team.gather(2)
        waiting = team.sync(follower, 1)
        self.commit(self.plan(team, leader), ErrorCode.MESSAGE_TOO_LARGE)
        assert error_of(waiting) == ErrorCode.UNKNOWN_SERVER_ERROR


def test_assignments_are_empty_after_a_generation_without_one() -> None:
    team = Team()
    leader, follower = team.stable(2)
    team.join(leader)
    team.join(follower)
    team.enter()
    assert team.state == "PreparingRebalance"
    assert [each.member_assignment for each in team.groups.describe(team.group).members] == [b""] * 3


class TestHeartbeats:
    @pytest.mark.parametrize("settled", [False, True])
    def test_a_heartbeat_of_the_current_generation_is_accepted(self, settled: bool) -> None:
        team = Team()
        members = team.gather(2)
        if settled:
            team.settle(*members)
        assert [team.beat(each, 1) for each in members] == [ErrorCode.NONE, ErrorCode.NONE]

    def test_a_heartbeat_during_the_join_phase_reports_the_rebalance(self) -> None:
        team = Team()
        leader, follower = team.stable(2)
        team.join(leader)
        assert team.beat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
