"""The scoreboard: events of matches become the state of every match, its history by minute, and a table.

    ottla pipelines run ottla.scoreboard.pipeline

| flow | reads | writes |
|---|---|---|
| scoreboard | topic matches | topic scoreboard (compacted): score, quarter, fouls, last event of each match |
| statistics | topic matches | topic statistics (compacted): points, fouls and more of each match and minute |
| table | topic scoreboard | Delta table scoreboard: one row for each match |

The rules are those of `standings`, for any order of arrival and any number of copies of an event: built-in aggregates
that depend on the set of events alone. The newest event is `max_by` event time; fouls and figures come from sets of
numbered events, which a copy does not change. That is one state store a flow, where removing duplicates first would
be two, and it holds however late a copy comes.

State does not grow for ever: a match leaves it a day after it began, by the clock of the newest tip-off, and a minute
leaves it when events are two minutes further. So an event from the future would close all other matches: one whose
tip-off or time lies minutes ahead of its record is a fault of the sender's clock and is left out. How many are left out
is told with each batch, under `LEFT_OUT`.
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
    return standings_of(sound(counted(events)).withWatermark("started", "1 day"))


@pipeline.flow(reads=MATCHES, writes=STATISTICS, mode="update", every="1 second")
def statistics(events: DataFrame) -> DataFrame:
    """What happened in each minute of each match."""
    happened = F.collect_set(F.struct("number", "kind", "side", known("points")))
    minutes = (
        sound(counted(events))
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
    """The scoreboard as a table, for whoever asks questions of it; what is no standing has no row."""
    return standings.where("_corrupt IS NULL AND match IS NOT NULL").select(*_STANDING)


def standings_of(events: DataFrame) -> DataFrame:
    """One row for each match, of a stream as of a table."""
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


def sound(events: DataFrame) -> DataFrame:
    """The events that can be used, with their tip-off as a timestamp."""
    # Not `withColumn`: Spark Connect looks a table up for it at once, and declared pipelines lose sight of its makers.
    return events.where(usable()).select("*", F.timestamp_millis("started_ms").alias("started"))


def counted(events: DataFrame) -> DataFrame:
    """The same events; Spark counts those that `sound` will leave out."""
    return events.observe(LEFT_OUT, F.count_if(~usable()).alias(LEFT_OUT))


def usable() -> Column:
    """Whether an event is whole, and not from the future of its record."""
    whole = [F.col(field.name).isNotNull() for field in fields(MatchEvent) if field.required]
    newest_ms = F.unix_millis("timestamp") + AHEAD_MS_MAX
    in_time = [F.col(name) <= newest_ms for name in ("started_ms", "time_ms")]
    return F.coalesce(reduce(and_, [*whole, *in_time]), F.lit(False))


def known(points: str) -> Column:
    """Points that an event does not tell are none, as they are for `MatchEvent`."""
    return F.coalesce(F.col(points), F.lit(0)).alias(points)


def fouls_of(side: str) -> Column:
    return F.size(F.collect_set(F.when((F.col("kind") == "foul") & (F.col("side") == side), F.col("number"))))


def points_of(side: str) -> Column:
    def add(total: Column, event: Column) -> Column:
        return total + F.when(event["side"] == side, event["points"]).otherwise(0)

    return F.aggregate("happened", F.lit(0), add)


def count_of(kind: str) -> Column:
    return F.size(F.filter("happened", lambda event: event["kind"] == kind))
