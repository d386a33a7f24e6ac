"""The output mode *update* for topics: `df.writeStream.outputMode("update").foreachBatch(updates(options))`.

Spark does not allow that mode, in which an aggregate emits its changes, for sinks in Python. But the tasks of the sink
can write a batch of `foreachBatch`: they run as a job of the batch, so they have the id of the query and of the batch,
and their messages are returned to the function, which commits them. The guarantee is that of the sink: a batch that
Spark repeats is written once. The function, its connections and its commit log are in the driver process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from ottla.base.clock import SystemClock
from ottla.client.raw import ClientError
from ottla.spark.sink.spark_writers import stream_writer
from ottla.spark.sink.transactions import TaskCommitMessage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_MESSAGE = "message"


def updates(options: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that writes each batch to the topic, with the options of the sink."""
    kept = dict(options)

    def write(batch: DataFrame, number: int) -> None:
        writer = stream_writer(kept, batch.schema)
        began_ms = SystemClock().now_ms()

        def written(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            message = cast(TaskCommitMessage, writer.write(rows))
            yield pa.RecordBatch.from_pydict({_MESSAGE: pa.array([message.to_json()])})

        try:
            found = batch.mapInArrow(written, f"{_MESSAGE} STRING").collect()
        except Exception:
            with suppress(ClientError):
                writer.abort_without_messages(batch.sparkSession.sparkContext.getLocalProperty, began_ms)
            raise
        messages = [TaskCommitMessage.from_json(row[_MESSAGE]) for row in found]
        try:
            writer.commit(messages, number)
        except Exception:
            writer.abort(messages, number)
            raise

    return write
