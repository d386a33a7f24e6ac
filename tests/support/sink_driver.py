"""A Spark driver in a process of its own, to be killed: copies lines to a topic until it is.

    python -m tests.support.sink_driver JSON

with the keys of `Settings`. A query that fails, because the broker is away for too long or a task was killed too often,
is started again, as a supervisor would.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.support.dying_sink import GROUP_OPTION, ORDERS_OPTION, DyingDataSource
from tests.support.sink_queries import copying


@dataclass(frozen=True)
class Settings:
    bootstrap: str
    topic: str
    lines: str
    checkpoint: str
    orders: str
    scratch: str
    master: str
    spark: dict[str, str]

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.support.sink_driver", json.dumps(asdict(self))]


def main(settings: Settings) -> None:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("sink").master(settings.master)
    for key, value in settings.spark.items():
        builder = builder.config(key, value)
    spark = builder.config("spark.local.dir", settings.scratch).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(DyingDataSource)
    options = {
        "format": "ottla_dying",
        ORDERS_OPTION: settings.orders,
        GROUP_OPTION: str(os.getpgid(0)),
        "kafka.default.api.timeout.ms": "20000",
    }
    while True:
        writer = copying(
            spark, Path(settings.lines), settings.bootstrap, settings.topic, settings.checkpoint, **options
        )
        try:
            writer.trigger(processingTime="50 milliseconds").start().awaitTermination()
        except StreamingQueryException:
            continue


if __name__ == "__main__":
    main(Settings(**json.loads(sys.argv[1])))
