"""Settings of compacted topics, with the cleaner of a real broker at work."""

from __future__ import annotations

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from ottla.base.clock import SystemClock
from ottla.local.broker_process import BrokerProcess
from tests.support.clients import Publisher, Reader, create_topic, fresh
from tests.support.settings import (
    alter_topic,
    checkpointed,
    contents,
    pairs,
    refusal,
    segment_bases,
)
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
Written = tuple[str, bytes | None]


def write(broker: BrokerProcess, topic: str, *records: Written, hours_ago: int = 1) -> None:
    """Each record in a segment of its own, the last one in the active segment."""
    publisher = Publisher(broker.bootstrap)
    start = SystemClock().now_ms() - hours_ago * HOUR_MS
    for number, (key, value) in enumerate(records):
        publisher.send(topic, [{"key": key, "value": value, "timestamp": start + number * 1000}])


def wait_for(broker: BrokerProcess, topic: str, *expected: tuple[int, bytes, bytes | None]) -> None:
    wait_until(lambda: pairs(broker.bootstrap, topic) == list(expected), f"{topic} to hold {expected}")


def wait_for_a_round(broker: BrokerProcess) -> None:
    """Until the cleaner has been at work once more."""
    other = create_topic(broker.bootstrap, fresh("round"), config=COMPACTED)
    write(broker, other, ("k", b"1"), ("k", b"2"), ("end", b""))
    wait_for(broker, other, (1, b"k", b"2"), (2, b"end", b""))


