"""Tables as targets and as sources: parquet with Spark's file sink, Delta with `deltalake`.

Parquet is appended by Spark's sink, which lists the files of finished batches in `_spark_metadata`, so that Spark reads
each batch once. Delta needs no jar: each batch is collected on the driver as Arrow and becomes one commit, with (query,
batch) as its application transaction. A batch that is already in the log of the table is skipped, so a replay changes
nothing. With keys the rows are merged, one row per key: the newest by the columns `latest`, so that a late row never
replaces a newer one; without `latest` the row that was written last. Null is a key like any other, and in `latest` it
is less than all values.

Small batches leave small files, and merges leave the files that they have replaced. Every `COMPACT_EVERY` batches the
small files are compacted, and files that were replaced more than `RETAINED_H` hours ago are deleted. Until then, older
versions of the table can be read. A flow that reads a table has the version of its start; if the files of that version
have been deleted, the flow fails and is restarted.

A flow must write the columns of its Delta table. That is checked when the query is made and with each batch. With keys
it may write some of the columns only; the others keep their values, and are null in a new row.

A batch for a Delta table must fit into the memory of the driver: `maxOffsetsPerTrigger` limits it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.base.errors import LocalError
from ottla.pipelines.declare import Flow, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable, Schema
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

_TARGET, _SOURCE = "t", "s"
_URL: Final = "://"
_NO_TABLE_CONDITIONS: Final = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
COMPACT_EVERY: Final = 200
RETAINED_H: Final = 24
QUERY_ID: Final = "sql.streaming.queryId"


class TableMissing(LocalError):
    """A table to read does not exist."""

    def __init__(self, table: Table, path: str) -> None:
        super().__init__(f"{table} does not exist at {path}")
        self.table = table


def location(table: Table, folder: str) -> str:
    """The path of a table: a URL or an absolute path unchanged, a name below the directory of tables."""
    if _URL in table.name or Path(table.name).is_absolute():
        return table.name
    return f"{folder.rstrip('/')}/{table.name}"


def read(spark: SparkSession, table: Table, folder: str) -> DataFrame:
    """Read the current version of the table. The files of a Delta table are parquet; its log lists them."""
    path = location(table, folder)
    if table.format == "parquet":
        return _read_parquet(spark, table, path)
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(path):
        raise TableMissing(table, path)
    known = DeltaTable(path)
    schema = _columns(known.schema())
    files = known.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    # The values of partition columns are in the names of the directories below the path.
    return spark.read.schema(schema).option("basePath", path).parquet(*files)


def _read_parquet(spark: SparkSession, table: Table, path: str) -> DataFrame:
    from pyspark.errors import AnalysisException

    try:
        return spark.read.parquet(path)
    except AnalysisException as error:
        if error.getCondition() not in _NO_TABLE_CONDITIONS:
            raise
        raise TableMissing(table, path) from error


def write(frame: DataFrame, flow: Flow, table: Table, folder: str) -> DataStreamWriter:
    """The writer of the frame to the table."""
    path = location(table, folder)
    if table.format == "parquet":
        writer = frame.writeStream.format("parquet").option("path", path)
        return writer.partitionBy(*table.partition_by) if table.partition_by else writer
    if missing := [
        key for key in (*table.keys, *table.latest, *table.partition_by) if key not in frame.columns
    ]:
        raise LocalError(f"flow {flow.name}, {table}: the frame has no column {', '.join(missing)}")
    _check_existing(table, path, frame.schema)
    return frame.writeStream.foreachBatch(delta_batch(path, table))


def _check_existing(table: Table, path: str, given: StructType) -> None:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    known = None
    with suppress(
        DeltaError, OSError
    ):  # storage that cannot be reached now may be available for the first batch
        known = DeltaTable(path) if DeltaTable.is_deltatable(path) else None
    if known is not None:
        check_columns(table, _columns(known.schema()), given)


def check_columns(table: Table, known: StructType, given: StructType) -> None:
    """Raise `LocalError` for columns that the table does not have, which a merge would drop silently, and for columns
    that an appended row would not have. Types are not checked: values are cast if possible.
    """
    existing, written = set(known.names), set(given.names)
    if written - existing or (existing - written and not table.keys):
        raise LocalError(
            f"{table} has the columns {_listed(known)}, but the flow writes {_listed(given)}; write the same "
            "columns, or another table"
        )


def _listed(columns: StructType) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in columns.fields)


def _columns(schema: Schema) -> StructType:
    """The schema for Spark; Delta's JSON form is the same as Spark's."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(schema.to_json()))


