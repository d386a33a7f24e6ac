import pytest

from ottla.base.errors import ErrorCode, InvariantViolation
from ottla.base.promise import Promise
from ottla.coordinator.group.classic.classic_member import ClassicMember
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse


def member(**fields: object) -> ClassicMember:
    settings: dict[str, object] = {
        "instance_id": None,
        "client_id": "app",
        "client_host": "/10.0.0.7",
        "rebalance_timeout_ms": 60_000,
        "session_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": (("sticky", b"s"), ("range", b"r")),
    }
    return ClassicMember("m", **(settings | fields))  # type: ignore[arg-type]


def test_a_member_votes_for_its_preferred_common_protocol() -> None:
    assert member().vote({"range", "sticky"}) == "sticky"
    assert member().vote({"range", "other"}) == "range"
    with pytest.raises(InvariantViolation):
        member().vote({"other"})


def test_metadata_is_that_of_the_protocol() -> None:
    assert member().metadata("range") == b"r"
    with pytest.raises(InvariantViolation):
        member().metadata("other")


def test_a_second_join_completes_the_first() -> None:
    someone = member()
    first: Promise[JoinGroupResponse] = Promise()
    second: Promise[JoinGroupResponse] = Promise()
    someone.park_join(first)
    someone.park_join(second)
    assert first.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not second.done
    assert someone.awaits_join


def test_a_second_sync_completes_the_first() -> None:
    someone = member()
    first: Promise[SyncGroupResponse] = Promise()
    second: Promise[SyncGroupResponse] = Promise()
    someone.park_sync(first)
    someone.park_sync(second)
    assert first.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not second.done


def test_a_waiting_request_is_completed_once() -> None:
    someone = member()
    someone.park_join(Promise())
    assert someone.complete_join(JoinGroupResponse())
    assert not someone.awaits_join
    assert not someone.complete_join(JoinGroupResponse())
    assert not someone.complete_sync(SyncGroupResponse())


def test_a_waiting_member_needs_no_heartbeats_unless_it_is_new() -> None:
    someone = member()
    assert not someone.is_exempt_from_heartbeats
    someone.park_sync(Promise())
    assert someone.is_exempt_from_heartbeats
    someone.is_new = True
    assert not someone.is_exempt_from_heartbeats


def test_a_copy_with_another_id_has_no_waiting_requests() -> None:
    someone = member(instance_id="i", assignment=b"mine")
    someone.park_join(Promise())
    renamed = someone.named("n")
    assert (renamed.member_id, renamed.instance_id, renamed.assignment) == ("n", "i", b"mine")
    assert renamed.protocols == someone.protocols
    assert not renamed.awaits_join
