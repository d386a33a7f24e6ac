"""Logging of the process: structlog, one line per event, to standard error.

On a terminal a line is written for readers: time, level, text, values. Otherwise it consists of key=value entries,
which programs can parse. `OTTLA_LOG_FORMAT` selects text, keyvalue or json (`ottla broker --log-format`). Values are
escaped in all formats, so that an event stays one line and cannot control a terminal.

structlog imports rich, if it is installed, for coloured tracebacks, and greenlet for thread-local contexts. A broker
uses neither. They would take a tenth of a second and several megabytes of each broker, so they are hidden while
structlog is imported.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger, Processor


TEXT, KEY_VALUE, JSON = FORMATS = ("text", "keyvalue", "json")
VARIABLE = "OTTLA_LOG_FORMAT"
_COLOURS = MappingProxyType({"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"})
_PLAIN = "\x1b[0m"
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


def choose_format(wanted: str | None, *, on_terminal: bool) -> str:
    """The format of the log. An unknown name is ignored: a log must not stop a broker."""
    if wanted in FORMATS:
        return wanted
    return TEXT if on_terminal else KEY_VALUE


def _render_text(colours: bool, _: object, __: str, event: MutableMapping[str, Any]) -> str:
    """A line for readers; a traceback follows on lines of its own."""
    time = str(event.pop("timestamp", ""))[11:19]
    level = str(event.pop("level", ""))
    text = _printable(str(event.pop("event", "")))
    traceback = event.pop("exception", None)
    values = " ".join(f"{name}={_plain(value)}" for name, value in event.items())
    colour = _COLOURS.get(level, "") if colours else ""
    line = f"{time} {colour}{level:<8}{_PLAIN if colour else ''} {text}{'  ' if values else ''}{values}"
    return "\n".join([line, *map(_printable, str(traceback or "").splitlines())])


def _plain(value: object) -> str:
    """A value as it is if it is simple, else as Python writes it."""
    text = str(value) if isinstance(value, str | int | float) else repr(value)
    return text if text and text.isprintable() and " " not in text else repr(text)


def _printable(text: str) -> str:
    return text if text.isprintable() else repr(text)


def configure_logs() -> FilteringBoundLogger:
    """Configure structlog for this process and return the logger of the node."""
    hidden = [name for name in _UNUSED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        import structlog
    finally:
        for name in hidden:
            del sys.modules[name]
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    chosen = choose_format(os.environ.get(VARIABLE), on_terminal=on_terminal)
    renderer: Processor
    if chosen == JSON:
        renderer = structlog.processors.JSONRenderer(default=repr)
    elif chosen == TEXT:
        renderer = partial(_render_text, on_terminal and "NO_COLOR" not in os.environ)
    else:
        renderer = structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"])
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _shorten,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", ForgivingStream(sys.stderr))),
        # A cached logger ignores a later configuration: a simulation in the same process would miss its events.
        cache_logger_on_first_use=False,
    )
    return cast("FilteringBoundLogger", structlog.get_logger("ottla"))
