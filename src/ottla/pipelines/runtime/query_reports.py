"""Reports of Spark's listener about running queries, passed through a queue to the thread of the runner.

A report of a finished batch has Spark's progress. A report of a query that found no data has only the id.
"""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Report(NamedTuple):
    """The progress of a finished batch of a query, or None if there was no data."""

    query: str
    """The id of the query, from its checkpoint."""
    batch: Mapping[str, Any] | None


class QueryReports:
    """A queue between Spark's listener and the runner. Any thread may add, one thread takes."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Report] = queue.SimpleQueue()

    def add(self, report: Report) -> None:
        self._waiting.put(report)

    def take(self) -> Iterator[Report]:
        """All reports that are in the queue now."""
        while True:
            try:
                yield self._waiting.get_nowait()
            except queue.Empty:
                return

    def listener(self) -> Any:
        """The listener for `spark.streams.addListener`."""
        from pyspark.sql.streaming.listener import StreamingQueryListener

        reports = self

        class Listener(StreamingQueryListener):
            def onQueryStarted(self, event: Any) -> None:
                pass

            def onQueryProgress(self, event: Any) -> None:
                progress = json.loads(event.progress.json)
                reports.add(Report(progress["id"], progress))

            def onQueryIdle(self, event: Any) -> None:
                reports.add(Report(str(event.id), None))

            def onQueryTerminated(self, event: Any) -> None:
                pass

        return Listener()
