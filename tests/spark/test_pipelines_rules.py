"""What flows are made of, without running one: the scoreboard's rules over a frame of events, plans, schemas."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import functions as F

from ottla.base.errors import LocalError
from ottla.pipelines import topic
from ottla.pipelines.io.connectors import Connector
from ottla.scoreboard.match import EVENT_DDL, decode
from ottla.scoreboard.standings import AHEAD_MS_MAX, Standing, Statistics, standings
from ottla.scoreboard.standings import statistics as figures_of


def event(number: int, **fields: Any) -> dict[str, Any]:
    required = {
        "match": "Canada vs USA",
        "started_ms": 0,
        "number": number,
        "time_ms": number * 1000,
        "quarter": 1,
    }
    return {**required, "clock": "09:00", "kind": "score", "event": "Score", "side": "home", **fields}


def test_the_rules_hold_for_events_that_leave_something_out(spark: Any) -> None:
    """Missing points count as none; an event without a required field, or with a time in the future, is dropped."""
    from ottla.scoreboard.pipeline import standings_of, statistics, valid

    sent = [event(1, points=2, home_points=2), event(2), event(3, points=3, side="away")]
    wrong = [
        {name: value for name, value in event(9).items() if name != gone} for gone in ("clock", "number")
    ]
    ahead_ms = AHEAD_MS_MAX + 120_000
    ahead = [event(8, time_ms=ahead_ms), event(8, started_ms=ahead_ms, time_ms=1)]
    arrived = datetime.fromtimestamp(60, UTC)
    rows = [(json.dumps(each), arrived) for each in [*sent, *wrong, *ahead]]
    events = (
        spark.createDataFrame(rows, "value STRING, timestamp TIMESTAMP")
        .select(F.from_json("value", EVENT_DDL).alias("event"), "timestamp")
        .select("event.*", "timestamp")
    )
    known = [decode(json.dumps(each).encode()) for each in sent]
    (shown,) = standings_of(valid(events)).collect()
    assert Standing(**shown.asDict()) == standings(known)["Canada vs USA", 0]
    (figures,) = statistics(events).drop("window").collect()
    assert Statistics(**figures.asDict()) == figures_of(known)["Canada vs USA", 0, 0]


def test_state_is_bounded_by_event_time(spark: Any, broker: Any) -> None:
    """Without the watermark a flow would keep every match and every minute for ever."""
    from ottla.scoreboard.pipeline import MATCHES, scoreboard, statistics

    events = Connector("ottla", broker.bootstrap).read(spark, MATCHES, "g")
    for flow, watermark in ((scoreboard, "started"), (statistics, "time")):
        plan = flow(events)._jdf.queryExecution().analyzed().toString()
        assert re.search(rf"EventTimeWatermark ([0-9a-f-]+, )?{watermark}#", plan)


def test_an_invalid_schema_is_reported_as_it_was_given(spark: Any) -> None:
    with pytest.raises(LocalError, match=r"^topic words: invalid schema 'word STRNG,, x': .*at or near ','"):
        Connector("ottla", "b:1").read(spark, topic("words", schema="word STRNG,, x"), "g")
