"""Write the archive of Spark's classes, which later starts of Java map into memory instead of loading jars.

Java writes the archive when it ends, with the classes that were used. So a small streaming query with state runs first.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.base.errors import LocalError
from ottla.pipelines import session
from ottla.pipelines.java.installation import archive_path, find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WRITING_S_MAX: Final = 300.0


def write_archive() -> tuple[Path, float]:
    """Write or replace the archive; return its path and its size in megabytes."""
    import pyspark

    path = archive_path(find_java(), pyspark.__version__)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    with tempfile.TemporaryDirectory(prefix="ottla-prepare-") as folder:
        settings = session.SessionSettings("prepare", Path(folder), "local[2]", archive=fresh)
        spark = session.start(settings)
        try:
            _use_classes(spark, folder)
        finally:
            session.stop(spark, WRITING_S_MAX)
    if not fresh.is_file():
        raise LocalError("Java did not write the archive of classes")
    fresh.replace(path)
    return path, path.stat().st_size / 1e6


def _use_classes(spark: SparkSession, folder: str) -> None:
    """Run one query with a source, state, JSON and `foreachBatch`, as pipelines have."""
    counted = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 10)
        .load()
        .selectExpr("value % 3 AS key", "to_json(struct(value)) AS text")
        .groupBy("key")
        .agg({"text": "max"})
    )
    query = (
        counted.writeStream.outputMode("update")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .foreachBatch(_collect)
        .start()
    )
    query.awaitTermination()


def _collect(batch: DataFrame, _: int) -> None:
    batch.toArrow()
