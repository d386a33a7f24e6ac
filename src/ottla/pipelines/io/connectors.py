"""Topics as data frames, with the connector `ottla` or with Spark's Kafka connector (`kafka`).

A flow gets the same columns from both. `ottla` decodes typed values itself; with `kafka` Spark parses the JSON.
Progress is committed to a consumer group only with `ottla`; Spark's Kafka connector commits nothing.

By default both connectors read records of open and aborted transactions. Pipelines read committed records only, because
flows write transactions, and the next flow must not read the records of an aborted batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from ottla.base.errors import LocalError
from ottla.pipelines.declare import OutputMode, Topic
from ottla.pipelines.io.corrupt_records import CORRUPT
from ottla.pipelines.spark_errors import error_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ConnectorName = Literal["ottla", "kafka"]
CONNECTORS: Final = ("ottla", "kafka")
COMMITTED: Final = {"kafka.isolation.level": "read_committed"}
"""The defaults for reading topics; options override them."""
SHORT_FETCHES: Final = {"kafka.fetch.max.wait.ms": "5"}
"""The same for micro-batches of Spark's Kafka connector. After the last record of a batch, the consumer has a
fetch request outstanding, which waits half a second for a record by default, and the next batch waits for its response.
"""
_SOURCE_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "timestampType")
_SINK_COLUMNS: Final = ("key", "value", "headers", "topic", "partition")


@dataclass(frozen=True)
class Connector:
    """The connector of a run and its options."""

    name: ConnectorName
    bootstrap: str
    options: Mapping[str, str] = field(default_factory=dict)
    """Options for all reads and writes, such as security settings."""
    realtime: bool = False
    """Whether the run is in real-time mode, where a fetch may wait for records."""

    def read(self, spark: SparkSession, topic: Topic, group: str) -> DataFrame:
        """Read the topic as a stream, with typed columns if it has a schema."""
        is_ottla = self.name == "ottla"
        defaults = COMMITTED if is_ottla or self.realtime else COMMITTED | SHORT_FETCHES
        options = {**defaults, **self._common(), "subscribe": topic.name, "startingOffsets": topic.starting}
        if is_ottla:
            options["kafka.group.id"] = group
            if topic.schema is not None:
                zone = spark.conf.get("spark.sql.session.timeZone") or ""
                options |= {"valueFormat": "json", "valueSchema": topic.schema, "timeZone": zone}
        try:
            frame = spark.readStream.format(self.name).options(**{**options, **topic.options}).load()
            return (
                with_typed_values(frame, topic.schema) if topic.schema is not None and not is_ottla else frame
            )
        except Exception:
            _check_ddl(topic)
            raise

    def write(self, frame: DataFrame, topic: Topic, mode: OutputMode) -> DataStreamWriter:
        """The writer of the frame to the topic."""
        options: dict[str, Any] = {**self._common(), "topic": topic.name, **topic.options}
        writer = as_records(frame, topic).writeStream.outputMode(mode)
        if self.name == "ottla" and mode == "update":
            from ottla.spark.updates import updates

            return writer.foreachBatch(updates(options))
        return writer.format(self.name).options(**options)

    def _common(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, **self.options}


def _check_ddl(topic: Topic) -> None:
    """Raise `LocalError` for an invalid schema; Spark's error would quote the schema with the additional column."""
    from pyspark.errors import ParseException
    from pyspark.sql.types import StructType

    try:
        StructType.fromDDL(topic.schema or "")
    except ParseException as error:
        raise LocalError(f"{topic}: invalid schema {topic.schema!r}: {error_message(error)}") from error


def with_typed_values(frame: DataFrame, schema: str) -> DataFrame:
    """Replace the column `value` by the fields of the JSON value, and append the column `_corrupt`."""
    from pyspark.sql import functions as F

    wanted = f"{schema}, {CORRUPT} STRING"
    parsed = F.from_json(frame.value.cast("string"), wanted, {"columnNameOfCorruptRecord": CORRUPT})
    opened = frame.withColumn("_parsed", parsed).select("key", "_parsed.*", *_SOURCE_COLUMNS)
    others = [name for name in opened.columns if name != CORRUPT]
    return opened.select(*others, F.col(CORRUPT).cast("binary").alias(CORRUPT))


def as_records(frame: DataFrame, topic: Topic) -> DataFrame:
    """Rows as records: unchanged if there is a column `value`, otherwise each row as a JSON object."""
    from pyspark.sql import functions as F

    if "value" in frame.columns:
        if others := [name for name in frame.columns if name not in _SINK_COLUMNS]:
            raise LocalError(
                f"{topic}: a frame with a column value may only have the columns {', '.join(_SINK_COLUMNS)}, not "
                f"{', '.join(others)}; drop it, or drop value to write JSON objects"
            )
        _check_types(frame, topic)
        return frame
    if topic.key is not None and topic.key not in frame.columns:
        raise LocalError(
            f"{topic}: the key column {topic.key} does not exist; the columns are {', '.join(frame.columns)}"
        )
    value = F.to_json(F.struct(*frame.columns), {"ignoreNullFields": "false"}).alias("value")
    if topic.key is None:
        return frame.select(value)
    return frame.select(F.col(topic.key).cast("string").alias("key"), value)


def _check_types(frame: DataFrame, topic: Topic) -> None:
    """Check the types of the columns now; the connectors would report an error only in the first batch."""
    from ottla.spark.sink.row_encoder import check_schema

    try:
        check_schema(frame.schema, topic.name)
    except LocalError as error:
        raise LocalError(f"{topic}: {error}") from error
