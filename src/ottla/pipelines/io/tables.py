"""Tables as targets and as sources: parquet through Spark's own file sink, Delta through `deltalake`.

Parquet is appended to by Spark's sink, which lists the files of finished batches in `_spark_metadata`, so a reader
through Spark sees every batch once. Delta needs no jar: each batch comes to the driver as Arrow and is one commit
that carries (query, batch) as an application transaction; a batch that is already in the table's log is left out,
so a replay changes nothing. With keys the rows are merged, one for each key: the newest by the columns `latest`,
so that a late row never replaces a newer one; without them the last to arrive. Null is a key like any other, and in
`latest` less than every value.

Small batches leave small files, and merges the files they have replaced. Every `TIDY_EVERY` batches the small ones are
joined, and what was replaced longer than `KEPT_H` ago is deleted. Until then it serves whoever reads an older version:
a flow that looks up a table has the version of its start, and fails and starts anew if that is gone.

A flow writes the columns that its Delta table has: checked when the query is made, and again with each batch. One with
keys may write some of them only; others stay as they are, and are null in a new row.

A batch of a Delta table must fit the driver's memory: `maxOffsetsPerTrigger` bounds it.
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
_ADDRESS: Final = "://"
_NOTHING_THERE: Final = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
TIDY_EVERY: Final = 200
KEPT_H: Final = 24
QUERY_ID: Final = "sql.streaming.queryId"


class TableMissing(LocalError):
    """A table that is to be read does not exist."""

    def __init__(self, table: Table, place: str) -> None:
        super().__init__(f"{table}: there is none at {place}")
        self.table = table


def location(table: Table, folder: str) -> str:
    """Where a table lies: an address or an absolute path as it is, a name below the folder of tables."""
    if _ADDRESS in table.name or Path(table.name).is_absolute():
        return table.name
    return f"{folder.rstrip('/')}/{table.name}"


def read(spark: SparkSession, table: Table, folder: str) -> DataFrame:
    """The table as it is now; the files of a Delta table are parquet, and its log tells which and of what columns."""
    place = location(table, folder)
    if table.format == "parquet":
        return _read_parquet(spark, table, place)
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(place):
        raise TableMissing(table, place)
    known = DeltaTable(place)
    schema = _columns(known.schema())
    files = known.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    # Columns by which a table is partitioned are in the names of its folders, below this one.
    return spark.read.schema(schema).option("basePath", place).parquet(*files)


def _read_parquet(spark: SparkSession, table: Table, place: str) -> DataFrame:
    from pyspark.errors import AnalysisException

    try:
        return spark.read.parquet(place)
    except AnalysisException as error:
        if error.getCondition() not in _NOTHING_THERE:
            raise
        raise TableMissing(table, place) from error


def write(frame: DataFrame, flow: Flow, table: Table, folder: str) -> DataStreamWriter:
    """What writes the frame to the table."""
    place = location(table, folder)
    if table.format == "parquet":
        writer = frame.writeStream.format("parquet").option("path", place)
        return writer.partitionBy(*table.partition_by) if table.partition_by else writer
    if missing := [
        key for key in (*table.keys, *table.latest, *table.partition_by) if key not in frame.columns
    ]:
        raise LocalError(f"flow {flow.name}, {table}: there is no column {', '.join(missing)}")
    _check_known(table, place, frame.schema)
    return frame.writeStream.foreachBatch(delta_batch(place, table))


def _check_known(table: Table, place: str, given: StructType) -> None:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    known = None
    with suppress(DeltaError, OSError):  # a place that can't be reached may be there for the first batch
        known = DeltaTable(place) if DeltaTable.is_deltatable(place) else None
    if known is not None:
        check_columns(table, _columns(known.schema()), given)


def check_columns(table: Table, known: StructType, given: StructType) -> None:
    """Refuses columns that the table lacks, which a merge would leave out without a word, and those that an added row
    would lack. Types are not looked at: values are cast if they can be.
    """
    there, written = set(known.names), set(given.names)
    if written - there or (there - written and not table.keys):
        raise LocalError(
            f"{table} has the columns {_listed(known)}, and the flow writes {_listed(given)}: make them the same, or "
            "write another table"
        )


def _listed(columns: StructType) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in columns.fields)


def _columns(schema: Schema) -> StructType:
    """Delta writes types as Spark does."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(schema.to_json()))


