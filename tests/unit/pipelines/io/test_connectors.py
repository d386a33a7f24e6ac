"""Topics as frames: which options a connector is given, without Spark."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from ottla.pipelines import topic
from ottla.pipelines.io.connectors import Connector

ISOLATION = "kafka.isolation.level"
WAIT = "kafka.fetch.max.wait.ms"


class Reader:
    """Fake session and reader; records its options."""

    def __init__(self) -> None:
        self.name = ""
        self.given: dict[str, str] = {}

    @property
    def readStream(self) -> Reader:
        return self

    def format(self, name: str) -> Reader:
        self.name = name
        return self

    def options(self, **given: str) -> Reader:
        self.given = given
        return self

    def load(self) -> Reader:
        return self


def options_of(connector: Connector, **declared: Any) -> dict[str, str]:
    reader: Any = Reader()
    connector.read(reader, topic("t", **declared), "pipeline.flow")
    assert reader.name == connector.name
    given: dict[str, str] = reader.given
    return given


@pytest.mark.parametrize("name", ["ottla", "kafka"])
def test_aborted_records_are_not_read(name: Literal["ottla", "kafka"]) -> None:
    assert options_of(Connector(name, "b:1"))[ISOLATION] == "read_committed"


def test_read_uncommitted_can_be_requested() -> None:
    everything = {ISOLATION: "read_uncommitted"}
    assert options_of(Connector("ottla", "b:1", everything))[ISOLATION] == "read_uncommitted"
    assert options_of(Connector("ottla", "b:1"), options=everything)[ISOLATION] == "read_uncommitted"


def test_no_batch_of_sparks_own_connector_waits_for_a_fetch_of_the_one_before() -> None:
    assert options_of(Connector("kafka", "b:1"))[WAIT] == "5"
    assert options_of(Connector("kafka", "b:1", {WAIT: "100"}))[WAIT] == "100"
    assert options_of(Connector("kafka", "b:1"), options={WAIT: "100"})[WAIT] == "100"
    assert WAIT not in options_of(Connector("kafka", "b:1", realtime=True))
    assert WAIT not in options_of(Connector("ottla", "b:1"))


def test_progress_is_shown_as_a_group_by_our_connector_only() -> None:
    assert options_of(Connector("ottla", "b:1"))["kafka.group.id"] == "pipeline.flow"
    assert "kafka.group.id" not in options_of(Connector("kafka", "b:1"))
