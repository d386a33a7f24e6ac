"""Small batches go to Spark along with their plan, so that no task has to ask a Python process for them.

Spark does that for its simple readers (`SimpleDataSourceStreamReader`): what they have read is sent after the
partitions, the JVM keeps it as a block, and the task takes it from there. It asks whether a reader is one of them
whenever it has got a plan, and offers nothing of the kind to others; so ours says yes to that one question when it has
something to hand over. A task that does not find the block, or a version of Spark that does not ask, reads the range
as any other.

Handed over is what one answer of a broker can hold and one task would read anyway: several ranges are read by several
tasks at once, and stay so. What goes wrong is left to the task, which tries longer and tells of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ottla.base.errors import OttlaError
from ottla.spark.source.ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

try:
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper as SimpleReader
except ImportError:  # a version of Spark that has it elsewhere, or not at all
    SimpleReader = None  # type: ignore[assignment,misc]

OFFSETS_MAX: Final = 500
BYTES_MAX: Final = 256 << 10
"""Of what is handed over: the JVM takes it row by row, which from some thousands on is slower than a task's reading."""
REST: Final = 16
"""So many batches are not tried after one that was too large: the next ones will be too."""

ReadInOneFetch = Callable[[OffsetRange, int], "list[pa.RecordBatch] | None"]
"""The records of a range if one answer of so many bytes has them all, else None."""


def is_fit(schema: StructType, arrow: pa.Schema) -> bool:
    """Whether Spark, which compares, takes Arrow's schema for its own: it knows no collations."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return SimpleReader is not None and from_arrow_schema(arrow, prefer_timestamp_ntz=True) == schema


class Prefetcher:
    """Decides which ranges are read ahead of their task."""

    def __init__(self, read: ReadInOneFetch, *, fits: bool) -> None:
        self._read = read
        self._fits = fits
        self._rest = 0

    def take(self, ranges: Sequence[OffsetRange]) -> list[pa.RecordBatch] | None:
        """What is to be handed over of this plan, if anything."""
        if not self._fits or len(ranges) != 1 or ranges[0].size > OFFSETS_MAX:
            return None
        if self._rest:
            self._rest -= 1
            return None
        try:
            found = self._read(ranges[0], BYTES_MAX)
        except OttlaError:
            found = None
        if found is None:
            self._rest = REST
        return found


class PrefetchingReader:
    """A streaming reader that passes for a simple one between a plan with records and Spark's question for them."""

    _prefetched: list[pa.RecordBatch] | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self) if self._prefetched is None or SimpleReader is None else SimpleReader

    def getCache(self, start: object, end: object) -> Iterator[pa.RecordBatch]:
        """What Spark asks a simple reader for, right after the plan from `start` to `end`."""
        handed, self._prefetched = self._prefetched or [], None
        return iter(handed)
