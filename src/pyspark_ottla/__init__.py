"""Where Spark finds the data source `ottla` by itself: it looks into modules called `pyspark_*` for `DefaultSource`."""

from ottla.spark.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
