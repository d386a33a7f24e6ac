"""Errors of Spark in our words."""

from __future__ import annotations

import pytest

from ottla.pipelines.refusals import condition_of, explained


class Told(Exception):
    """An error with a condition, as PySpark's are."""

    def __init__(self, text: str, condition: str | None) -> None:
        super().__init__(text)
        self._condition = condition

    def getCondition(self) -> str | None:
        return self._condition


def test_a_known_condition_gives_advice() -> None:
    error = Told("long story", "STREAMING_REAL_TIME_MODE.OUTPUT_MODE_NOT_SUPPORTED")
    assert 'mode="update"' in explained(error)
    assert "STREAMING_REAL_TIME_MODE.OUTPUT_MODE_NOT_SUPPORTED" in explained(error)


def test_a_condition_is_found_in_the_text_of_a_failed_query() -> None:
    error = Told("[STREAMING_REAL_TIME_MODE.SINK_NOT_SUPPORTED] The sink", "STREAM_FAILED")
    assert condition_of(error) == "STREAMING_REAL_TIME_MODE.SINK_NOT_SUPPORTED"
    assert "topics only" in explained(error)


@pytest.mark.parametrize(
    "error", [Told("\n first \nsecond", None), Told("first", "ELSE"), ValueError("first")]
)
def test_any_other_error_is_told_by_its_first_line(error: Exception) -> None:
    assert explained(error) == "first"


def test_an_error_without_words_has_a_name() -> None:
    assert explained(KeyError()) == "KeyError"
