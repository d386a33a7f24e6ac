"""The sections of the console, and the results of the search palette. Pure."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from ottla.console.data.snapshot import Snapshot, count

NAVIGATION = (
    ("overview", "/", "Overview", "o"),
    ("topics", "/topics", "Topics", "t"),
    ("groups", "/groups", "Groups", "g"),
    ("transactions", "/transactions", "Transactions", "x"),
    ("cluster", "/cluster", "Cluster", "c"),
    ("pipelines", "/pipelines", "Pipelines", "p"),
    ("scoreboard", "/scoreboard", "Scoreboard", "s"),
)
"""Key, path, text and the letter after `g`."""
RESULTS_MAX = 30


class Result(NamedTuple):
    text: str
    kind: str
    path: str


def results(query: str, snapshot: Snapshot) -> list[Result]:
    """What contains all words of the query, names that start with it first."""
    words = query.lower().split()
    found = [each for each in _all(snapshot) if all(word in each.text.lower() for word in words)]
    found.sort(key=lambda each: not each.text.lower().startswith(query.lower().strip()))
    return found[:RESULTS_MAX]


def _all(snapshot: Snapshot) -> list[Result]:
    pages = [Result(text, "page", path) for _, path, text, _ in NAVIGATION]
    topics = [
        Result(topic.name, f"topic, {count(len(topic.partitions), 'partition')}", topic_path(topic.name))
        for topic in sorted(snapshot.topics, key=lambda each: (each.internal, each.name))
    ]
    brokers = [
        Result(f"Broker {each.node_id}", f"{each.address}, {each.state}", f"/cluster#broker-{each.node_id}")
        for each in snapshot.brokers
    ]
    groups = [
        Result(each.name, f"group, {each.state.lower()}", group_path(each.name)) for each in snapshot.groups
    ]
    return pages + topics + groups + brokers


def topic_path(name: str) -> str:
    return f"/topics/{quote(name, safe='')}"


def group_path(name: str) -> str:
    return f"/groups/{quote(name, safe='')}"
