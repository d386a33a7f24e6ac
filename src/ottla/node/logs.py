"""The process's log: structlog, one line for each event, to standard error.

structlog loads rich for tracebacks in colour if it finds it, which would cost a broker a tenth of a second and
several megabytes at its start; so rich is hidden from it while it is imported.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


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
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    return cast("FilteringBoundLogger", structlog.get_logger("ottla"))
