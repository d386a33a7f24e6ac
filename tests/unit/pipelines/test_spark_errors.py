"""Messages for errors of Spark."""

from __future__ import annotations

import pytest

from ottla.pipelines.spark_errors import PlanRejected, condition_of, error_message, is_final, location_of


class SparkError(Exception):
    """An error with a condition, as PySpark's are."""

    def __init__(self, text: str, condition: str | None) -> None:
        super().__init__(text)
        self._condition = condition

    def getCondition(self) -> str | None:
        return self._condition


def test_a_known_condition_gives_advice() -> None:
    error = SparkError("long text", "STREAMING_REAL_TIME_MODE.OUTPUT_MODE_NOT_SUPPORTED")
    assert 'mode="update"' in error_message(error)
    assert "STREAMING_REAL_TIME_MODE.OUTPUT_MODE_NOT_SUPPORTED" in error_message(error)


def test_a_condition_is_found_in_the_text_of_a_failed_query() -> None:
    error = SparkError("[STREAMING_REAL_TIME_MODE.SINK_NOT_SUPPORTED] The sink", "STREAM_FAILED")
    assert condition_of(error) == "STREAMING_REAL_TIME_MODE.SINK_NOT_SUPPORTED"
    assert "topics only" in error_message(error)


@pytest.mark.parametrize(
    "error",
    [
        SparkError("\n first \nsecond", None),
        SparkError("first", "ELSE"),
        SparkError("An error occurred while calling o7.start.\n: first", None),
    ],
)
def test_the_message_of_any_other_error_is_its_first_line(error: Exception) -> None:
    assert error_message(error) == "first"


FRAMES = """\
  File "worker.py", line 7, in call
    raise at_last
    ^^^^^^^^^^^^^
"""
IN_PYTHON = "[ANY] Failed to do it: Traceback (most recent call last):\n" + FRAMES
ENDS = [
    " SQLSTATE: 38000\n\tat org.apache.spark.Any(Any.scala:1)\nCaused by: Traceback (most recent call last):\nE: no",
    "\n=== Streaming Query ===\nIdentifier: q\nCurrent State: ACTIVE\n",
    "\nJVM stacktrace:\norg.apache.spark.Any: no\n",
    "",
]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("raised", "message"),
    [
        ("ottla.base.errors.LocalError: value is int: string", "value is int: string"),
        ("_internal.SchemaMismatchError: 2 vs 1", "SchemaMismatchError: 2 vs 1"),
        ("KeyError: 'word'", "KeyError: 'word'"),
        ("ValueError: two\nlines", "ValueError: two"),
        ("pyspark.errors.AnalysisException: [NO] such", "[NO] such"),
        ("ottla.base.errors.LocalError", "LocalError"),
        (f"KeyError: 'a'\n\nThe above:\n\n{IN_PYTHON}LookupError: b", "LookupError: b"),
    ],
)
def test_the_message_of_a_python_error_is_the_end_of_its_traceback(
    raised: str, message: str, end: str
) -> None:
    assert error_message(SparkError(f"{IN_PYTHON}{raised}\n{end}", "STREAM_FAILED")) == message


def test_the_message_of_a_truncated_traceback_is_its_first_line() -> None:
    assert (
        error_message(SparkError(IN_PYTHON, None))
        == "[ANY] Failed to do it: Traceback (most recent call last):"
    )


def test_the_message_of_an_error_without_text_is_its_class() -> None:
    assert error_message(KeyError()) == "KeyError"


def test_an_error_in_user_code_has_its_class_and_its_line() -> None:
    with pytest.raises(KeyError) as raised:
        _ = {}["word"]
    assert error_message(raised.value) == "KeyError: 'word'"
    assert location_of(raised.value, __file__).startswith(" (test_spark_errors.py, line ")
    assert location_of(raised.value, "elsewhere.py") == ""


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (PlanRejected("no"), True),
        (SparkError("[STREAMING_REAL_TIME_MODE.SINK_NOT_SUPPORTED] The sink", "STREAM_FAILED"), True),
        (SparkError("the broker is away", "STREAM_FAILED"), False),
        (ValueError("no"), False),
    ],
)
def test_a_rejected_plan_is_final(error: Exception, final: bool) -> None:
    assert is_final(error) is final
