"""The process's log: structlog, one line for each event, to standard error.

structlog loads rich for tracebacks in colour if it finds it, which would cost a broker a tenth of a second and
several megabytes at its start; so rich is hidden from it while it is imported.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


# What a client says ends up in some lines: no line is longer than a few of these.
_VALUE_CHARS_MAX = 1000


class ForgivingStream:
    """Standard error, as long as there is one: a log that cannot be written must not stop a broker.

    The disk that the log goes to may be full, or whoever read it gone.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            if self._stream is not None:
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            if self._stream is not None:
                self._stream.flush()


def _shorten(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Cut long values; the renderer escapes what is left, so that an event stays one line."""
    for name, value in event.items():
        if isinstance(value, str) and len(value) > _VALUE_CHARS_MAX and name != "exception":
            event[name] = f"{value[:_VALUE_CHARS_MAX]}... ({len(value)} characters)"
    return event


def configure_logs() -> FilteringBoundLogger:
    """Set structlog up for this process; the logger of the node."""
    hidden = "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog
    finally:
        if hidden:
            del sys.modules["rich"]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _shorten,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", ForgivingStream(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    return cast("FilteringBoundLogger", structlog.get_logger("ottla"))
