"""Explicit registration of the data source, for sessions in which Spark has not found it.

Spark looks for `pyspark_*` modules once per session, in a Python process that has to respond within seconds. If the
process is too slow on a busy machine, the session has no data source `ottla`; Spark reports that in its log only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.spark.version import check_version
from ottla.spark.worker_python import check_local_session, set_for_local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register `format("ottla")` in this session, and make the session the active one of a thread without one.

    `writeStream` looks for a data source in the active session of its thread. A thread that Python code has started
    has none.
    """
    check_version()
    from ottla.spark.data_source import OttlaDataSource

    set_for_local_session()
    check_local_session()
    spark.dataSource.register(OttlaDataSource)
    if spark.getActiveSession() is None:
        spark.createDataFrame([], "nothing INT")  # makes the session the active one of this thread
