"""Logger for modules that Spark's worker processes import: it imports structlog when the first line is written.

The import of structlog takes longer than that of the rest of the client, and a pipeline starts several workers before
its first batch.
"""

from __future__ import annotations


class LazyLogger:
    """The two methods of a structlog logger that are used."""

    def info(self, event: str, **values: object) -> None:
        import structlog

        structlog.get_logger().info(event, **values)

    def warning(self, event: str, **values: object) -> None:
        import structlog

        structlog.get_logger().warning(event, **values)
