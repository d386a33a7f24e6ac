"""Spark's refusals in our words: what a user of a pipeline can do about them. Pure.

An error of Spark has a condition, a name of capitals and dots; for those that a pipeline can run into by its
declaration there is a sentence here, and such an error is final: the same plan would be refused for ever. Any other
error is told by its first line, or, when it tells of an error in Python, by what that traceback ends with.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Final

from ottla.base.errors import LocalError

_CALLING: Final = "An error occurred while calling"
"""How the bridge to Java begins; what Java says is in the next line."""
_TRACEBACK: Final = "Traceback (most recent call last):"
_JAVAS_PART: Final = re.compile(r"^(?:\s+at |JVM stacktrace:|=== Streaming Query ===)", re.MULTILINE)
"""What follows Python's traceback: Java's, and what Spark says about the query."""
_RAISED: Final = re.compile(r"^(?P<module>[\w.]*?)(?P<name>\w+)(?:: (?P<words>.*))?$", re.MULTILINE)
_PLAIN: Final = ("ottla.", "pyspark.")
"""Whose errors are told in their own words: the name of their class would say nothing more."""
_REALTIME: Final = "STREAMING_REAL_TIME_MODE."
_WORDS: Final = {
    f"{_REALTIME}OUTPUT_MODE_NOT_SUPPORTED": (
        'real-time mode writes changes as they happen, so the flow must be declared with mode="update"'
    ),
    f"{_REALTIME}SINK_NOT_SUPPORTED": "real-time mode writes to topics only; run flows into tables without --realtime",
    f"{_REALTIME}INPUT_STREAM_NOT_SUPPORTED": (
        "real-time mode reads through Spark's own connector only: run it with --connector kafka"
    ),
    f"{_REALTIME}OPERATOR_OR_SINK_NOT_IN_ALLOWLIST": (
        "the flow does something that real-time mode is not known to get right (joins of streams, sorting, "
        "limits, functions over groups); run it without --realtime"
    ),
    f"{_REALTIME}CHECKPOINT_FORMAT_V1_NOT_SUPPORTED": (
        "the checkpoint was begun with state in an older form, which real-time mode refuses: begin a new one "
        "with another --state"
    ),
    f"{_REALTIME}IDENTICAL_SOURCES_IN_UNION_NOT_SUPPORTED": (
        "real-time mode can't unite a topic with itself: read the topic once"
    ),
    f"{_REALTIME}STATEFUL_OPERATORS_BEFORE_UNION_NOT_SUPPORTED": (
        "real-time mode needs the union before what keeps state: unite the topics first, aggregate afterwards"
    ),
    f"{_REALTIME}SQL_CONFIGURATION_NOT_SUPPORTED": "a setting given with --conf is not possible in real-time mode",
    "INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL": (
        "batches of real-time mode are at least as long as spark.sql.streaming.realTimeMode.minBatchDuration"
    ),
}


class PlanRefused(LocalError):
    """A flow can't be run as it is declared: trying again would not help."""


def is_final(error: BaseException) -> bool:
    """Whether a query that ended with this error would end with it again."""
    return isinstance(error, PlanRefused) or condition_of(error) in _WORDS


def error_message(error: BaseException) -> str:
    """One line about the error, with our advice where we have some."""
    condition = condition_of(error)
    advice = _WORDS.get(condition or "")
    if advice:
        return f"{advice} ({condition})"
    return raised(str(error)) or _first_line(error)


def raised(text: str) -> str | None:
    """What the last of Python's tracebacks in the text ends with; None if there is none."""
    told = _JAVAS_PART.split(text, maxsplit=1)[0].rpartition(_TRACEBACK)[2]
    found = _RAISED.search(told) if _TRACEBACK in text else None
    if found is None:
        return None
    name, words = found["name"], found["words"]
    if not words:
        return name
    return words if found["module"].startswith(_PLAIN) else f"{name}: {words}"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(_CALLING):
        del lines[0]
    if not lines:
        return type(error).__name__
    first = lines[0].removeprefix(": ")
    # "'word'" alone would not tell that a key is missing.
    return f"{type(error).__name__}: {first}" if type(error).__module__ == "builtins" else first


def line_of(error: BaseException, file: str) -> int | None:
    """The last line of that file on the way to the error; None if it was not on the way.

    What happened in another process is known by its text only.
    """
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == file]
    lines = lines or re.findall(rf'^  File "{re.escape(file)}", line (\d+)', str(error), re.MULTILINE)
    return int(lines[-1]) if lines else None


def location_of(error: BaseException, file: str) -> str:
    """The same in brackets, with the file's name; nothing if it was not on the way."""
    line = line_of(error, file)
    return f" ({Path(file).name}, line {line})" if line is not None else ""


def condition_of(error: BaseException) -> str | None:
    """The name Spark gives to an error; that of a failed query is in its text."""
    ask = getattr(error, "getCondition", None)
    found = ask() if callable(ask) else None
    if isinstance(found, str) and found in _WORDS:
        return found
    text = str(error)
    return next((name for name in _WORDS if f"[{name}]" in text), found if isinstance(found, str) else None)
