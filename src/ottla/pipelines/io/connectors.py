"""Topics as data frames, through either connector: ours (`ottla`) or Spark's own (`kafka`).

A flow must not notice which one it is. So typed values and JSON objects are made here, in the same shape for both:
ours decodes typed values itself, for the other they are taken apart by Spark. Progress is shown as a consumer
group with ours only; Spark's own connector commits nothing.

Both connectors read records of open and aborted transactions unless told otherwise. Here they are told: flows write
transactions, and the next flow of a chain must not see what a repeated batch has left behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from ottla.base.errors import LocalError
from ottla.pipelines.declare import OutputMode, Topic
from ottla.pipelines.spark_errors import error_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ConnectorName = Literal["ottla", "kafka"]
CONNECTORS: Final = ("ottla", "kafka")
CORRUPT: Final = "_corrupt"
COMMITTED: Final = {"kafka.isolation.level": "read_committed"}
"""How topics are read unless an option says otherwise."""
SHORT_FETCHES: Final = {"kafka.fetch.max.wait.ms": "5"}
"""The same for micro-batches of Spark's own connector. A batch that has read its last record leaves a fetch behind that
waits for the next record, half a second by default; and the next batch waits until it is answered.
"""
_PLACES: Final = ("topic", "partition", "offset", "timestamp", "timestampType")
_SINK_COLUMNS: Final = ("key", "value", "headers", "topic", "partition")


@dataclass(frozen=True)
class Connector:
    """How topics are reached in a run."""

    name: ConnectorName
    bootstrap: str
    options: Mapping[str, str] = field(default_factory=dict)
    """For every read and write: security settings, above all."""
    realtime: bool = False
    """Whether records are read as they come: a fetch may wait for them."""

    def read(self, spark: SparkSession, topic: Topic, group: str) -> DataFrame:
        """The topic as a stream, with typed columns if it has a schema."""
        ours = self.name == "ottla"
        defaults = COMMITTED if ours or self.realtime else COMMITTED | SHORT_FETCHES
        options = {**defaults, **self._common(), "subscribe": topic.name, "startingOffsets": topic.starting}
        if ours:
            options["kafka.group.id"] = group
            if topic.schema is not None:
                options |= {"valueFormat": "json", "valueSchema": topic.schema}
        try:
            frame = spark.readStream.format(self.name).options(**{**options, **topic.options}).load()
            return typed(frame, topic.schema) if topic.schema is not None and not ours else frame
        except Exception:
            _check_ddl(topic)
            raise

    def write(self, frame: DataFrame, topic: Topic, mode: OutputMode) -> DataStreamWriter:
        """What writes the frame to the topic."""
        options: dict[str, Any] = {**self._common(), "topic": topic.name, **topic.options}
        writer = packed(frame, topic).writeStream.outputMode(mode)
        if self.name == "ottla" and mode == "update":
            from ottla.spark.updates import updates

            return writer.foreachBatch(updates(options))
        return writer.format(self.name).options(**options)

    def _common(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, **self.options}


def _check_ddl(topic: Topic) -> None:
    """Refuses a schema that is none: Spark would quote what we have made of it."""
    from pyspark.errors import ParseException
    from pyspark.sql.types import StructType

    try:
        StructType.fromDDL(topic.schema or "")
    except ParseException as error:
        raise LocalError(f"{topic}: {topic.schema!r} is no schema: {error_message(error)}") from error


def typed(frame: DataFrame, schema: str) -> DataFrame:
    """The connector's columns with the value's fields in place of `value`, and `_corrupt` at the end."""
    from pyspark.sql import functions as F

    wanted = f"{schema}, {CORRUPT} STRING"
    parsed = F.from_json(frame.value.cast("string"), wanted, {"columnNameOfCorruptRecord": CORRUPT})
    opened = frame.withColumn("_parsed", parsed).select("key", "_parsed.*", *_PLACES)
    others = [name for name in opened.columns if name != CORRUPT]
    return opened.select(*others, F.col(CORRUPT).cast("binary").alias(CORRUPT))


def packed(frame: DataFrame, topic: Topic) -> DataFrame:
    """Rows as records: as they are if they have a `value`, otherwise each as a JSON object."""
    from pyspark.sql import functions as F

    if "value" in frame.columns:
        if strange := [name for name in frame.columns if name not in _SINK_COLUMNS]:
            raise LocalError(
                f"{topic}: a frame with a column value is written as it is, and then {', '.join(strange)} has no "
                f"place among {', '.join(_SINK_COLUMNS)}: drop it, or leave value out to write JSON objects"
            )
        _check_types(frame, topic)
        return frame
    if topic.key is not None and topic.key not in frame.columns:
        raise LocalError(
            f"{topic}: there is no column {topic.key} to be the key, only {', '.join(frame.columns)}"
        )
    value = F.to_json(F.struct(*frame.columns), {"ignoreNullFields": "false"}).alias("value")
    if topic.key is None:
        return frame.select(value)
    return frame.select(F.col(topic.key).cast("string").alias("key"), value)


def _check_types(frame: DataFrame, topic: Topic) -> None:
    """Both connectors would refuse them too, but not before the first batch."""
    from ottla.spark.sink.row_encoder import check_schema

    try:
        check_schema(frame.schema, topic.name)
    except LocalError as error:
        raise LocalError(f"{topic}: {error}") from error
