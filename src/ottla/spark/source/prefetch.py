"""Prefetching of small batches: the records are sent to Spark together with the plan of the batch.

No task then has to read them in a Python process. Spark has this mechanism for its simple readers
(`SimpleDataSourceStreamReader`): their records are sent after the partitions, the JVM stores them as a block, and the
task reads the block. After each plan Spark checks whether the reader is an instance of that class. A reader with
prefetched records therefore returns that class in the check. If the task does not find the block, or the version
of Spark has no such check, the task reads the range as usual.

A batch is prefetched only if one fetch response can have all of it and one task would read it: several ranges are read
by several tasks in parallel. Errors are ignored here; the task retries for longer and reports them.
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
except ImportError:  # another version of Spark
    SimpleReader = None  # type: ignore[assignment,misc]

OFFSETS_MAX: Final = 500
BYTES_MAX: Final = 256 << 10
"""The limits of prefetched records. The JVM converts them row by row, which is slower than a task for thousands."""
SKIPPED_BATCHES: Final = 16
"""The number of batches without prefetching after one that was too large."""

ReadInOneFetch = Callable[[OffsetRange, int], "list[pa.RecordBatch] | None"]
"""The records of a range if one fetch response of so many bytes has them all, otherwise None."""


def schemas_match(schema: StructType, arrow: pa.Schema) -> bool:
    """Whether Arrow's schema, converted to Spark's, equals the schema; Spark compares them. Arrow has no collations."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return SimpleReader is not None and from_arrow_schema(arrow, prefer_timestamp_ntz=True) == schema


class Prefetcher:
    """Decides which ranges are prefetched, and reads them."""

    def __init__(self, read: ReadInOneFetch, *, fits: bool) -> None:
        self._read = read
        self._fits = fits
        self._skip = 0

    def take(self, ranges: Sequence[OffsetRange]) -> list[pa.RecordBatch] | None:
        """The prefetched records of this plan, or None."""
        if not self._fits or len(ranges) != 1 or ranges[0].size > OFFSETS_MAX:
            return None
        if self._skip:
            self._skip -= 1
            return None
        try:
            found = self._read(ranges[0], BYTES_MAX)
        except OttlaError:
            found = None
        if found is None:
            self._skip = SKIPPED_BATCHES
        return found


class PrefetchingReader:
    """A streaming reader that appears as a simple reader while it has prefetched records."""

    _prefetched: list[pa.RecordBatch] | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self) if self._prefetched is None or SimpleReader is None else SimpleReader

    def getCache(self, start: object, end: object) -> Iterator[pa.RecordBatch]:
        """The prefetched records; Spark calls this on a simple reader right after the plan from `start` to `end`."""
        handed, self._prefetched = self._prefetched or [], None
        return iter(handed)
