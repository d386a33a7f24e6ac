"""Logging of the process: structlog, one line per event, to standard error.

structlog imports rich, if it is installed, for coloured tracebacks, and greenlet for thread-local contexts. A broker
uses neither. They would take a tenth of a second and several megabytes of each broker, so they are hidden while
structlog is imported.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


# Some values are sent by clients, so their length in a log line is limited.
_VALUE_CHARS_MAX = 1000
_UNUSED = ("rich", "greenlet")


class ForgivingStream:
    """Standard error without errors: a log that cannot be written must not stop a broker.

    The disk may be full, or the process that read a pipe may have ended.
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
    """Shorten long values. The renderer escapes line breaks, so that an event stays one line."""
    for name, value in event.items():
        if isinstance(value, str) and len(value) > _VALUE_CHARS_MAX and name != "exception":
            event[name] = f"{value[:_VALUE_CHARS_MAX]}... ({len(value)} characters)"
    return event


def configure_logs() -> FilteringBoundLogger:
    """Configure structlog for this process and return the logger of the node."""
    hidden = [name for name in _UNUSED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        import structlog
    finally:
        for name in hidden:
            del sys.modules[name]
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
        # A cached logger ignores a later configuration: a simulation in the same process would miss its events.
        cache_logger_on_first_use=False,
    )
    return cast("FilteringBoundLogger", structlog.get_logger("ottla"))
