"""JoinGroup for classic groups."""

import re

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.support.classic_groups import (
    CLIENT,
    FIRST_DELAY_MS,
    GROUP,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    Protocols,
    Team,
    error_of,
    subscription,
)

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
STICKY_RANGE: Protocols = (("sticky", b"s"), ("range", b"r"))
RANGE_STICKY: Protocols = (("range", b"r"), ("sticky", b"s"))


class TestRefusals:
    def test_an_empty_group_id_is_refused(self) -> None:
        assert error_of(Team().join(group="")) == ErrorCode.INVALID_GROUP_ID

    @pytest.mark.parametrize(
        ("session_ms", "code"),
        [
            (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
            (6_000, ErrorCode.MEMBER_ID_REQUIRED),
            (1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
            (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
        ],
    )
    def test_session_timeouts_have_bounds(self, session_ms: int, code: ErrorCode) -> None:
        assert error_of(Team().join(session_ms=session_ms)) == code

    def test_a_member_id_without_a_group_is_unknown_and_creates_no_group(self) -> None:
        team = Team()
        response = team.join("someone").result()
        assert (response.error_code, response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "someone")
        assert team.groups.find(GROUP) is None
        assert not team.written()

    def test_an_unknown_member_of_a_group_is_unknown(self) -> None:
        team = Team()
        team.stable(1)
        assert error_of(team.join("someone")) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_member_id_of_an_empty_group_is_unknown(self) -> None:
        team = Team()
        (leader,) = team.stable(1)
        team.leave(leader)
        assert error_of(team.join(leader)) == ErrorCode.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize("fields", [{"protocols": ()}, {"protocol_type": ""}])
    def test_the_first_member_needs_a_protocol_type_and_protocols(self, fields: dict[str, object]) -> None:
        assert error_of(Team().join(**fields)) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]

    def test_another_protocol_type_is_inconsistent(self) -> None:
        team = Team()
        team.stable(1)
        assert error_of(team.join(protocol_type="connect")) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_a_member_without_a_common_protocol_is_inconsistent(self) -> None:
        team = Team()
        first = team.known_id(protocols=STICKY_RANGE)
        team.join(first, protocols=STICKY_RANGE)
        second = team.known_id(protocols=(("range", b""),))
        team.join(second, protocols=(("range", b""),))
        # Only the first member supports "sticky".
        assert error_of(team.join(protocols=(("sticky", b""),))) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert error_of(team.join(protocols=(("range", b""),))) == ErrorCode.MEMBER_ID_REQUIRED

    def test_a_member_cannot_rejoin_without_a_common_protocol(self) -> None:
        team = Team()
        _, follower = team.stable(2)
        assert (
            error_of(team.join(follower, protocols=(("other", b""),)))
            == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        )


class TestMemberIdRequired:
    def test_a_client_gets_a_member_id_and_is_not_a_member_yet(self) -> None:
        team = Team()
        response = team.join().result()
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert re.fullmatch(f"app-{UUID}", response.member_id)
        assert not team.group.members
        assert team.state == "Empty"

    def test_every_client_gets_another_member_id(self) -> None:
        team = Team()
        assert team.known_id() != team.known_id()

    def test_before_version_4_a_client_joins_with_one_request(self) -> None:
        team = Team()
        join = team.join(version=3)
        team.pass_time(FIRST_DELAY_MS)
        response = join.result()
        assert response.error_code == ErrorCode.NONE
        assert response.leader == response.member_id != ""

    def test_a_pending_member_may_neither_sync_nor_send_heartbeats(self) -> None:
        team = Team()
        pending = team.known_id()
        team.enter()
        assert error_of(team.sync(pending, 0)) == ErrorCode.UNKNOWN_MEMBER_ID
        assert team.beat(pending, 0) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_an_unused_pending_id_expires_with_the_session(self) -> None:
        team = Team()
        pending = team.known_id()
        team.pass_time(SESSION_MS - 1)
        assert pending in team.group.pending_joins
        team.pass_time(1)
        assert not team.group.pending_joins
        assert error_of(team.join(pending)) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_rebalance_waits_for_a_pending_member(self) -> None:
        team = Team()
        (leader,) = team.stable(1)
        pending = team.known_id()
        rejoin = team.join(leader)
        assert not rejoin.done
        newcomer = team.join(pending)
        assert len(rejoin.result().members) == 2
        assert newcomer.done

    def test_a_rebalance_continues_when_a_pending_member_expires(self) -> None:
        team = Team()
        (leader,) = team.stable(1)
        team.known_id(session_ms=6_000)
        rejoin = team.join(leader)
        team.pass_time(6_000)
        assert rejoin.result().generation_id == 2

    def test_an_instance_cannot_use_a_pending_id_of_a_dynamic_member(self) -> None:
        team = Team()
        pending = team.known_id()
        with pytest.raises(ApiError) as refused:
            team.join(pending, instance="i")
        assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR


class TestNewGroup:
    def test_a_new_group_is_appended(self) -> None:
        team = Team()
        team.known_id()
        (value,) = team.written()
        assert value is not None
        assert (value.generation, value.protocol, value.leader, value.members) == (0, None, None, [])
        assert value.protocol_type == ""
        assert value.current_state_timestamp == team.bench.clock.now

    def test_a_new_group_is_appended_once(self) -> None:
        team = Team()
        team.known_id()
        team.known_id()
        assert len(team.written()) == 1

    def test_members_are_not_appended_before_they_have_an_assignment(self) -> None:
        team = Team()
        team.gather(2)
        assert [value.members for value in team.written() if value is not None] == [[]]

    def test_a_group_whose_append_failed_does_not_exist(self) -> None:
        team = Team()
        team.bench.refuse = ErrorCode.NOT_COORDINATOR
        team.join(instance="i")
        assert team.groups.find(GROUP) is None
        assert not team.bench.timers.pending


class TestFirstGeneration:
    def test_only_the_leader_gets_the_member_list(self) -> None:
        team = Team()
        leader, first = team.enter(protocols=(("range", b"1"),))
        follower, second = team.enter(protocols=(("range", b"2"),))
        team.pass_time(2 * FIRST_DELAY_MS)
        joined = first.result()
        assert [(each.member_id, each.metadata) for each in joined.members] == [
            (leader, b"1"),
            (follower, b"2"),
        ]
        assert second.result().members == []
        for response in (joined, second.result()):
            assert (response.generation_id, response.leader) == (1, leader)
            assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
            assert not response.skip_assignment
        assert second.result().member_id == follower

    def test_the_protocol_with_the_most_votes_is_selected(self) -> None:
        team = Team()
        joins = [team.enter(protocols=each)[1] for each in (STICKY_RANGE, RANGE_STICKY, RANGE_STICKY)]
        team.pass_time(3 * FIRST_DELAY_MS)
        assert {join.result().protocol_name for join in joins} == {"range"}

    def test_a_protocol_that_a_member_does_not_support_is_not_selected(self) -> None:
        team = Team()
        spoken: list[Protocols] = [STICKY_RANGE, STICKY_RANGE, (("range", b"r"),)]
        joins = [team.enter(protocols=each)[1] for each in spoken]
        team.pass_time(3 * FIRST_DELAY_MS)
        assert {join.result().protocol_name for join in joins} == {"range"}

    def test_naming_a_protocol_twice_counts_once(self) -> None:
        team = Team()
        team.enter(protocols=(("range", b"a"), ("range", b"b")))
        _, second = team.enter(protocols=(("range", b"c"),))
        team.pass_time(2 * FIRST_DELAY_MS)
        assert second.result().protocol_name == "range"


class TestRejoin:
    def test_the_leader_of_a_stable_group_starts_a_rebalance(self) -> None:
        team = Team()
        leader, follower = team.stable(2)
        rejoin = team.join(leader)
        assert not rejoin.done
        assert team.state == "PreparingRebalance"
        other = team.join(follower)
        assert (rejoin.result().generation_id, other.result().generation_id) == (2, 2)
        assert team.state == "CompletingRebalance"

    def test_a_follower_without_changes_gets_the_current_generation(self) -> None:
        team = Team()
        leader, follower = team.stable(2)
        response = team.join(follower).result()
        assert (response.generation_id, response.leader, response.members) == (1, leader, [])
        assert team.state == "Stable"

    def test_a_follower_with_another_subscription_starts_a_rebalance(self) -> None:
        team = Team()
        leader, follower = team.stable(2)
        rejoin = team.join(follower, protocols=(("range", subscription("bills")),))
        assert not rejoin.done
        joined = team.join(leader).result()
        assert joined.members[1].metadata == subscription("bills")

    @pytest.mark.parametrize("which", [0, 1])
    def test_a_repeated_join_while_completing_gets_the_response_again(self, which: int) -> None:
        team = Team()
        members = team.gather(2)
        response = team.join(members[which]).result()
        assert (response.error_code, response.generation_id) == (ErrorCode.NONE, 1)
        assert len(response.members) == (2 if which == 0 else 0)
        assert team.state == "CompletingRebalance"

    def test_a_changed_subscription_while_completing_starts_a_rebalance(self) -> None:
        team = Team()
        leader, follower = team.gather(2)
        waiting = team.sync(follower, 1)
        team.join(leader, protocols=(("range", b"new"),))
        assert error_of(waiting) == ErrorCode.REBALANCE_IN_PROGRESS
        assert team.state == "PreparingRebalance"

    def test_a_new_member_starts_a_rebalance_of_a_stable_group(self) -> None:
        team = Team()
        leader, follower = team.stable(2)
        newcomer, join = team.enter()
        assert team.state == "PreparingRebalance"
        team.join(leader)
        assert not join.done
        team.join(follower)
        assert join.result().generation_id == 2
        assert newcomer in team.group.members

    def test_timeouts_of_a_new_join_are_used(self) -> None:
        team = Team()
        (leader,) = team.stable(1)
        team.join(leader, session_ms=20_000, rebalance_ms=70_000)
        member = team.group.members[leader]
        assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (20_000, 70_000)

    def test_version_0_has_one_timeout_for_both(self) -> None:
        team = Team()
        team.join(version=0, session_ms=SESSION_MS, rebalance_ms=-1)
        assert team.group.rebalance_timeout_ms == SESSION_MS


class TestSize:
    def test_a_full_group_refuses_new_members(self) -> None:
        team = Team(group_max_size="2")
        team.stable(2)
        response = team.join().result()
        assert (response.error_code, response.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        assert error_of(team.join(instance="i")) == ErrorCode.GROUP_MAX_SIZE_REACHED

    def test_members_of_a_full_group_may_rejoin(self) -> None:
        team = Team(group_max_size="2")
        leader, follower = team.stable(2)
        assert error_of(team.join(follower)) == ErrorCode.NONE
        rejoin = team.join(leader)
        assert error_of(team.join(follower)) == ErrorCode.NONE
        assert error_of(rejoin) == ErrorCode.NONE

    def test_a_pending_member_of_a_full_group_is_removed(self) -> None:
        team = Team(group_max_size="2")
        late = team.known_id()
        team.gather(2)
        assert error_of(team.join(late)) == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert not team.group.pending_joins

    def test_a_lowered_limit_refuses_the_last_members_to_rejoin(self) -> None:
        team = Team()
        members = team.stable(3)
        team.properties["group.max.size"] = "2"
        team.bench.restart()
        assert team.state == "PreparingRebalance"
        joins = [team.join(each) for each in members]
        assert [error_of(join) for join in joins] == [
            ErrorCode.NONE,
            ErrorCode.NONE,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
        ]
        assert list(team.group.members) == members[:2]


class TestInstances:
    def test_the_member_id_of_an_instance_starts_with_its_instance_id(self) -> None:
        team = Team()
        join = team.join(instance="till-1")
        team.pass_time(FIRST_DELAY_MS)
        response = join.result()
        assert re.fullmatch(f"till-1-{UUID}", response.member_id)
        assert response.members[0].group_instance_id == "till-1"

    def test_a_stable_group_does_not_rebalance_when_an_instance_restarts(self) -> None:
        team = Team()
        leader, old = team.stable_instances("a", "b")
        response = team.join(instance="b").result()
        new = response.member_id
        assert new != old
        assert (response.error_code, response.generation_id) == (ErrorCode.NONE, 1)
        assert (response.leader, response.members, response.skip_assignment) == (leader, [], False)
        assert team.state == "Stable"
        assert team.sync(new, 1, instance="b").result().assignment == old.encode()

    def test_a_restarted_leader_must_skip_the_assignment(self) -> None:
        team = Team()
        team.stable_instances("a", "b")
        response = team.join(instance="a").result()
        assert response.skip_assignment
        assert response.leader == response.member_id
        assert len(response.members) == 2

    def test_a_restarted_leader_before_version_9_gets_another_leader_id(self) -> None:
        team = Team()
        leader, _ = team.stable_instances("a", "b")
        response = team.join(instance="a", version=8).result()
        assert (response.leader, response.members, response.skip_assignment) == (leader, [], False)
        assert team.group.leader_id == response.member_id

    def test_the_new_member_id_is_appended_with_the_old_assignment(self) -> None:
        team = Team()
        old, _ = team.stable_instances("a", "b")
        new = team.join(instance="a").result().member_id
        value = team.written()[-1]
        assert value is not None
        kept = {each.member_id: each.assignment for each in value.members}
        assert old not in kept
        assert kept[new] == old.encode()
        assert (value.leader, value.generation) == (new, 1)

    def test_the_previous_member_id_is_fenced(self) -> None:
        team = Team()
        old, _ = team.stable_instances("a", "b")
        new = team.join(instance="a").result().member_id
        fenced = ErrorCode.FENCED_INSTANCE_ID
        assert team.beat(old, 1, instance="a") == fenced
        assert error_of(team.sync(old, 1, instance="a")) == fenced
        assert error_of(team.join(old, instance="a")) == fenced
        assert team.leave((old, "a")).members[0].error_code == fenced
        assert team.beat(old, 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert team.beat(new, 1, instance="a") == ErrorCode.NONE

    def test_a_waiting_join_of_the_previous_member_id_is_fenced(self) -> None:
        team = Team()
        first = team.join(instance="a")
        second = team.join(instance="a")
        assert error_of(first) == ErrorCode.FENCED_INSTANCE_ID
        team.pass_time(FIRST_DELAY_MS)
        assert error_of(second) == ErrorCode.NONE
        assert len(team.group.members) == 1

    def test_a_waiting_sync_of_the_previous_member_id_is_fenced(self) -> None:
        team = Team()
        joins = [team.join(instance=each) for each in ("a", "b")]
        team.pass_time(2 * FIRST_DELAY_MS)
        waiting = team.sync(joins[1].result().member_id, 1, instance="b")
        team.join(instance="b")
        assert error_of(waiting) == ErrorCode.FENCED_INSTANCE_ID

    def test_an_unknown_instance_is_unknown(self) -> None:
        team = Team()
        (member,) = team.stable_instances("a")
        assert team.beat(member, 1, instance="b") == ErrorCode.UNKNOWN_MEMBER_ID

    def test_only_the_session_of_the_new_member_id_counts(self) -> None:
        team = Team()
        (old,) = team.stable_instances("a")
        team.pass_time(SESSION_MS - 1)
        new = team.join(instance="a").result().member_id
        assert team.due_in("session", old) is None
        team.pass_time(SESSION_MS - 1)
        assert list(team.group.members) == [new]
        team.pass_time(1)
        assert not team.group.members

    def test_an_instance_that_changes_the_protocol_starts_a_rebalance(self) -> None:
        team = Team()
        team.stable_instances("a", protocols=STICKY_RANGE)
        response = team.join(instance="a", protocols=RANGE_STICKY).result()
        assert (response.generation_id, response.protocol_name) == (2, "range")

    def test_an_instance_that_restarts_while_completing_starts_a_rebalance(self) -> None:
        team = Team()
        joins = [team.join(instance=each) for each in ("a", "b")]
        team.pass_time(2 * FIRST_DELAY_MS)
        leader = joins[0].result().member_id
        again = team.join(instance="b")
        assert team.state == "PreparingRebalance"
        team.join(leader, instance="a")
        assert again.result().generation_id == 2

    def test_the_previous_member_id_is_restored_if_the_append_fails(self) -> None:
        team = Team()
        (old,) = team.stable_instances("a")
        team.bench.refuse = ErrorCode.NOT_COORDINATOR
        team.join(instance="a")
        assert list(team.group.members) == [old]
        assert team.group.leader_id == old
        assert team.beat(old, 1, instance="a") == ErrorCode.NONE
        assert team.due_in("session", old) == SESSION_MS

    def test_a_rebalance_before_the_commit_completes_the_join(self) -> None:
        team = Team()
        _, _, third = team.stable_instances("a", "b", "c")
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            group_instance_id="b",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in RANGE],
        )
        decision = team.groups.join(request, CLIENT, 9)
        assert isinstance(decision.response, Promise)
        team.leave(("", "a"))
        assert decision.on_complete is not None
        decision.on_complete(ErrorCode.NONE)
        assert team.state == "PreparingRebalance"
        assert not decision.response.done
        team.join(third, instance="c")
        assert decision.response.result().generation_id == 2

    def test_a_restarted_instance_still_has_to_sync(self) -> None:
        team = Team()
        joins = [team.join(instance=each) for each in ("a", "b")]
        team.pass_time(2 * FIRST_DELAY_MS)
        leader, silent = (join.result().member_id for join in joins)
        team.sync(leader, 1, {leader: b"1", silent: b"2"}, instance="a")
        new = team.join(instance="b").result().member_id
        for _ in range(REBALANCE_MS // 1000 - 1):
            team.pass_time(1000)
            team.beat(leader, 1, instance="a")
            team.beat(new, 1, instance="b")
        assert new in team.group.members
        team.pass_time(1000)
        assert new not in team.group.members
