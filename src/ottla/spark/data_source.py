"""The data source `ottla` as Spark sees it: schema, readers, writers.

Spark makes an instance in a Python process of its own, pickles it, and asks for a reader or writer in others:
instances hold the options and nothing else. Options are checked here as early as Spark allows; those whose meaning
depends on batch or streaming when the reader is made.
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
    """`spark.read.format("ottla")` and its three siblings."""

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
            OttlaPlainStreamReader,
            OttlaStreamReader,
            RefusedStreamReader,
        )

        try:
            options = SourceOptions.parse(self.options, streaming=True)
            _check_schema(options, schema)
            if has_read_limits():
                return OttlaStreamReader(options, schema)
            return OttlaPlainStreamReader(options, schema)
        except LocalError as error:
            return RefusedStreamReader(error)

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
    """Refuses a schema of the user's own, and typed columns with the name of another column."""
    names = [field.name.lower() for field in schema.fields]
    for name in names:
        if names.count(name) > 1:
            raise LocalError(
                f"two columns would be called {name}: valueSchema has the name of a column of the source; leave "
                f'that out or rename it with the option columns, for example columns="value, {name} as record_{name}"'
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
            "the source has a schema of its own, which can't be replaced by another one: choose columns with the "
            "option columns, and give the schema of values with valueFormat and valueSchema"
        )
    arrow_schema(schema)
