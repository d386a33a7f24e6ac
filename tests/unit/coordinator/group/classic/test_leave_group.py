import pytest

from ottla.base.errors import ErrorCode
from tests.support.classic_groups import Team, error_of


def test_a_member_that_leaves_is_removed_and_the_others_rebalance() -> None:
    team = Team()
    leader, follower = team.stable(2)
    response = team.leave(follower)
    assert (response.error_code, response.members[0].error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert list(team.group.members) == [leader]
    assert team.state == "PreparingRebalance"
    assert team.due_in("session", follower) is None


def test_a_leader_that_leaves_is_replaced_by_the_oldest_member() -> None:
    team = Team()
    leader, second, _ = team.stable(3)
    team.leave(leader)
    assert team.group.leader_id == second


def test_an_empty_group_is_appended_when_the_last_member_leaves() -> None:
    team = Team()
    (member,) = team.stable(1)
    team.leave(member)
    assert (team.state, team.group.generation, team.group.leader_id) == ("Empty", 2, None)
    value = team.written()[-1]
    assert value is not None
    assert (value.generation, value.members) == (2, [])


def test_several_members_leave_with_one_rebalance() -> None:
    team = Team()
    members = team.stable(3)
    response = team.leave(members[2], "stranger", members[1])
    codes = [each.error_code for each in response.members]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert [each.member_id for each in response.members] == [members[2], "stranger", members[1]]
    assert team.join(members[0]).result().generation_id == 2


def test_unknown_members_do_not_start_a_rebalance() -> None:
    team = Team()
    team.stable(1)
    assert team.leave("stranger").members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert team.state == "Stable"


def test_the_join_phase_ends_when_the_last_missing_member_leaves() -> None:
    team = Team()
    leader, follower = team.stable(2)
    rejoin = team.join(leader)
    team.leave(follower)
    assert rejoin.result().generation_id == 2


def test_a_waiting_request_of_a_member_that_leaves_is_completed() -> None:
    team = Team()
    leader, follower = team.gather(2)
    waiting = team.sync(follower, 1)
    team.leave(follower)
    assert error_of(waiting) == ErrorCode.UNKNOWN_MEMBER_ID
    join = team.join(leader, protocols=(("range", b"new"),))
    assert error_of(join) == ErrorCode.NONE
    newcomer, parked = team.enter()
    team.leave(newcomer)
    assert error_of(parked) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_leaves_without_a_rebalance() -> None:
    team = Team()
    team.stable(1)
    pending = team.known_id()
    assert team.leave(pending).members[0].error_code == ErrorCode.NONE
    assert not team.group.pending_joins
    assert team.due_in("session", pending) is None


def test_an_instance_is_removed_by_its_instance_id_alone() -> None:
    team = Team()
    leader, member = team.stable_instances("a", "b")
    response = team.leave(("", "b"), ("", "c"), ("", None))
    codes = [each.error_code for each in response.members]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID]
    assert [each.group_instance_id for each in response.members] == ["b", "c", None]
    assert list(team.group.members) == [leader]
    assert list(team.group.static_members) == ["a"]
    assert member not in team.group.members


def test_an_instance_with_a_wrong_member_id_is_not_removed() -> None:
    team = Team()
    team.stable_instances("a")
    assert team.leave(("stranger", "a")).members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert "a" in team.group.static_members


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_name_one_member(version: int) -> None:
    team = Team()
    (member,) = team.stable(1)
    assert team.leave("stranger", version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    response = team.leave(member, version=version)
    assert (response.error_code, response.members) == (ErrorCode.NONE, [])
    assert team.state == "Empty"


def test_without_a_group_each_is_unknown() -> None:
    team = Team()
    response = team.leave("m", ("", "i"))
    assert response.error_code == ErrorCode.NONE
    assert [each.error_code for each in response.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert team.leave("m", version=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_id_is_refused() -> None:
    assert Team().leave("m", group="").error_code == ErrorCode.INVALID_GROUP_ID
