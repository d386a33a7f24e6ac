"""Expiration of offsets and groups."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.group.cleanup import EXPIRY_TIMER
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.support.group_bench import SESSION_MS, GroupBench

MINUTE_MS = 60_000
CHECK_MS = 1_000
KEPT_MS = 2 * MINUTE_MS
NOTHING = -1


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench(
        "t",
        "u",
        settings={"offsets.retention.minutes": "2", "offsets.retention.check.interval.ms": str(CHECK_MS)},
    )


def _leave(bench: GroupBench, group: str, member: str) -> None:
    request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member)])
    bench.write(lambda machine: machine.leave(request, 5))
    bench.advance(0)


def _stay(bench: GroupBench, group: str, member: str, milliseconds: int) -> None:
    """Let time pass while a member sends heartbeats and commits nothing."""
    beat = HeartbeatRequest(group_id=group, generation_id=1, member_id=member)
    for _ in range(milliseconds // (SESSION_MS // 2) + 1):
        bench.advance(SESSION_MS // 2)
        assert not bench.write(lambda machine: machine.heartbeat(beat)).result().error_code


def test_offsets_of_a_group_without_members_expire_counted_from_their_commit(bench: GroupBench) -> None:
    bench.commit("g", 5)
    bench.advance(MINUTE_MS)
    bench.commit("g", 6, topic="u")
    bench.advance(KEPT_MS - MINUTE_MS - 1)
    assert bench.fetch_all("g") == {("t", 0): 5, ("u", 0): 6}
    bench.advance(1 + CHECK_MS)
    assert bench.fetch_all("g") == {("u", 0): 6}
    assert bench.groups() == {"g": "Empty"}


def test_a_group_is_removed_with_its_last_offset(bench: GroupBench) -> None:
    bench.commit("g", 5)
    bench.advance(KEPT_MS + CHECK_MS)
    assert bench.groups() == {}
    bench.restart()
    assert bench.groups() == {}


def test_offsets_expire_after_a_restart_too(bench: GroupBench) -> None:
    bench.commit("g", 5)
    bench.restart()
    bench.advance(KEPT_MS + CHECK_MS)
    assert bench.fetch_all("g") == {}


def test_a_commit_restarts_the_retention(bench: GroupBench) -> None:
    bench.commit("g", 5)
    bench.advance(KEPT_MS - 1)
    bench.commit("g", 6)
    bench.advance(KEPT_MS - 1)
    assert bench.fetch("g") == 6


def test_offsets_of_subscribed_topics_never_expire(bench: GroupBench) -> None:
    member = bench.join("g", "t")
    bench.commit("g", 5, member=member, generation=1)
    _stay(bench, "g", member, 3 * KEPT_MS)
    assert bench.fetch("g") == 5
    assert bench.groups() == {"g": "Stable"}


def test_offsets_of_unsubscribed_topics_expire(bench: GroupBench) -> None:
    member = bench.join("g", "t")
    bench.commit("g", 5, member=member, generation=1)
    bench.commit("g", 6, topic="u", member=member, generation=1)
    _stay(bench, "g", member, KEPT_MS + CHECK_MS)
    assert bench.fetch_all("g") == {("t", 0): 5}


def test_groups_of_other_protocol_types_keep_all_offsets(bench: GroupBench) -> None:
    member = bench.join("g", "t", protocol_type="connect")
    bench.commit("g", 5, topic="u", member=member, generation=1)
    _stay(bench, "g", member, 2 * KEPT_MS)
    assert bench.fetch("g", "u") == 5


def test_retention_starts_when_the_group_becomes_empty(bench: GroupBench) -> None:
    member = bench.join("g", "t")
    bench.commit("g", 5, member=member, generation=1)
    _stay(bench, "g", member, 2 * KEPT_MS)
    _leave(bench, "g", member)
    bench.advance(KEPT_MS - 1)
    assert bench.fetch("g") == 5
    bench.advance(1 + CHECK_MS)
    assert bench.fetch("g") == NOTHING
    assert bench.groups() == {}


def test_the_retention_of_a_commit_overrides_the_brokers(bench: GroupBench) -> None:
    bench.commit("short", 5, retention_ms=CHECK_MS, version=3)
    bench.commit("long", 5, retention_ms=3 * KEPT_MS, version=3)
    bench.advance(2 * CHECK_MS)
    assert bench.fetch("short") == NOTHING
    bench.advance(2 * KEPT_MS)
    assert bench.fetch("long") == 5
    bench.advance(KEPT_MS + CHECK_MS)
    assert bench.fetch("long") == NOTHING


def test_the_longest_retention_never_expires(bench: GroupBench) -> None:
    bench.commit("g", 5, retention_ms=(1 << 63) - 1, version=4)
    bench.advance(10 * KEPT_MS)
    assert bench.fetch("g") == 5


def test_an_open_transaction_keeps_offset_and_group(bench: GroupBench) -> None:
    bench.commit("g", 5)
    bench.commit_in_transaction(7, "g", 6)
    bench.commit_in_transaction(7, "only-pending", 6)
    bench.advance(2 * KEPT_MS)
    assert bench.fetch("g") == 5
    assert bench.groups() == {"g": "Empty", "only-pending": "Empty"}
    bench.end_transaction(7, 0, committed=False)
    bench.advance(CHECK_MS)
    assert bench.groups() == {}


def test_an_empty_group_without_offsets_is_removed(bench: GroupBench) -> None:
    member = bench.join("g", "t")
    _leave(bench, "g", member)
    assert bench.groups() == {"g": "Empty"}
    bench.advance(CHECK_MS)
    assert bench.groups() == {}


def test_many_groups_expire_in_slices(bench: GroupBench) -> None:
    for number in range(700):
        bench.commit(f"g{number}", 5)
    for partition in range(1300):
        bench.commit("large", 5, partition=partition)
    written = len(bench.log)
    bench.advance(KEPT_MS + CHECK_MS)
    assert bench.groups() == {}
    assert len(bench.log) == written + 2 * 700 + 1300 + 1


def test_the_check_for_expired_offsets_repeats(bench: GroupBench) -> None:
    bench.advance(3 * KEPT_MS)
    bench.commit("g", 5)
    bench.advance(KEPT_MS + CHECK_MS)
    assert bench.fetch("g") == NOTHING


def test_consumer_groups_keep_offsets_of_subscribed_topics_only(bench: GroupBench) -> None:
    epoch = bench.enter("g", "t")
    for topic in ("t", "u"):
        bench.commit("g", 5, topic=topic, member="m", generation=epoch)
    for _ in range(KEPT_MS // SESSION_MS + 1):
        bench.advance(SESSION_MS)
        assert bench.enter("g", epoch=epoch) == epoch
    assert bench.fetch_all("g") == {("t", 0): 5}


def test_a_consumer_group_without_members_is_removed_with_its_offsets(bench: GroupBench) -> None:
    epoch = bench.enter("g", "t")
    bench.commit("g", 5, member="m", generation=epoch)
    bench.enter("g", epoch=-1)
    bench.advance(KEPT_MS + CHECK_MS)
    for _ in range(2):
        assert bench.groups() == {}
        bench.restart()


def test_offsets_of_a_deleted_topic_are_removed_although_the_log_refused_it_at_first(
    bench: GroupBench,
) -> None:
    bench.commit_in_transaction(7, "g", 5)
    bench.end_transaction(7, 0, committed=True)
    bench.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.delete_topic("t")
    bench.refuse = None
    bench.create_topic("t")
    assert bench.fetch("g") == NOTHING


def test_a_refused_slice_is_not_tried_again_at_once(bench: GroupBench) -> None:
    for partition in range(700):
        bench.commit("large", 5, partition=partition)
    bench.advance(KEPT_MS - 1)
    bench.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.clock.now += CHECK_MS
    expiry = bench.timers.pending.pop(EXPIRY_TIMER)
    bench.apply(expiry.operation())
    assert bench.timers.due_in(EXPIRY_TIMER) == CHECK_MS
    bench.refuse = None
    bench.advance(CHECK_MS)
    assert bench.fetch_all("large") == {}
