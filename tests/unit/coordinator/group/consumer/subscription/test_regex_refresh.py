"""Refresh of subscriptions by regular expression."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.group.consumer.subscription.regex_refresh import refresh_timer
from ottla.coordinator.group.records import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from tests.support.consumer_bench import ConsumerBench, HeartbeatResult
from tests.support.group_bench import CLIENT


@pytest.fixture
def many() -> ConsumerBench:
    return ConsumerBench(t1=1, t2=1, u1=1)


def resolutions(bench: ConsumerBench) -> list[tuple[str, list[str] | None]]:
    """Regular expressions written since the last call, with their topics; None for a tombstone."""
    return [
        (
            record.key.regular_expression,
            record.value.topics if isinstance(record.value, ConsumerGroupRegularExpressionValue) else None,
        )
        for record in bench.written()
        if isinstance(record.key, ConsumerGroupRegularExpressionKey)
    ]


def test_a_regex_is_resolved_right_after_its_heartbeat(many: ConsumerBench) -> None:
    assert many.join("a", subscribed_topic_regex="t.*") == HeartbeatResult(1, {})
    assert resolutions(many) == [("t.*", ["t1", "t2"])]
    assert many.group.epoch == 2
    assert many.beat("a", 1) == HeartbeatResult(2, {"t1": (0,), "t2": (0,)})


def test_a_resolved_regex_has_a_time_and_a_metadata_version(many: ConsumerBench) -> None:
    many.join("a", subscribed_topic_regex="t.*")
    resolved = many.group.subscriptions.resolved["t.*"]
    assert (resolved.version, resolved.timestamp_ms) == (many.image.offset, many.clock.now)


def test_names_and_regexes_are_combined(many: ConsumerBench) -> None:
    many.join("a", "u1", subscribed_topic_regex="t1")
    assert many.beat("a", 2).parts == {"t1": (0,), "u1": (0,)}
    assert many.group.is_subscribed_to("t1")
    assert many.group.is_subscribed_to("u1")
    assert not many.group.is_subscribed_to("t2")


def test_a_known_regex_is_not_resolved_again(many: ConsumerBench) -> None:
    many.join("a", subscribed_topic_regex="t.*")
    many.beat("a", 1)
    many.written()
    assert many.join("b", subscribed_topic_regex="t.*").epoch == 3
    assert resolutions(many) == []
    many.settle("a", "b")
    assert sorted(list(parts) for parts in many.held().values()) == [["t1"], ["t2"]]


def test_a_malformed_pattern_is_refused(many: ConsumerBench) -> None:
    fields = {"subscribed_topic_regex": "(t", "rebalance_timeout_ms": 1, "owned": {}}
    refused = many.refused("a", 0, **fields)
    assert refused.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert str(refused.text).startswith("SubscribedTopicRegex `(t` is not a valid regular expression: ")


def test_new_topics_are_found_but_not_more_often_than_every_ten_seconds(many: ConsumerBench) -> None:
    many.join("a", subscribed_topic_regex="t.*")
    many.beat("a", 1)
    many.create_topic("t3", 1)
    many.advance(10_000)
    assert many.beat("a", 2) == HeartbeatResult(2, None)
    many.advance(1)
    many.beat("a", 2)
    assert many.beat("a", 2) == HeartbeatResult(3, {"t1": (0,), "t2": (0,), "t3": (0,)})


def test_without_new_topics_patterns_are_resolved_again_after_the_refresh_interval() -> None:
    bench = ConsumerBench({"group.consumer.regex.refresh.interval.ms": "20000"}, t1=1)
    bench.join("a", subscribed_topic_regex="t.*")
    bench.written()
    bench.advance(20_000)
    bench.beat("a", 1)
    assert resolutions(bench) == []
    bench.advance(1)
    bench.beat("a", 2)
    assert resolutions(bench) == [("t.*", ["t1"])]
    assert bench.group.epoch == 2, "nothing changed"


def test_a_deleted_topic_is_noticed_through_the_hash(many: ConsumerBench) -> None:
    many.join("a", subscribed_topic_regex="t.*")
    many.beat("a", 1)
    many.delete_topic("t2")
    assert many.beat("a", 2, owned={"t1": (0,)}) == HeartbeatResult(3, {"t1": (0,)})


def test_a_regex_is_deleted_with_its_last_member(many: ConsumerBench) -> None:
    many.join("a", subscribed_topic_regex="t.*")
    many.join("b", subscribed_topic_regex="t.*")
    many.written()
    many.beat("a", -1)
    assert resolutions(many) == []
    many.beat("b", -1)
    assert resolutions(many) == [("t.*", None)]
    assert many.group.metadata_hash == 0


def test_another_regex_replaces_the_previous_one(many: ConsumerBench) -> None:
    many.join("a", subscribed_topic_regex="t.*")
    many.beat("a", 1)
    many.written()
    response = many.beat("a", 2, subscribed_topic_regex="u.*")
    assert response == HeartbeatResult(2, {}), "its partitions are revoked at once"
    many.advance(10_001)
    many.beat("a", 2, owned={})
    assert many.beat("a", many.member("a").epoch).parts == {"u1": (0,)}


def test_an_empty_regex_ends_the_subscription(many: ConsumerBench) -> None:
    many.join("a", subscribed_topic_regex="t.*")
    many.beat("a", 1)
    many.written()
    many.beat("a", 2, subscribed_topic_regex="")
    assert resolutions(many) == [("t.*", None)]
    assert many.group.epoch == 3, "what it reads now is known"


def test_only_one_refresh_is_scheduled_at_a_time(many: ConsumerBench) -> None:
    machine = many.machine
    first = many.request("a", 0, subscribed_topic_regex="t.*", rebalance_timeout_ms=1, owned={})
    second = many.request("b", 0, subscribed_topic_regex="u.*", rebalance_timeout_ms=1, owned={})
    many.apply(machine.consumer_heartbeat(first, CLIENT, 1))
    many.apply(machine.consumer_heartbeat(second, CLIENT, 1))
    assert many.timers.is_scheduled(refresh_timer("g"))
    many.written()
    many.advance(0)
    assert resolutions(many) == [("t.*", ["t1", "t2"])], "the other waits for its turn"


def test_a_deleted_group_is_not_refreshed(many: ConsumerBench) -> None:
    many.join("a", subscribed_topic_regex="t.*")
    many.timers.schedule(("x",), 0, lambda: many.machine.consumer._regexes._refresh("unknown", ["t"], None))
    many.written()
    many.advance(0)
    assert resolutions(many) == []


def test_resolved_regexes_are_restored_from_the_log(many: ConsumerBench) -> None:
    many.join("a", subscribed_topic_regex="t.*")
    many.restart()
    assert many.beat("a", 1) == HeartbeatResult(2, {"t1": (0,), "t2": (0,)})


def test_a_changed_regex_is_kept_for_other_members(many: ConsumerBench) -> None:
    for name in ("a", "b"):
        many.join(name, subscribed_topic_regex="t.*")
    many.written()
    many.beat("a", many.member("a").epoch, subscribed_topic_regex="")
    assert resolutions(many) == []
    assert "t.*" in many.group.subscriptions.resolved


def test_a_regex_matches_only_topics_that_the_client_may_describe(many: ConsumerBench) -> None:
    client = CLIENT._replace(describes=lambda name: name != "t2")
    request = many.request("a", 0, rebalance_timeout_ms=1000, owned={}, subscribed_topic_regex="t.*")
    many.write(lambda machine: machine.consumer_heartbeat(request, client, 1)).result()
    many.advance(0)
    assert resolutions(many) == [("t.*", ["t1"])]
