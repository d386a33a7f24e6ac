"""Where Spark finds the data source `ottla` by itself: it looks into modules called `pyspark_*` for `DefaultSource`."""

from ottla.spark.data_source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
