"""Checks of the scoreboard from outside: sends events, reads topics and the table, and computes the expected rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from confluent_kafka import Consumer, TopicPartition

from ottla.base.rng import Random
from ottla.scoreboard.generator import ROUND_MS, Arrival, disturbed, season
from ottla.scoreboard.match import decode, encode
from ottla.scoreboard.standings import Standing, Statistics, standings, statistics
from tests.support.clients import TIMEOUT_S, Publisher


def arrivals(matches: int, ended_ms: int, seed: int = 7) -> list[Arrival]:
    """A round of matches, over by then, as it comes through a bad network: some events twice, some late."""
    events = season(matches, ended_ms - ROUND_MS, seed)
    return list(disturbed(events, Random(seed), duplicates=0.1, late=0.1))


def send(bootstrap: str, arrived: Iterable[Arrival], topic: str = "matches") -> None:
    records = [{"key": each.event.match, "value": encode(each.event)} for each in arrived]
    Publisher(bootstrap, {"partitioner": "murmur2_random"}).send(topic, records)


def committed(bootstrap: str, topic: str) -> list[Any]:
    """All committed records of a topic, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    count = len(consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(count)])
    found, ended = [], set()
    while len(ended) < count:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"no end of {topic} in sight"
        if message.error():
            ended.add(message.partition())
        else:
            found.append(message)
    consumer.close()
    return found


def shown(bootstrap: str) -> dict[tuple[str, int], Standing]:
    """What a reader of the compacted topic ends up with: the last record of each match."""
    found = [msgspec.json.decode(each.value(), type=Standing) for each in committed(bootstrap, "scoreboard")]
    return {(each.match, each.started_ms): each for each in found}


def figures(bootstrap: str) -> dict[tuple[str, int, int], Statistics]:
    found = [
        msgspec.json.decode(each.value(), type=Statistics) for each in committed(bootstrap, "statistics")
    ]
    return {(each.match, each.started_ms, each.window_start_ms): each for each in found}


def table(place: str) -> dict[str, Standing]:
    from deltalake import DeltaTable

    rows = DeltaTable(place).to_pyarrow_table().to_pylist()
    assert len({row["match"] for row in rows}) == len(rows), "one row for each match"
    return {row["match"]: Standing(**row) for row in rows}


def expected(bootstrap: str) -> tuple[dict[Any, Standing], dict[Any, Statistics]]:
    """What the rules say of the events that are in the topic."""
    events = [decode(each.value()) for each in committed(bootstrap, "matches")]
    return standings(events), statistics(events)
