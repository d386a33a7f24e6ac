"""The time zone of the session: option, setting of the session, default of the driver."""

from __future__ import annotations

import pytest

from ottla.base.errors import LocalError
from ottla.spark.source import session_zone as module
from ottla.spark.source.session_zone import ZoneUnknown, session_zone, zone_name
from ottla.spark.values.times import Zone


def test_the_option_takes_precedence() -> None:
    assert session_zone("+01:00") == Zone(3600)
    with pytest.raises(LocalError, match="timeZone: the time zone 'Mars' is unknown"):
        session_zone("Mars")


def test_outside_of_a_task_the_zone_is_unknown() -> None:
    with pytest.raises(ZoneUnknown):
        session_zone(None)


def test_the_setting_then_javas_option_then_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    java = {"spark.driver.extraJavaOptions": "-Xmx1g -Duser.timezone=Asia/Tokyo -Da=b"}
    assert zone_name({"spark.sql.session.timeZone": "Europe/Paris", **java}) == "Europe/Paris"
    assert zone_name(java) == "Asia/Tokyo"
    monkeypatch.setattr(module, "machine_zone", lambda: "America/Lima")
    assert zone_name({}) == "America/Lima"
