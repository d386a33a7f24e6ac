"""Fake Spark for the runner, without Java: a session, a data frame, and queries that end when the test ends them.

`FakeSession` takes the place of the module `ottla.pipelines.session`: starting costs nothing, Java can be made to die
and starting to fail. A flow's function gets a `FakeFrame`; its query does nothing until the test ends it.
"""

from __future__ import annotations

import threading
from typing import Any

from ottla.base.errors import LocalError
from ottla.pipelines.java.process import Stopped


class FakeClock:
    """Time passes only in `wait`."""

    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def monotonic(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return round(self.now_s * 1000)


class FakeQuery:
    """A streaming query."""

    id = "query-id"

    def __init__(self, spark: FakeSpark) -> None:
        self._spark, self._active = spark, True
        self.error: Exception | None = None
        self.status = {"message": "Waiting for data to arrive"}

    @property
    def isActive(self) -> bool:
        if not self._spark.alive:
            raise ConnectionResetError("no Java to ask")
        return self._active

    def end(self, error: Exception | None = None) -> None:
        self._active, self.error = False, error

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self._active = False


class FakeFrame:
    """A frame, its reader and its writer in one; what is called on it is kept."""

    def __init__(
        self, spark: FakeSpark, columns: tuple[str, ...] = ("key", "value"), kind: Any = None
    ) -> None:
        from pyspark.sql.types import StringType

        self._spark, self.columns, self._kind = spark, columns, kind or StringType()

    @property
    def writeStream(self) -> FakeFrame:
        return self

    def __getattr__(self, name: str) -> Any:
        """Every setting of a reader or writer gives it back."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_, **__: self

    def start(self) -> FakeQuery:
        if self._spark.refuses is not None:
            raise self._spark.refuses
        query = FakeQuery(self._spark)
        self._spark.queries.append(query)
        return query

    @property
    def schema(self) -> Any:
        """All columns have the type of the frame; the default is text."""
        from pyspark.sql.types import StructField, StructType

        return StructType([StructField(name, self._kind) for name in self.columns])


class FakeSpark:
    """A Spark session."""

    def __init__(self) -> None:
        self.queries: list[FakeQuery] = []
        self.refuses: Exception | None = None
        self.sparkContext: Any = self
        self.streams: Any = self
        self.listeners: list[Any] = []
        self.alive = True

    def die(self) -> None:
        self.alive = False

    @property
    def readStream(self) -> FakeFrame:
        return FakeFrame(self)

    def addListener(self, listener: Any) -> None:
        self.listeners.append(listener)

    def setLogLevel(self, _: str) -> None:
        pass


class FakeSession:
    """The module `session`; `fails` is how the next starts end, first to last."""

    def __init__(self) -> None:
        self.made: list[FakeSpark] = []
        self.fails: list[LocalError | None] = []
        self.settings: list[Any] = []
        self.stopped = 0

    @staticmethod
    def SessionSettings(*given: Any) -> Any:
        return given

    def start(self, settings: Any, stop: threading.Event) -> FakeSpark:
        self.settings.append(settings)
        error = self.fails.pop(0) if self.fails else None
        if error is not None:
            raise error
        if stop.is_set():
            raise Stopped
        spark = FakeSpark()
        self.made.append(spark)
        return spark

    def stop(self, _: FakeSpark) -> None:
        self.stopped += 1

    def lost(self, spark: FakeSpark, _: BaseException) -> bool:
        return not spark.alive

    @property
    def spark(self) -> FakeSpark:
        """The newest."""
        return self.made[-1]