def delta_batch(place: str, table: Table) -> Callable[[DataFrame, int], None]:
    """The function that commits one batch, under the id that the query keeps in its checkpoint."""

    def commit(batch: DataFrame, number: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        if query is None:
            raise LocalError(f"{table}: Spark does not tell which query a batch is of")
        append_delta(place, table, batch.toArrow(), query, number)
        if number % TIDY_EVERY == TIDY_EVERY - 1:
            tidy(place)

    return commit


def append_delta(place: str, table: Table, rows: pa.Table, query: str, number: int) -> bool:
    """Commits a batch unless the table has it already; whether it did."""
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction

    known = DeltaTable(place) if DeltaTable.is_deltatable(place) else None
    if known is not None:
        done = known.transaction_version(query)
        if done is not None and done >= number:
            return False
        check_columns(table, _columns(known.schema()), _columns(Schema.from_arrow(rows.schema)))
    if table.keys:
        rows = newest(rows, table.keys, table.latest)
    properties: Any = CommitProperties(app_transactions=[Transaction(query, number)])
    try:
        _commit(place, table, known, rows, properties)
    except Exception as error:  # values that can't be cast are a plain one
        kind = "" if known is None else f" with the columns {_listed(_columns(known.schema()))}"
        raise LocalError(f"{table}{kind}: {error}") from error
    return True


def _commit(place: str, table: Table, known: DeltaTable | None, rows: pa.Table, properties: Any) -> None:
    from deltalake import write_deltalake

    if known is None or not table.keys:
        partitions = list(table.partition_by) or None
        write_deltalake(place, rows, mode="append", partition_by=partitions, commit_properties=properties)
        return
    same = " AND ".join(f"({_SOURCE}.`{key}` IS NOT DISTINCT FROM {_TARGET}.`{key}`)" for key in table.keys)
    merge = known.merge(rows, same, source_alias=_SOURCE, target_alias=_TARGET, commit_properties=properties)
    merge.when_matched_update_all(not_older(table.latest)).when_not_matched_insert_all().execute()


def tidy(place: str) -> None:
    """Joins small files, and deletes those that nobody needs any more. What fails can wait for the next time."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    with suppress(DeltaError, OSError):
        known = DeltaTable(place)
        known.optimize.compact()
        known.vacuum(KEPT_H, dry_run=False, enforce_retention_duration=False)


def newest(rows: pa.Table, keys: Sequence[str], latest: Sequence[str]) -> pa.Table:
    """One row for each key: the one with the greatest `latest`, of equal ones the last."""
    import pyarrow as pa

    place, known = "_place", "_known_{}"
    ranked = rows.select(list(dict.fromkeys([*keys, *latest])))
    for name in latest:  # Arrow would put nulls last, as if they were the newest
        ranked = ranked.append_column(known.format(name), rows[name].is_valid().cast(pa.int8()))
    ranked = ranked.append_column(place, pa.array(range(rows.num_rows), pa.int64()))
    order = [column for name in latest for column in (known.format(name), name)]
    ranked = ranked.sort_by([(column, "ascending") for column in (*order, place)])
    ranked = ranked.append_column("_rank", pa.array(range(rows.num_rows), pa.int64()))
    last = ranked.group_by(list(keys)).aggregate([("_rank", "max")])["_rank_max"]
    return rows.take(ranked[place].take(last))


def not_older(latest: Sequence[str]) -> str | None:
    """When a row of the batch may replace the one in the table: column by column, as tuples are compared."""
    if not latest:
        return None
    *heads, tail = ((f"{_SOURCE}.`{name}`", f"{_TARGET}.`{name}`") for name in latest)
    condition = f"({tail[1]} IS NULL OR {tail[0]} >= {tail[1]})"
    for new, old in reversed(heads):
        newer = f"{new} > {old} OR ({old} IS NULL AND {new} IS NOT NULL)"
        condition = f"({newer} OR (({new} IS NOT DISTINCT FROM {old}) AND {condition}))"
    return condition
