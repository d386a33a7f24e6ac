"""The data source `ottla` for Spark, in Spark's Python Data Source API: reads and writes topics.

It takes the options of Spark's own Kafka connector and works on any Kafka cluster, through the protocol (`client.raw`)
alone. Spark finds it by the module `pyspark_ottla`; `register` registers it explicitly.

Importing this package chooses the Python of Spark's workers (`worker_python`). It is not imported with `ottla`: pyspark
and pyarrow are installed with the extra `spark`.
"""

from ottla.spark.register import register
from ottla.spark.worker_python import set_variables

__all__ = ["register"]

set_variables()
