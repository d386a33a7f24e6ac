"""What Spark tells about its queries while they run, from its thread to the runner's.

A batch that was done is told with all its figures; that a query looked and found nothing is told by its id alone. Both
wait in a queue until the runner takes them.
"""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Report(NamedTuple):
    """Of a query: the figures of a batch, or None when it had nothing to do."""

    query: str
    """Its id, which its checkpoint keeps."""
    batch: Mapping[str, Any] | None


class QueryReports:
    """A queue that Spark's listener fills. Any thread may add, one takes."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Report] = queue.SimpleQueue()

    def add(self, report: Report) -> None:
        self._waiting.put(report)

    def take(self) -> Iterator[Report]:
        """Those that are there."""
        while True:
            try:
                yield self._waiting.get_nowait()
            except queue.Empty:
                return

    def listener(self) -> Any:
        """For `spark.streams.addListener`."""
        from pyspark.sql.streaming.listener import StreamingQueryListener

        reports = self

        class Listener(StreamingQueryListener):
            def onQueryStarted(self, event: Any) -> None:
                pass

            def onQueryProgress(self, event: Any) -> None:
                told = json.loads(event.progress.json)
                reports.add(Report(told["id"], told))

            def onQueryIdle(self, event: Any) -> None:
                reports.add(Report(str(event.id), None))

            def onQueryTerminated(self, event: Any) -> None:
                pass

        return Listener()
