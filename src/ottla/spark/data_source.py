"""The data source `ottla` for Spark: schema, readers, writers.

Spark creates an instance in one Python process, pickles it, and calls it in others to get a reader or a writer, so an
instance has only the options. Options are checked as early as Spark allows; those that depend on batch or streaming
when the reader is created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from ottla.base.errors import LocalError
from ottla.spark.source.arrow_batches import arrow_schema
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.schema import COLUMNS, CORRUPT, has_corrupt, json_ddl, schema_ddl
from ottla.spark.version import check_version, has_read_limits

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class OttlaDataSource(DataSource):
    """`format("ottla")` for `read`, `readStream`, `write` and `writeStream`."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> str:
        check_version()
        options = SourceOptions.parse(self.options, streaming=None)
        value_ddl = None
        if options.value_schema is not None:
            value_ddl = _value_ddl(options.value_format, options.value_schema)
        return schema_ddl(options.columns, options.value_format, value_ddl)

    def reader(self, schema: StructType) -> DataSourceReader:
        from ottla.spark.source.spark_readers import OttlaReader

        options = SourceOptions.parse(self.options, streaming=False)
        _check_schema(options, schema)
        return OttlaReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from ottla.spark.source.spark_readers import (
            FailedStreamReader,
            OttlaPlainStreamReader,
            OttlaStreamReader,
        )

        try:
            options = SourceOptions.parse(self.options, streaming=True)
            _check_schema(options, schema)
            if has_read_limits():
                return OttlaStreamReader(options, schema)
            return OttlaPlainStreamReader(options, schema)
        except LocalError as error:
            return FailedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ottla.spark.sink.spark_writers import make_batch_writer

        return make_batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from ottla.spark.sink.spark_writers import make_stream_writer

        return make_stream_writer(self.options, schema, overwrite)


def _value_ddl(value_format: str, schema: str) -> str:
    """The typed columns of the values as DDL."""
    if value_format == "avro":
        from ottla.spark.values.avro import avro_ddl

        return avro_ddl(schema)
    return json_ddl(schema)


def _check_schema(options: SourceOptions, schema: StructType) -> None:
    """Reject a schema given by the user, and typed columns with the name of another column."""
    names = [field.name.lower() for field in schema.fields]
    for name in names:
        if names.count(name) > 1:
            raise LocalError(
                f"two columns have the name {name}: valueSchema has the name of a column of the source. Omit or rename "
                f'that column with the option columns, for example columns="value, {name} as record_{name}"'
            )
    typed = options.value_format in {"json", "avro"}
    fixed = [choice for choice in options.columns if not (choice.column == "value" and typed)]
    expected = {choice.name: COLUMNS[choice.column] for choice in fixed}
    if has_corrupt(options.columns, options.value_format):
        expected[CORRUPT] = "BINARY"
        expected.update({choice.name: "STRING" for choice in fixed if choice.column == "value"})
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    wrong = [
        name
        for name, ddl in expected.items()
        if found.get(name) != ddl.lower().replace(": ", ":").replace(", ", ",")
    ]
    if wrong or (len(found) != len(expected) and not typed):
        raise LocalError(
            "the schema of the source cannot be replaced: choose columns with the option columns, and set the schema "
            "of values with valueFormat and valueSchema"
        )
    arrow_schema(schema)