def delta_batch(path: str, table: Table) -> Callable[[DataFrame, int], None]:
    """The function for `foreachBatch` that commits one batch with the id of the query from its checkpoint."""

    def commit(batch: DataFrame, number: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        if query is None:
            raise LocalError(f"{table}: Spark has not set {QUERY_ID}, the id of the query")
        append_delta(path, table, batch.toArrow(), query, number)
        if number % COMPACT_EVERY == COMPACT_EVERY - 1:
            compact_files(path)

    return commit


def append_delta(path: str, table: Table, rows: pa.Table, query: str, number: int) -> bool:
    """Commit a batch unless the table has it already; return whether it was committed."""
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction

    known = DeltaTable(path) if DeltaTable.is_deltatable(path) else None
    if known is not None:
        done = known.transaction_version(query)
        if done is not None and done >= number:
            return False
        check_columns(table, _columns(known.schema()), _columns(Schema.from_arrow(rows.schema)))
    if table.keys:
        rows = newest(rows, table.keys, table.latest)
    properties: Any = CommitProperties(app_transactions=[Transaction(query, number)])
    try:
        _commit(path, table, known, rows, properties)
    except Exception as error:  # a value that cannot be cast raises a plain Exception
        kind = "" if known is None else f" with the columns {_listed(_columns(known.schema()))}"
        raise LocalError(f"{table}{kind}: {error}") from error
    return True


def _commit(path: str, table: Table, known: DeltaTable | None, rows: pa.Table, properties: Any) -> None:
    from deltalake import write_deltalake

    if known is None or not table.keys:
        partitions = list(table.partition_by) or None
        write_deltalake(path, rows, mode="append", partition_by=partitions, commit_properties=properties)
        return
    same = " AND ".join(f"({_SOURCE}.`{key}` IS NOT DISTINCT FROM {_TARGET}.`{key}`)" for key in table.keys)
    merge = known.merge(rows, same, source_alias=_SOURCE, target_alias=_TARGET, commit_properties=properties)
    merge.when_matched_update_all(not_older(table.latest)).when_not_matched_insert_all().execute()


def compact_files(path: str) -> None:
    """Compact small files and delete old ones. An error is ignored; the next call does the work again."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    with suppress(DeltaError, OSError):
        known = DeltaTable(path)
        known.optimize.compact()
        known.vacuum(RETAINED_H, dry_run=False, enforce_retention_duration=False)


def newest(rows: pa.Table, keys: Sequence[str], latest: Sequence[str]) -> pa.Table:
    """One row per key: the one with the greatest `latest`, the last of equal ones."""
    import pyarrow as pa

    position, known = "_position", "_known_{}"
    ranked = rows.select(list(dict.fromkeys([*keys, *latest])))
    for name in latest:  # Arrow sorts nulls last, as if they were the newest
        ranked = ranked.append_column(known.format(name), rows[name].is_valid().cast(pa.int8()))
    ranked = ranked.append_column(position, pa.array(range(rows.num_rows), pa.int64()))
    order = [column for name in latest for column in (known.format(name), name)]
    ranked = ranked.sort_by([(column, "ascending") for column in (*order, position)])
    ranked = ranked.append_column("_rank", pa.array(range(rows.num_rows), pa.int64()))
    last = ranked.group_by(list(keys)).aggregate([("_rank", "max")])["_rank_max"]
    return rows.take(ranked[position].take(last))


def not_older(latest: Sequence[str]) -> str | None:
    """The condition on which a row of the batch replaces the row of the table: a comparison of tuples."""
    if not latest:
        return None
    *heads, tail = ((f"{_SOURCE}.`{name}`", f"{_TARGET}.`{name}`") for name in latest)
    condition = f"({tail[1]} IS NULL OR {tail[0]} >= {tail[1]})"
    for new, old in reversed(heads):
        newer = f"{new} > {old} OR ({old} IS NULL AND {new} IS NOT NULL)"
        condition = f"({newer} OR (({new} IS NOT DISTINCT FROM {old}) AND {condition}))"
    return condition
