"""Messages for Spark's errors, with what the user of a pipeline can do about them. Pure.

An error of Spark has a condition, such as `STREAMING_REAL_TIME_MODE.SINK_NOT_SUPPORTED`. Conditions that are caused by
the declaration of a pipeline have a message here. Such an error is final: Spark would reject the same plan again. Any
other error is reported by its first line, or, if it contains a Python traceback, by the last line of that.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Final

from ottla.base.errors import LocalError

_CALLING: Final = "An error occurred while calling"
"""The beginning of a Py4J error; Java's message is in the next line."""
_TRACEBACK: Final = "Traceback (most recent call last):"
_JAVAS_PART: Final = re.compile(r"^(?:\s+at |JVM stacktrace:|=== Streaming Query ===)", re.MULTILINE)
"""The text after a Python traceback: Java's stack trace, and Spark's description of the query."""
_RAISED: Final = re.compile(r"^(?P<module>[\w.]*?)(?P<name>\w+)(?:: (?P<message>.*))?$", re.MULTILINE)
_PLAIN: Final = ("ottla.", "pyspark.")
"""Modules whose errors are reported without the name of their class."""
_REALTIME: Final = "STREAMING_REAL_TIME_MODE."
_MESSAGES: Final = {
    f"{_REALTIME}OUTPUT_MODE_NOT_SUPPORTED": (
        'real-time mode writes each change immediately: declare the flow with mode="update"'
    ),
    f"{_REALTIME}SINK_NOT_SUPPORTED": "real-time mode writes to topics only; run flows into tables without --realtime",
    f"{_REALTIME}INPUT_STREAM_NOT_SUPPORTED": (
        "real-time mode reads with Spark's Kafka connector only: run it with --connector kafka"
    ),
    f"{_REALTIME}OPERATOR_OR_SINK_NOT_IN_ALLOWLIST": (
        "real-time mode does not support an operation of the flow (joins of streams, sorting, limits, functions over "
        "groups); run it without --realtime"
    ),
    f"{_REALTIME}CHECKPOINT_FORMAT_V1_NOT_SUPPORTED": (
        "the checkpoint has its state in an older format, which real-time mode does not support; start a new "
        "checkpoint with another --state"
    ),
    f"{_REALTIME}IDENTICAL_SOURCES_IN_UNION_NOT_SUPPORTED": (
        "real-time mode does not support the union of a topic with itself: read the topic once"
    ),
    f"{_REALTIME}STATEFUL_OPERATORS_BEFORE_UNION_NOT_SUPPORTED": (
        "real-time mode does not support a union after an operation with state: unite the topics first, then aggregate"
    ),
    f"{_REALTIME}SQL_CONFIGURATION_NOT_SUPPORTED": "real-time mode does not support a setting given with --conf",
    "INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL": (
        "the batch duration of real-time mode must be at least spark.sql.streaming.realTimeMode.minBatchDuration"
    ),
}


class PlanRejected(LocalError):
    """A flow cannot be run as it is declared; a retry would fail again."""


def is_final(error: BaseException) -> bool:
    """Whether a query that ended with this error would end with it again."""
    return isinstance(error, PlanRejected) or condition_of(error) in _MESSAGES


def error_message(error: BaseException) -> str:
    """The error in one line, with advice if there is any."""
    condition = condition_of(error)
    known = _MESSAGES.get(condition or "")
    if known:
        return f"{known} ({condition})"
    return raised_error(str(error)) or _first_line(error)


def raised_error(text: str) -> str | None:
    """The error at the end of the last Python traceback in the text; None if there is no traceback."""
    part = _JAVAS_PART.split(text, maxsplit=1)[0].rpartition(_TRACEBACK)[2]
    found = _RAISED.search(part) if _TRACEBACK in text else None
    if found is None:
        return None
    name, message = found["name"], found["message"]
    if not message:
        return name
    return message if found["module"].startswith(_PLAIN) else f"{name}: {message}"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(_CALLING):
        del lines[0]
    if not lines:
        return type(error).__name__
    first = lines[0].removeprefix(": ")
    # The text of a KeyError is the key alone.
    return f"{type(error).__name__}: {first}" if type(error).__module__ == "builtins" else first


def line_of(error: BaseException, file: str) -> int | None:
    """The last line of the file in the traceback; None if the file is not in it.

    The traceback of an error in another process is in the text of the error.
    """
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == file]
    lines = lines or re.findall(rf'^  File "{re.escape(file)}", line (\d+)', str(error), re.MULTILINE)
    return int(lines[-1]) if lines else None


def location_of(error: BaseException, file: str) -> str:
    """The name of the file and the line in parentheses; empty if the file is not in the traceback."""
    line = line_of(error, file)
    return f" ({Path(file).name}, line {line})" if line is not None else ""


def condition_of(error: BaseException) -> str | None:
    """Spark's condition of an error; for a failed query it is taken from the text."""
    get_condition = getattr(error, "getCondition", None)
    found = get_condition() if callable(get_condition) else None
    if isinstance(found, str) and found in _MESSAGES:
        return found
    text = str(error)
    return next(
        (name for name in _MESSAGES if f"[{name}]" in text), found if isinstance(found, str) else None
    )
