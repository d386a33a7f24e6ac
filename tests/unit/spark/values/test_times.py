"""Dates, timestamps and time zones in text, as Spark's casts read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark.values import times
from ottla.spark.values.times import UTC, Zone, machine_zone, parse_date, parse_timestamp, parse_zone

NOON = 1_704_196_800_000_000
"""2024-01-02 12:00 UTC."""


@pytest.mark.parametrize(
    ("text", "offset_s"),
    [
        ("Z", 0), ("UTC", 0), ("+1", 3600), ("-05:30", -19_800), ("+0100", 3600), ("GMT+1", 3600), ("UTC-2", -7200),
        ("EST", -18_000), ("+01:02:03", 3723), ("+18:00", 64_800), ("+1:30", 5400), ("+01:5", 3900),
    ],
)  # fmt: skip
def test_fixed_zones(text: str, offset_s: int) -> None:
    assert parse_zone(text) == Zone(offset_s)


def test_regions_and_abbreviations() -> None:
    for text, name in (("Europe/Berlin", "Europe/Berlin"), ("PST", "America/Los_Angeles")):
        zone = parse_zone(text)
        assert zone is not None
        assert zone.region is not None
        assert zone.region.key == name


@pytest.mark.parametrize(
    "text", ["", "z", "+19:00", "+18:01", "Mars/Base", "[Europe/Berlin]", "../etc", "+1:60"]
)
def test_unknown_zones(text: str) -> None:
    assert parse_zone(text) is None


def test_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TZ", ":America/New_York")
    assert machine_zone() == "America/New_York"
    monkeypatch.setenv("TZ", "Nowhere")
    assert machine_zone() == "UTC"
    monkeypatch.delenv("TZ")
    link = tmp_path / "localtime"
    link.symlink_to("/usr/share/zoneinfo/Asia/Tokyo")
    monkeypatch.setattr(times, "_SYSTEM_ZONE", link)
    assert machine_zone() in ("Asia/Tokyo", "UTC")  # UTC without the files of time zones
    monkeypatch.setattr(times, "_SYSTEM_ZONE", tmp_path / "missing")
    assert machine_zone() == "UTC"


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970-01-02", 1), ("1970", 0), ("1970-2", 31), (" 1970-01-02 x", 1), ("1970-01-02Tx", 1), ("5", 5),
        ("-5", -5), ("0000-01-01", -719_528), ("-2024-01-02", -1_458_778), ("12024-01-02", 3_672_149),
        ("2023-02-29", None), ("70-01-01", None), ("1970-01-02x", None), ("", None), ("99999999999", None),
    ],
)  # fmt: skip
def test_dates(text: str, days: int | None) -> None:
    assert parse_date(text) == days


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2024-01-02T12:00:00", NOON),
        ("2024-1-2 12:0:0", NOON),
        ("2024-01-02 12", NOON),
        ("2024-01-02T13:00:00+01:00", NOON),
        ("2024-01-02T13:00:00 Europe/Berlin", NOON),
        ("2024-01-02T13:00:00.5GMT+01:00", NOON + 500_000),
        ("2024-01-02T12:00:00.1234567", NOON + 123_456),
        ("2024-01-02T12:00:00.", NOON),
        ("2024-01-02T24:00:00", None),
        ("2024-01-02T12:00:60", None),
        ("2024-01-02T", None),
        ("2024-01-02t12:00:00", None),
        ("2024-01-02T12:00:00z", None),
        ("2024-01-02T12:00:00,5", None),
        ("300000-01-01", None),
        ("now", None),
    ],
)
def test_timestamps(text: str, micros: int | None) -> None:
    assert parse_timestamp(text, lambda: UTC) == micros


def test_a_time_alone_is_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "_today", lambda _: 19_724)
    for text in ("T12:00:00", "12:00", "12:00:00Z", "T12"):
        assert parse_timestamp(text, lambda: UTC) == NOON


def test_the_rules_of_a_zone_hold_for_all_years() -> None:
    zone = parse_zone("America/New_York")
    assert zone is not None
    summer, winter = (parse_timestamp(f"12000-{month}-01", lambda: UTC) or 0 for month in ("07", "01"))
    assert parse_timestamp("12000-07-01", lambda: zone) == summer + 4 * 3600 * times.MICROS
    assert parse_timestamp("12000-01-01", lambda: zone) == winter + 5 * 3600 * times.MICROS
