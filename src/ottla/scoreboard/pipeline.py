"""The scoreboard pipeline: from match events to the state of each match, statistics per minute, and a table.

    ottla pipelines run ottla.scoreboard.pipeline

| flow | reads | writes |
|---|---|---|
| scoreboard | topic matches | topic scoreboard (compacted): score, quarter, fouls, last event of each match |
| statistics | topic matches | topic statistics (compacted): points, fouls and more of each match and minute |
| table | topic scoreboard | Delta table scoreboard: one row for each match |

The rules are those of `standings`, for any order of arrival and any number of duplicates: built-in aggregates that
depend only on the set of events. The newest event is `max_by` event time; fouls and figures are computed from sets of
numbered events, which a duplicate does not change. That needs one state store per flow, where removing duplicates first
would need two, and a duplicate can be arbitrarily late.

The state is bounded: a match is removed from it one day after its tip-off, measured by the newest tip-off, and a minute
is removed when events are two minutes newer. An event from the future would therefore remove all other matches: one
whose tip-off or time is minutes ahead of the timestamp of its record is caused by a wrong clock and is dropped. The
number of dropped events is observed as `LEFT_OUT` with each batch.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from msgspec.structs import fields
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ottla.pipelines import LEFT_OUT, Pipeline, table, topic
from ottla.scoreboard.match import EVENT_DDL, MatchEvent
from ottla.scoreboard.standings import AHEAD_MS_MAX, LATE_MS_MAX, WINDOW_MS

STANDING_DDL = (
    "match STRING, started_ms BIGINT, home_points INT, away_points INT, quarter INT, clock STRING, home_fouls INT, "
    "away_fouls INT, last_event STRING, last_event_ms BIGINT, number INT, ended BOOLEAN"
)
_STANDING = [column.split()[0] for column in STANDING_DDL.split(", ")]
PARTITIONS = 3
COMPACTED = {"cleanup.policy": "compact"}
MATCHES = topic("matches", schema=EVENT_DDL, partitions=PARTITIONS)
SCOREBOARD = topic("scoreboard", key="match", partitions=PARTITIONS, config=COMPACTED)
STATISTICS = topic("statistics", key="window", partitions=PARTITIONS, config=COMPACTED)

pipeline = Pipeline("scoreboard")


@pipeline.flow(reads=MATCHES, writes=SCOREBOARD, mode="update")
def scoreboard(events: DataFrame) -> DataFrame:
    """The state of each match after its newest event."""
    return standings_of(valid(counted(events)).withWatermark("started", "1 day"))


@pipeline.flow(reads=MATCHES, writes=STATISTICS, mode="update", every="1 second")
def statistics(events: DataFrame) -> DataFrame:
    """The figures of each match for each minute."""
    happened = F.collect_set(F.struct("number", "kind", "side", known("points")))
    minutes = (
        valid(counted(events))
        .withColumn("time", F.timestamp_millis("time_ms"))
        .withWatermark("time", f"{LATE_MS_MAX} milliseconds")
        .groupBy("match", "started", F.window("time", f"{WINDOW_MS} milliseconds").alias("minute"))
        .agg(happened.alias("happened"))
    )
    started_ms, start_ms = F.unix_millis("started"), F.unix_millis("minute.start")
    return minutes.select(
        F.concat_ws("@", "match", started_ms, start_ms).alias("window"),
        "match",
        started_ms.alias("started_ms"),
        start_ms.alias("window_start_ms"),
        F.unix_millis("minute.end").alias("window_end_ms"),
        F.size("happened").alias("events"),
        points_of("home").alias("home_points"),
        points_of("away").alias("away_points"),
        count_of("foul").alias("fouls"),
        count_of("free throw").alias("free_throws"),
    )


@pipeline.flow(
    reads=topic("scoreboard", schema=STANDING_DDL),
    writes=table(
        "scoreboard", format="delta", keys=["match"], latest=["started_ms", "last_event_ms", "number"]
    ),
    every="2 seconds",
    name="table",
)
def rows(standings: DataFrame) -> DataFrame:
    """The scoreboard as a table, for queries; values that are not standings are skipped."""
    return standings.where("_corrupt IS NULL AND match IS NOT NULL").select(*_STANDING)


def standings_of(events: DataFrame) -> DataFrame:
    """One row for each match, from a stream or from a table."""
    newest = F.max_by(
        F.struct(
            known("home_points"),
            known("away_points"),
            "quarter",
            "clock",
            F.col("event").alias("last_event"),
            F.col("time_ms").alias("last_event_ms"),
            "number",
            (F.col("kind") == "match end").alias("ended"),
        ),
        F.struct("time_ms", "number"),
    )
    fouls = [fouls_of(side).alias(f"{side}_fouls") for side in ("home", "away")]
    matches = events.groupBy("match", "started").agg(newest.alias("newest"), *fouls)
    started_ms = F.unix_millis("started").alias("started_ms")
    return matches.select("match", started_ms, "newest.*", "home_fouls", "away_fouls").select(*_STANDING)


def valid(events: DataFrame) -> DataFrame:
    """The valid events, with their tip-off as a timestamp."""
    # Not `withColumn`: Spark Connect would resolve the table at once, and declarative pipelines need the dependency.
    return events.where(is_valid()).select("*", F.timestamp_millis("started_ms").alias("started"))


def counted(events: DataFrame) -> DataFrame:
    """The same events; Spark counts those that `valid` will drop."""
    return events.observe(LEFT_OUT, F.count_if(~is_valid()).alias(LEFT_OUT))


def is_valid() -> Column:
    """Whether an event has all required fields and is not ahead of its record."""
    whole = [F.col(field.name).isNotNull() for field in fields(MatchEvent) if field.required]
    newest_ms = F.unix_millis("timestamp") + AHEAD_MS_MAX
    in_time = [F.col(name) <= newest_ms for name in ("started_ms", "time_ms")]
    return F.coalesce(reduce(and_, [*whole, *in_time]), F.lit(False))


def known(points: str) -> Column:
    """Zero if an event has no points, as in `MatchEvent`."""
    return F.coalesce(F.col(points), F.lit(0)).alias(points)


def fouls_of(side: str) -> Column:
    return F.size(F.collect_set(F.when((F.col("kind") == "foul") & (F.col("side") == side), F.col("number"))))


def points_of(side: str) -> Column:
    def add(total: Column, event: Column) -> Column:
        return total + F.when(event["side"] == side, event["points"]).otherwise(0)

    return F.aggregate("happened", F.lit(0), add)


def count_of(kind: str) -> Column:
    return F.size(F.filter("happened", lambda event: event["kind"] == kind))
