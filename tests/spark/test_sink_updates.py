"""`foreachBatch(updates(...))`: several sinks in one query, each exactly once."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.sink.batch_commit import BatchCommit
from ottla.spark.updates import updates
from tests.support.sink_queries import Lines, committed_values, open_transactions
from tests.support.waiting import wait_until

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


@pytest.mark.parametrize("where", ["task", "commit"])
def test_a_batch_that_fails_leaves_nothing_open(
    spark: Any,
    broker: Any,
    new_topic: Callable[..., str],
    checkpoint: str,
    where: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task fails when another has written, so that no message comes; or the driver before anything is decided.

    The collector of the driver's process is left alone: only in Spark's own are imports taken out of its sight.
    """
    frozen = gc.get_freeze_count()
    topic, bootstrap = new_topic(PARTITIONS), broker.bootstrap
    to_topic = updates({"kafka.bootstrap.servers": bootstrap, "topic": topic, "transactionalIdPrefix": topic})

    def second_fails(rows: Iterator[Any]) -> Iterator[Any]:
        for batch in rows:
            if batch.column(0)[0].as_py() != "0":
                wait_until(lambda: bool(open_transactions(bootstrap, topic)), "what the first task writes")
                raise RuntimeError("enough")
            yield batch

    def write(batch: Any, number: int) -> None:
        rows = batch.sparkSession.range(0, 4, 1, 2).selectExpr("cast(id as string) as value")
        to_topic(rows.mapInArrow(second_fails, "value STRING") if where == "task" else rows, number)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("enough")

    if where == "commit":
        monkeypatch.setattr(BatchCommit, "commit", fail)
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = source.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).start()
    with pytest.raises(Exception, match="enough"):
        query.awaitTermination(FINISH_S)
    assert open_transactions(broker.bootstrap, topic) == []
    assert committed_values(broker.bootstrap, topic, PARTITIONS) == []
    assert gc.get_freeze_count() == frozen
