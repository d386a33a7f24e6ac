"""Events of a match as records: what is written is read back, and what names mean."""

from __future__ import annotations

import json

import msgspec
import pytest

from ottla.scoreboard.match import EVENT_DDL, MatchEvent, decode, encode, quarter_name, teams

SCORE = MatchEvent(
    match="Canada vs USA",
    started_ms=1_000,
    number=7,
    time_ms=61_000,
    quarter=3,
    clock="04:12",
    kind="score",
    event="Score 39-46",
    side="home",
    player=12,
    points=2,
    home_points=39,
    away_points=46,
)


def test_an_event_is_decoded_as_it_was_encoded() -> None:
    assert decode(encode(SCORE)) == SCORE


def test_the_schema_for_spark_has_every_field_in_order() -> None:
    assert [column.split()[0] for column in EVENT_DDL.split(", ")] == list(json.loads(encode(SCORE)))


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(b'{"match": 1}')


def test_a_match_names_its_teams() -> None:
    assert teams("Canada vs USA") == ("Canada", "USA")


@pytest.mark.parametrize(("quarter", "name"), [(1, "Q1"), (4, "Q4"), (5, "OT1"), (6, "OT2")])
def test_overtimes_are_quarters_with_a_name(quarter: int, name: str) -> None:
    assert quarter_name(quarter) == name