def test_compact_keeps_the_last_value_of_each_key_and_all_that_is_active(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("compact"), config=COMPACTED)
    write(brisk, topic, ("a", b"1"), ("b", b"1"), ("a", b"2"), ("c", b"1"), ("b", b"2"), ("a", b"3"))
    # The last record is in the active segment: it is not compacted and does not replace an earlier record yet.
    wait_for(brisk, topic, (2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2"), (5, b"a", b"3"))
    write(brisk, topic, ("z", b"1"), hours_ago=0)
    wait_for(brisk, topic, (3, b"c", b"1"), (4, b"b", b"2"), (5, b"a", b"3"), (6, b"z", b"1"))
    wait_until(
        lambda: checkpointed(brisk.data, "cleaner-offset-checkpoint").get(f"{topic}-0") == 6,
        "the cleaner to note how far it came",
    )


def test_a_compacted_topic_wants_keys(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("keys"), config={"cleanup.policy": "compact"})
    assert refusal(brisk.bootstrap, topic, value=b"no key") == KafkaError.INVALID_RECORD
    assert refusal(brisk.bootstrap, topic, key=b"", value=b"empty key") is None
    alter_topic(brisk.bootstrap, topic, {"cleanup.policy": "delete"})
    assert refusal(brisk.bootstrap, topic, value=b"no key") is None


def test_delete_retention_ms_is_how_long_a_tombstone_stays(brisk: BrokerProcess) -> None:
    topic = create_topic(
        brisk.bootstrap, fresh("tombs"), config={**COMPACTED, "delete.retention.ms": "3600000"}
    )
    write(brisk, topic, ("a", b"1"), ("a", None), ("b", b"1"), ("end", b""))
    wait_for(brisk, topic, (1, b"a", None), (2, b"b", b"1"), (3, b"end", b""))
    wait_for_a_round(brisk)
    assert len(contents(brisk.bootstrap, topic)) == 3
    brief = create_topic(brisk.bootstrap, fresh("tombs"), config={**COMPACTED, "delete.retention.ms": "0"})
    write(brisk, brief, ("a", b"1"), ("a", None), ("b", b"1"), ("end", b""))
    wait_until(lambda: (0, b"a", b"1") not in pairs(brisk.bootstrap, brief), "the first round")
    write(brisk, brief, ("b", b"2"), ("end", b""), hours_ago=0)
    wait_for(brisk, brief, (3, b"end", b""), (4, b"b", b"2"), (5, b"end", b""))


def test_min_compaction_lag_ms_keeps_the_young(brisk: BrokerProcess) -> None:
    config = {**COMPACTED, "min.compaction.lag.ms": str(2 * HOUR_MS)}
    topic = create_topic(brisk.bootstrap, fresh("lag"), config=config)
    write(brisk, topic, ("a", b"1"), ("a", b"2"), ("end", b""))
    wait_for_a_round(brisk)
    assert len(contents(brisk.bootstrap, topic)) == 3
    alter_topic(brisk.bootstrap, topic, {"min.compaction.lag.ms": None})
    wait_for(brisk, topic, (1, b"a", b"2"), (2, b"end", b""))


def test_min_cleanable_dirty_ratio_and_max_compaction_lag_ms(brisk: BrokerProcess) -> None:
    config = {**COMPACTED, "min.cleanable.dirty.ratio": "1.0"}
    topics = [create_topic(brisk.bootstrap, fresh("ratio"), config=config) for _ in range(2)]
    for topic in topics:
        write(brisk, topic, ("a", b"1"), ("a", b"2"), ("end", b""))
    wait_for_a_round(brisk)
    assert [len(contents(brisk.bootstrap, topic)) for topic in topics] == [3, 3]
    alter_topic(brisk.bootstrap, topics[0], {"min.cleanable.dirty.ratio": "0.5"})
    alter_topic(brisk.bootstrap, topics[1], {"max.compaction.lag.ms": "60000"})
    for topic in topics:
        wait_for(brisk, topic, (1, b"a", b"2"), (2, b"end", b""))


def test_max_compaction_lag_ms_rolls_segments_in_time(brisk: BrokerProcess) -> None:
    config = {**COMPACTED, "segment.ms": str(24 * HOUR_MS), "max.compaction.lag.ms": "60000"}
    topic = create_topic(brisk.bootstrap, fresh("lag"), config=config)
    write(brisk, topic, ("a", b"1"), ("a", b"2"), hours_ago=2)
    write(brisk, topic, ("end", b""), hours_ago=0)
    assert segment_bases(brisk.data / f"{topic}-0")[-1] == 2
    wait_for(brisk, topic, (1, b"a", b"2"), (2, b"end", b""))


def test_both_policies_compact_and_delete(brisk: BrokerProcess) -> None:
    config = {**COMPACTED, "cleanup.policy": "compact,delete", "retention.ms": str(5 * HOUR_MS)}
    topic = create_topic(brisk.bootstrap, fresh("both"), config=config)
    write(brisk, topic, ("old", b"1"), ("older", b"1"), hours_ago=9)
    # Not before they are gone: put together with younger segments they would live as long as these.
    with Reader(brisk.bootstrap, topic, [0]) as reader:
        wait_until(lambda: reader.start(0, topic) == 2, "old records to go")
    write(brisk, topic, ("a", b"1"), ("a", b"2"), ("b", b"1"), hours_ago=1)
    wait_for(brisk, topic, (3, b"a", b"2"), (4, b"b", b"1"))


def test_cleanup_policy_is_changed_while_running(brisk: BrokerProcess) -> None:
    config = {**COMPACTED, "cleanup.policy": "delete"}
    topic = create_topic(brisk.bootstrap, fresh("policy"), config=config)
    publisher = Publisher(brisk.bootstrap)
    publisher.send(topic, [{"value": b"no key", "timestamp": SystemClock().now_ms() - 2 * HOUR_MS}])
    write(brisk, topic, ("a", b"1"), ("a", b"2"), ("end", b""))
    wait_for_a_round(brisk)
    assert len(contents(brisk.bootstrap, topic)) == 4
    alter_topic(brisk.bootstrap, topic, {"cleanup.policy": "compact"})
    wait_for(brisk, topic, (2, b"a", b"2"), (3, b"end", b""))
    alter_topic(brisk.bootstrap, topic, {"cleanup.policy": "delete"})
    write(brisk, topic, ("a", b"3"), ("a", b"4"), ("end", b""), hours_ago=0)
    wait_for_a_round(brisk)
    assert [offset for offset, _, _ in pairs(brisk.bootstrap, topic)] == [2, 3, 4, 5, 6]


def test_a_topic_made_anew_under_the_same_name_is_cleaned_from_its_start(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("again"), config=COMPACTED)
    write(brisk, topic, ("a", b"1"), ("a", b"2"), ("b", b"1"), ("end", b""))
    wait_for(brisk, topic, (1, b"a", b"2"), (2, b"b", b"1"), (3, b"end", b""))
    admin = AdminClient({"bootstrap.servers": brisk.bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    wait_until(
        lambda: f"{topic}-0" not in checkpointed(brisk.data, "cleaner-offset-checkpoint"),
        "the cleaner to forget the topic",
    )
    create_topic(brisk.bootstrap, topic, config=COMPACTED)
    write(brisk, topic, ("a", b"1"), ("a", b"2"), ("end", b""))
    wait_for(brisk, topic, (1, b"a", b"2"), (2, b"end", b""))
