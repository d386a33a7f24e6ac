"""`foreachBatch(updates(...))`: several sinks in one query, each exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.updates import updates
from tests.support.sink_queries import Lines, committed_values, open_transactions

PARTITIONS = 2
FINISH_S = 180


def test_two_sinks_of_one_query(
    spark: Any, broker: Any, new_topic: Callable[..., str], tmp_path: Path, checkpoint: str
) -> None:
    """The driver fails between the sinks: the first has the batch already, the second gets it when it is repeated."""
    lines = Lines(tmp_path / "lines")
    lines.add()
    first, second = new_topic(PARTITIONS), new_topic(PARTITIONS)
    servers = {"kafka.bootstrap.servers": broker.bootstrap}
    to_first, to_second = (updates({**servers, "topic": topic}) for topic in (first, second))
    tried: list[int] = []

    def write(batch: Any, number: int) -> None:
        to_first(batch, number)
        tried.append(number)
        if len(tried) == 1:
            raise RuntimeError("killed")
        to_second(batch, number)

    def query(write: Callable[[Any, int], None]) -> Any:
        source = spark.readStream.format("text").load(str(lines.directory))
        writer = source.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
        return writer.trigger(availableNow=True).start()

    with pytest.raises(Exception, match="killed"):
        query(write).awaitTermination(FINISH_S)
    assert query(write).awaitTermination(FINISH_S)
    assert tried == [0, 0]
    for topic in (first, second):
        assert committed_values(broker.bootstrap, topic, PARTITIONS) == sorted(lines.written)
    assert open_transactions(broker.bootstrap) == []

    def write_twice(batch: Any, number: int) -> None:
        to_first(batch, number)
        to_first(batch, number)

    lines.add()
    with pytest.raises(Exception, match="sinkName"):
        query(write_twice).awaitTermination(FINISH_S)
    assert open_transactions(broker.bootstrap) == []
