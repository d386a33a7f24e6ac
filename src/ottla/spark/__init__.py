"""Spark reads and writes topics: the data source `ottla`, in Spark's Python Data Source API.

It takes the options of Spark's own Kafka connector and works on any Kafka cluster, which it knows only through
the protocol (`client.raw`). Spark finds it by the module `pyspark_ottla`; `register` does it by hand.

Nothing here is imported with `ottla`: pyspark and pyarrow come with the extra `spark`.
"""

from ottla.spark.register import register

__all__ = ["register"]
