"""The results of the search palette."""

from __future__ import annotations

from ottla.admin.topics import TopicInfo
from ottla.console.data.snapshot import Broker, Snapshot
from ottla.console.presentation.navigation import RESULTS_MAX, results, topic_path

SNAPSHOT = Snapshot(
    brokers=(Broker(4, "host:9092", None),),
    topics=(TopicInfo("orders", "", False, ()), TopicInfo("big orders", "", False, ())),
)


def test_names_that_start_with_the_query_are_first() -> None:
    assert [each.text for each in results("orders", SNAPSHOT)] == ["orders", "big orders"]


def test_all_words_must_be_contained() -> None:
    assert [each.text for each in results("ord BIG", SNAPSHOT)] == ["big orders"]
    assert results("nothing like this", SNAPSHOT) == []


def test_pages_and_brokers_are_found() -> None:
    assert results("clus", SNAPSHOT)[0].path == "/cluster"
    assert results("broker 4", SNAPSHOT)[0].path == "/cluster#broker-4"


def test_an_empty_query_lists_the_first_results_only() -> None:
    topics = tuple(TopicInfo(f"t{index}", "", False, ()) for index in range(100))
    assert len(results("", Snapshot(topics=topics))) == RESULTS_MAX


def test_names_are_escaped_in_paths() -> None:
    assert topic_path("a/b c?") == "/topics/a%2Fb%20c%3F"
