"""The module in which Spark finds the data source `ottla`: it looks for `DefaultSource` in modules `pyspark_*`."""

from ottla.spark.data_source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
