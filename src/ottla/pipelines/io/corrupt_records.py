"""Corrupt values of typed topics: counted with each batch, and written to a dead-letter topic if one is declared.

A flow gets the corrupt rows too, with the value in `_corrupt`, unless the topic has a dead-letter topic: then another
flow writes them there. A dead letter has the key and the value of the record, and the headers that Kafka uses for the
dead letters of share groups: `__dlq.errors.topic`, `.partition`, `.offset` and `.message`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.pipelines.declare import Topic
from ottla.pipelines.progress import CORRUPT_METRIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CORRUPT: Final = "_corrupt"
_HEADER: Final = "__dlq.errors."
_MESSAGE: Final = "the value does not match the schema"


def observed(frame: DataFrame, topic: Topic, number: int) -> DataFrame:
    """The frame of a topic, with the number of corrupt values and the position of the first one as metrics."""
    from pyspark.sql import functions as F

    if topic.schema is None or CORRUPT not in frame.columns:
        return frame
    is_corrupt = F.col(CORRUPT).isNotNull()
    metrics = [F.count_if(is_corrupt).alias("count")]
    if "columns" not in topic.options:
        metrics.append(F.min(F.when(is_corrupt, F.struct("partition", "offset"))).alias("first"))
    return frame.observe(f"{CORRUPT_METRIC}{number}.{topic.name}", *metrics)


def without_corrupt(frame: DataFrame, topic: Topic) -> DataFrame:
    """The frame without corrupt rows, if they are written to a dead-letter topic."""
    return frame if topic.dead_letters is None else frame.where(f"{CORRUPT} IS NULL")


def dead_letters(frame: DataFrame) -> DataFrame:
    """The corrupt rows as dead letters."""
    from pyspark.sql import functions as F

    def header(name: str, value: Column) -> Column:
        return F.struct(
            F.lit(_HEADER + name).alias("key"), value.cast("string").cast("binary").alias("value")
        )

    positions = [name for name in ("topic", "partition", "offset") if name in frame.columns]
    headers = [header(name, F.col(name)) for name in positions] + [header("message", F.lit(_MESSAGE))]
    columns = [F.col(CORRUPT).alias("value"), F.array(*headers).alias("headers")]
    return frame.where(f"{CORRUPT} IS NOT NULL").select(
        *([F.col("key")] if "key" in frame.columns else []), *columns
    )
