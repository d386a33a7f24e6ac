"""Offset requests, pending offsets of transactions, and deletion."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.coordinator.group.offset_store import OffsetStore
from ottla.coordinator.group.records import LegacyOffsetCommitKey, LegacyOffsetCommitValue, OffsetCommitValue
from ottla.coordinator.runtime.decision import LogRecord
from ottla.coordinator.runtime.state_machine import Stamp
from ottla.metadata.records import TopicRecord
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.support.coordination import START_MS
from tests.support.group_bench import SESSION_MS, GroupBench
from tests.support.metadata import one_node, replayed, topic_id_of

NONE = ErrorCode.NONE
NOTHING = -1
PRODUCER = 77


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench("t", "u")


# --- permission to commit


def test_a_commit_without_a_group_creates_one(bench: GroupBench) -> None:
    assert bench.commit("g", 5) is NONE
    assert bench.fetch("g") == 5
    assert bench.groups() == {"g": "Empty"}


def test_the_empty_group_id_is_valid_for_commits(bench: GroupBench) -> None:
    assert bench.commit("", 5) is NONE
    assert bench.fetch("") == 5


@pytest.mark.parametrize(
    ("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_member_of_an_unknown_group_may_not_commit(
    bench: GroupBench, version: int, code: ErrorCode
) -> None:
    assert bench.commit("g", 5, member="m", generation=3, version=version) is code
    assert bench.groups() == {}


def test_a_client_without_a_member_id_may_not_commit_to_a_group_with_members(bench: GroupBench) -> None:
    bench.join("g", "t")
    assert bench.commit("g", 5) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.fetch("g") == NOTHING


def test_a_member_commits_in_its_generation_only(bench: GroupBench) -> None:
    member = bench.join("g", "t")
    assert bench.commit("g", 5, member=member, generation=1) is NONE
    assert bench.commit("g", 9, member=member, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert bench.commit("g", 9, member="other", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.fetch("g") == 5


def test_a_commit_restarts_the_session_of_a_member(bench: GroupBench) -> None:
    member = bench.join("g", "t")
    for offset in range(5):
        bench.advance(SESSION_MS - 1)
        assert bench.commit("g", offset, member=member, generation=1) is NONE
    bench.advance(SESSION_MS)
    assert bench.commit("g", 9, member=member, generation=1) is not NONE


# --- stored commits


def test_a_commit_is_stored_as_kafka_stores_it(bench: GroupBench) -> None:
    bench.commit("g", 5, metadata="note")
    (record,) = bench.values()
    assert record.version == 4
    assert record.value == OffsetCommitValue(
        offset=5, leader_epoch=-1, metadata="note", commit_timestamp=START_MS, topic_id=topic_id_of("t")
    )


def test_a_retention_time_is_stored_in_version_1(bench: GroupBench) -> None:
    bench.commit("g", 5, retention_ms=1000, version=3)
    (record,) = bench.values()
    assert record.version == 1
    assert record.value == OffsetCommitValue(
        offset=5, metadata="", commit_timestamp=START_MS, expire_timestamp=START_MS + 1000
    )


def test_no_metadata_is_empty_metadata(bench: GroupBench) -> None:
    assert bench.commit("g", 5, metadata=None) is NONE


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ("x" * 4096, NONE),
        ("x" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("é" * 4096, NONE),
        ("é" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        # Kafka counts UTF-16 code units, of which this character has two.
        ("😀" * 2048, NONE),
        ("😀" * 2049, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
    ids=["longest", "too-long", "two-bytes", "too-long-two-bytes", "two-units", "too-long-two-units"],
)
def test_metadata_has_a_maximum_length(bench: GroupBench, metadata: str, code: ErrorCode) -> None:
    assert bench.commit("g", 5, metadata=metadata) is code
    assert bench.fetch("g") == (NOTHING if code else 5)
    assert bench.commit_in_transaction(PRODUCER, "h", 5, metadata=metadata) is code
    bench.end_transaction(PRODUCER, 0, committed=True)
    assert bench.fetch("h") == (NOTHING if code else 5)


def test_the_maximum_length_is_configurable() -> None:
    bench = GroupBench("t", settings={"offset.metadata.max.bytes": "3"})
    assert bench.commit("g", 5, metadata="123") is NONE
    assert bench.commit("g", 6, metadata="1234") is ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_the_last_commit_counts_also_after_a_restart(bench: GroupBench) -> None:
    for offset in (5, 9, 7):
        bench.commit("g", offset)
    assert bench.fetch("g") == 7
    bench.restart()
    assert bench.fetch("g") == 7
    assert bench.groups() == {"g": "Empty"}


def test_a_commit_of_old_brokers_is_replayed(bench: GroupBench) -> None:
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=0)
    value = LegacyOffsetCommitValue(offset=5, metadata="m", commit_timestamp=START_MS)
    bench.machine.replay(LogRecord(key, value), Stamp(0, START_MS))
    assert bench.fetch("g") == 5
    bench.machine.replay(LogRecord(key), Stamp(1, START_MS))
    assert bench.fetch("g") == NOTHING


# --- fetching


def test_a_missing_offset_is_minus_one_also_for_an_unknown_group(bench: GroupBench) -> None:
    bench.commit("g", 5)
    assert bench.fetch("g", "u") == NOTHING
    assert bench.fetch("g", "t", 3) == NOTHING
    assert bench.fetch("unknown") == NOTHING


def test_all_offsets_of_a_group(bench: GroupBench) -> None:
    bench.commit("g", 5)
    bench.commit("g", 6, partition=2)
    bench.commit("g", 7, topic="u")
    bench.commit("h", 8)
    assert bench.fetch_all("g") == {("t", 0): 5, ("t", 2): 6, ("u", 0): 7}
    assert bench.fetch_all("unknown") == {}


def test_leader_epoch_and_metadata_are_returned(bench: GroupBench) -> None:
    bench.commit("g", 5, metadata="note")
    request = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
    )
    here, missing = bench.machine.fetch_offsets(request, require_stable=False).topics[0].partitions
    assert (here.metadata, here.committed_leader_epoch) == ("note", -1)
    assert (missing.metadata, missing.committed_leader_epoch, missing.committed_offset) == ("", -1, -1)


# --- transactions


@pytest.mark.parametrize("committed", [True, False])
def test_a_pending_offset_counts_after_its_commit_only(bench: GroupBench, committed: bool) -> None:
    bench.commit("g", 5)
    assert bench.commit_in_transaction(PRODUCER, "g", 9) is NONE
    assert bench.fetch("g") == 5
    assert bench.fetch_all("g") == {("t", 0): 5}
    bench.end_transaction(PRODUCER, 0, committed=committed)
    assert bench.fetch("g") == (9 if committed else 5)
    bench.restart()
    assert bench.fetch("g") == (9 if committed else 5)


def test_a_pending_offset_is_reported_as_unstable(bench: GroupBench) -> None:
    bench.commit("g", 5)
    bench.commit("g", 6, topic="u")
    bench.commit_in_transaction(PRODUCER, "g", 9)
    assert bench.fetch("g", stable=True) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert bench.fetch("g", "u", stable=True) == 6
    assert bench.fetch("h", stable=True) == NOTHING
    bench.end_transaction(PRODUCER, 0, committed=False)
    assert bench.fetch("g", stable=True) == 5


def test_a_restart_in_a_transaction_keeps_it_open(bench: GroupBench) -> None:
    bench.commit_in_transaction(PRODUCER, "g", 9)
    bench.restart()
    assert bench.fetch("g") == NOTHING
    assert bench.fetch("g", stable=True) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    bench.end_transaction(PRODUCER, 0, committed=True)
    assert bench.fetch("g", stable=True) == 9


def test_the_end_of_one_transaction_leaves_the_others_open(bench: GroupBench) -> None:
    bench.commit_in_transaction(1, "g", 5)
    bench.commit_in_transaction(2, "g", 6, topic="u")
    bench.end_transaction(1, 0, committed=True)
    assert (bench.fetch("g"), bench.fetch("g", "u")) == (5, NOTHING)
    assert bench.fetch("g", "u", stable=True) is ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_a_marker_without_a_transaction_has_no_effect(bench: GroupBench) -> None:
    bench.commit("g", 5)
    bench.end_transaction(PRODUCER, 0, committed=True)
    assert bench.fetch("g") == 5


def test_a_later_commit_is_not_undone_by_the_end_of_an_earlier_transaction(bench: GroupBench) -> None:
    """The later record in the log wins: compaction may have removed the other one."""
    bench.commit_in_transaction(PRODUCER, "g", 5)
    bench.commit("g", 9)
    bench.end_transaction(PRODUCER, 0, committed=True)
    assert bench.fetch("g") == 9


def test_a_deleted_offset_is_not_restored_by_the_end_of_a_transaction(bench: GroupBench) -> None:
    bench.commit_in_transaction(PRODUCER, "g", 5)
    assert bench.delete_offset("g") is NONE
    bench.end_transaction(PRODUCER, 0, committed=True)
    assert bench.fetch("g") == NOTHING


def test_a_producer_commits_for_members_of_the_current_generation(bench: GroupBench) -> None:
    member = bench.join("g", "t")
    commit = bench.commit_in_transaction
    assert commit(PRODUCER, "g", 5, member=member, generation=1) is NONE
    assert commit(PRODUCER, "g", 5, member=member, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert commit(PRODUCER, "g", 5, member="other", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    # Producers before KIP-447 do not name a member and are accepted.
    assert commit(PRODUCER, "g", 6) is NONE


def test_a_transactional_commit_without_a_group_creates_one(bench: GroupBench) -> None:
    assert bench.commit_in_transaction(1, "g", 5, generation=4) is ErrorCode.ILLEGAL_GENERATION
    assert bench.groups() == {}
    assert bench.commit_in_transaction(1, "g", 5) is NONE
    assert bench.groups() == {"g": "Empty"}


# --- deleting


def test_offsets_of_a_group_without_members_may_be_deleted(bench: GroupBench) -> None:
    bench.commit("g", 5)
    bench.commit("g", 6, topic="u")
    assert bench.delete_offset("g") is NONE
    assert bench.fetch_all("g") == {("u", 0): 6}
    bench.restart()
    assert bench.fetch_all("g") == {("u", 0): 6}


def test_deleting_a_missing_offset_appends_nothing(bench: GroupBench) -> None:
    bench.commit("g", 5)
    written = len(bench.log)
    assert bench.delete_offset("g", "u") is NONE
    assert len(bench.log) == written


def test_offsets_of_subscribed_topics_are_kept(bench: GroupBench) -> None:
    member = bench.join("g", "t")
    bench.commit("g", 5, member=member, generation=1)
    bench.commit("g", 6, topic="u", member=member, generation=1)
    assert bench.delete_offset("g", "t") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert bench.delete_offset("g", "u") is NONE
    assert bench.fetch_all("g") == {("t", 0): 5}


def test_offsets_of_other_protocol_types_are_not_deleted(bench: GroupBench) -> None:
    bench.join("g", "t", protocol_type="connect")
    assert bench.delete_offset("g", "t") is ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_an_unknown_group_cannot_be_deleted(bench: GroupBench) -> None:
    assert bench.delete_offset("g") is ErrorCode.GROUP_ID_NOT_FOUND


# --- deleted and recreated topics


def test_the_offsets_of_a_deleted_topic_are_deleted(bench: GroupBench) -> None:
    bench.commit("g", 5)
    bench.commit("h", 6)
    bench.commit("g", 7, topic="u")
    bench.commit_in_transaction(PRODUCER, "g", 8)
    bench.delete_topic("t")
    bench.end_transaction(PRODUCER, 0, committed=True)
    assert bench.fetch_all("g") == {("u", 0): 7}
    assert bench.fetch_all("h") == {}


def test_a_new_topic_does_not_inherit_offsets(bench: GroupBench) -> None:
    """The deletion may be lost with the broker; then the topic id differs."""
    bench.commit("g", 5)
    old = topic_id_of("t")
    request = OffsetFetchRequestGroup(
        group_id="g",
        topics=[OffsetFetchRequestTopics(name="t", topic_id=topic_id_of("new"), partition_indexes=[0])],
    )

    def fetched() -> int:
        return (
            bench.machine.fetch_offsets(request, require_stable=False)
            .topics[0]
            .partitions[0]
            .committed_offset
        )

    assert fetched() == NOTHING
    assert request.topics is not None
    request.topics[0].topic_id = old
    assert fetched() == 5
    request.topics[0].topic_id = ZERO_UUID
    assert fetched() == 5
    assert bench.fetch_all("g") == {("t", 0): 5}
    bench.machine.context.image = replayed([TopicRecord(name="t", topic_id=topic_id_of("new"))], one_node())
    assert bench.fetch_all("g") == {("t", 0): NOTHING}


def test_deleting_a_topic_keeps_the_offsets_of_a_new_topic_with_its_name(bench: GroupBench) -> None:
    bench.commit("g", 5)
    erased = bench.machine.offsets.tombstones_of_topics({"t": topic_id_of("another")})
    assert erased == []
    assert len(bench.machine.offsets.tombstones_of_topics({"t": topic_id_of("t")})) == 1


def test_offsets_of_a_topic_with_many_groups_are_deleted_in_slices(bench: GroupBench) -> None:
    for number in range(1201):
        bench.commit(f"g{number}", 5)
    bench.delete_topic("t")
    assert all(bench.fetch_all(f"g{number}") == {} for number in range(1201))


# --- the store


def test_the_store_is_empty_after_all_offsets_are_deleted() -> None:
    bench = GroupBench("t")
    for _ in range(3):
        bench.commit("g", 5)
        bench.delete_offset("g")
    store: OffsetStore = bench.machine.offsets.store
    assert store.committed.by_group == {}
    assert not store.has_pending("g")
