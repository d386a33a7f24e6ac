"""Registering the data source by hand, for sessions that do not look for `pyspark_*` modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.spark.api import check_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Makes `format("ottla")` known to this session."""
    check_version()
    from ottla.spark.source import OttlaDataSource

    spark.dataSource.register(OttlaDataSource)
