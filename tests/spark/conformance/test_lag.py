"""`kafka-consumer-groups --describe` shows how far a pipeline is behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compat.java_tools import JavaTools
from tests.spark.conformance.columns import Collector, Column
from tests.support.clients import fresh

pytestmark = [pytest.mark.ours, pytest.mark.compat]


@pytest.fixture(scope="module")
def tools() -> Iterator[JavaTools]:
    running = JavaTools()
    yield running
    running.close()


def described(tools: JavaTools, column: Column, group: str) -> dict[int, tuple[int, int, int]]:
    """By partition: current offset, end of the log, lag."""
    ran = tools.good(
        "kafka-consumer-groups", "--bootstrap-server", column.bootstrap, "--describe", "--group", group
    )
    rows = [line.split() for line in ran.lines if line.split()[:1] == [group]]
    return {int(row[2]): (int(row[3]), int(row[4]), int(row[5])) for row in rows}


def test_kafkas_tool_shows_a_pipelines_lag(
    column: Column, seen: Collector, checkpoint: str, tools: JavaTools
) -> None:
    topic, group = column.topic(2), fresh("pipeline")
    options = {"subscribe": topic, "startingOffsets": "earliest", "kafka__group__id": group}
    column.publish(topic, ["a", "b"], partition=0)
    column.publish(topic, ["c"], partition=1)
    query = seen.start(column.stream(**options), checkpoint)
    query.processAllAvailable()
    # The end of a batch is committed with the next batch.
    column.publish(topic, ["d"], partition=1)
    query.processAllAvailable()
    query.stop()
    column.publish(topic, ["e", "f", "g"], partition=1)
    assert described(tools, column, group) == {0: (2, 2, 0), 1: (2, 5, 3)}
