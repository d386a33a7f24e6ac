"""Registering the data source by hand, for sessions that did not look for `pyspark_*` modules, or looked in vain.

Spark looks once in a session, in a Python process that has to answer within seconds: where a busy machine keeps it
from that, the session goes on without the source, and says so only in its log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.spark.version import check_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Makes `format("ottla")` known to this session, and the session to this thread if that has none.

    The latter because `writeStream` looks for a source in the session of its thread: in one that Python code has
    started there is none.
    """
    check_version()
    from ottla.spark.data_source import OttlaDataSource

    spark.dataSource.register(OttlaDataSource)
    if spark.getActiveSession() is None:
        spark.createDataFrame([], "nothing INT")  # makes the session that of the thread
