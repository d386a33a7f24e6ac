"""Several queries of one session: Spark lets any of its Python processes commit a batch of any of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.sink_queries import Lines, committed_values, copying, open_transactions
from tests.support.waiting import wait_until

QUERIES = 3
BATCHES = 12


def test_queries_beside_each_other_arrive_once(
    spark: Any,
    broker: Any,
    new_topic: Callable[..., str],
    run_query: Callable[[Any], Any],
    tmp_path: Path,
) -> None:
    topics = [new_topic(1) for _ in range(QUERIES)]
    lines = [Lines(tmp_path / topic) for topic in topics]
    queries = []
    for topic, each in zip(topics, lines, strict=True):
        for _ in range(BATCHES):
            each.add()
        checkpoint = str(tmp_path / f"checkpoint-{topic}")
        queries.append(run_query(copying(spark, each.directory, broker.bootstrap, topic, checkpoint)))
    for query, topic, each in zip(queries, topics, lines, strict=True):
        wait_until(
            lambda query=query: (
                query.exception() or (query.lastProgress or {}).get("batchId", -1) >= BATCHES - 1
            ),
            f"{BATCHES} batches of {topic}",
            180,
        )
        assert query.exception() is None
        assert committed_values(broker.bootstrap, topic, 1) == sorted(each.written)
    assert open_transactions(broker.bootstrap) == []
