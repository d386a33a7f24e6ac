"""The scoreboard in Spark Declarative Pipelines, for triggered runs, with the functions of the live pipeline.

`match_events` contains all events, `scoreboard` is computed from them in each run, and complete minutes are written to
the topic `closed-minutes`, each once.
"""

import os
from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.scoreboard import pipeline as board
from ottla.scoreboard.match import EVENT_DDL

spark: Any = SparkSession.active()
SERVERS = {"kafka.bootstrap.servers": os.environ.get("BOOTSTRAP", "127.0.0.1:9092")}


def events() -> DataFrame:
    return (
        spark.readStream.format("ottla")
        .options(**SERVERS, subscribe="matches", startingOffsets="earliest")
        .options(valueFormat="json", valueSchema=EVENT_DDL)
        .load()
    )


@dp.table
def match_events() -> DataFrame:
    return events()


@dp.materialized_view
def scoreboard() -> DataFrame:
    return board.standings_of(board.valid(spark.read.table("match_events")))


dp.create_sink("closed_minutes", "ottla", {**SERVERS, "topic": "closed-minutes"})


@dp.append_flow(target="closed_minutes")
def closed_minutes() -> DataFrame:
    minutes = board.statistics(events())
    return minutes.select(F.col("window").alias("key"), F.to_json(F.struct("*")).alias("value"))
