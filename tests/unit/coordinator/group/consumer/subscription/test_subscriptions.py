"""Counts of subscribed topics."""

from __future__ import annotations

import pytest

from ottla.base.errors import InvariantViolation
from ottla.coordinator.group.consumer.consumer_member import ConsumerMember
from ottla.coordinator.group.consumer.subscription.subscriptions import Subscriptions
from ottla.coordinator.group.consumer.subscription.topic_regex import ResolvedRegex
from tests.support.metadata import one_node, topic_id_of


def reader(*topics: str, regex: str | None = "") -> ConsumerMember:
    return ConsumerMember("m", topics=frozenset(topics), topic_regex=regex)


def test_a_topic_is_subscribed_until_its_last_member_leaves() -> None:
    read = Subscriptions()
    read.change(None, reader("t", "u"))
    read.change(None, reader("t"))
    read.change(reader("t", "u"), None)
    assert (read.has("t"), read.has("u")) == (True, False)
    assert read.topics_after([(reader("t"), None)]) == set()
    assert read.has("t"), "asking changes nothing"


def test_counts_cannot_become_negative() -> None:
    with pytest.raises(InvariantViolation):
        Subscriptions().change(reader("t"), None)


def test_a_regex_counts_while_a_member_uses_it() -> None:
    read = Subscriptions()
    read.change(None, reader("t", regex="x.*"))
    read.resolved["x.*"] = ResolvedRegex(frozenset({"x1", "x2"}), 5, 7)
    assert read.topics_after() == {"t", "x1", "x2"}
    assert read.topics_after([(reader("t", regex="x.*"), reader("t"))]) == {"t"}
    assert read.topics_after(resolved={"x.*": ResolvedRegex(frozenset({"x3"}))}) == {"t", "x3"}
    assert read.regexes_after([(None, reader(regex="y"))]) == {"x.*": 1, "y": 1}
    assert (read.has("x1"), read.has_any(["x3", "x2"]), read.has_any(["x3"])) == (True, True, False)


def test_age_and_version_of_resolved_regexes() -> None:
    read = Subscriptions()
    assert (read.refreshed_ms, read.oldest_version) == (-1, -1)
    read.resolved = {
        "x": ResolvedRegex(version=5, timestamp_ms=7),
        "y": ResolvedRegex(version=4, timestamp_ms=9),
    }
    assert (read.refreshed_ms, read.oldest_version) == (9, 4)


def test_ids_of_topics_that_exist() -> None:
    read = Subscriptions()
    image = one_node("t", "x1")
    member = reader("t", "gone", regex="x.*")
    assert read.topic_ids(member, image) == {topic_id_of("t")}
    read.resolved["x.*"] = ResolvedRegex(frozenset({"x1"}))
    assert read.topic_ids(member, image) == {topic_id_of("t"), topic_id_of("x1")}
