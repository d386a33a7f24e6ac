"""Declaring a pipeline: its flows, and the topics and tables they read and write.

A flow is a function from data frames to a data frame with one target; it becomes one streaming query with a
checkpoint of its own. The function sees data frames only, never a connector: the same file runs on either, as a
stream or as a triggered run. Importing this needs no Spark, so pipelines can be listed without Java. Pure, except
for `load`, which imports the user's code.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, Literal

from ottla.base.errors import LocalError
from ottla.pipelines.spark_errors import condition_of, error_message, line_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Function = Callable[..., DataFrame]

OutputMode = Literal["append", "update", "complete"]
TableFormat = Literal["parquet", "delta"]
OUTPUT_MODES: Final = ("append", "update", "complete")
TABLE_FORMATS: Final = ("parquet", "delta")
_NO_SESSION: Final = "SESSION_OR_CONTEXT_NOT_EXISTS"
_WITHOUT_SESSION: Final = (
    "Spark starts when the file has been read: do this in the flow's function, "
    "and give types as StringType(), not as text"
)
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Topic:
    """A topic as source or target; see `topic`."""

    name: str
    schema: str | None = None
    key: str | None = None
    starting: str = "earliest"
    partitions: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"topic {self.name}"


@dataclass(frozen=True)
class Table:
    """A table as source or target; see `table`."""

    name: str
    format: TableFormat = "parquet"
    keys: tuple[str, ...] = ()
    latest: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.format} table {self.name}"


Endpoint = Topic | Table


def topic(
    name: str,
    *,
    schema: str | None = None,
    key: str | None = None,
    starting: str = "earliest",
    partitions: int | None = None,
    config: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> Topic:
    """A topic to read or to write.

    Reading: with `schema` (DDL) the JSON values become typed columns beside the connector's own, and `_corrupt`
    holds a value that does not fit; without it there are the connector's columns. `starting` is where a query
    without a checkpoint begins.

    Writing: a frame with a column `value` is written as it is, any other becomes one JSON object a row, with the
    column `key` as the record's key.

    `partitions` and `config` are used when the topic has to be created. `options` go to the connector.
    """
    _check_name("a topic", name)
    if partitions is not None and not isinstance(partitions, int):
        raise LocalError(f"topic {name}: partitions is a number, not {partitions!r}")
    return Topic(name, schema, key, starting, partitions, dict(config or {}), dict(options or {}))


def table(
    name: str,
    *,
    format: TableFormat = "parquet",  # noqa: A002 - Spark's word for it
    keys: Sequence[str] = (),
    latest: Sequence[str] = (),
    partition_by: Sequence[str] = (),
) -> Table:
    """A table to read or to write: a name below the folder of tables, an absolute path, or an address.

    Rows are appended. A Delta table with `keys` holds one row for each key instead: the one with the greatest
    values in the columns `latest`, or the last to arrive if none are named.
    """
    if format not in TABLE_FORMATS:
        raise LocalError(f"table {name}: the format is one of {', '.join(TABLE_FORMATS)}, not {format!r}")
    if keys and format != "delta":
        raise LocalError(
            f'table {name}: rows of parquet tables can only be added, not replaced by key: use format="delta"'
        )
    if any(isinstance(columns, str) for columns in (keys, latest, partition_by)):
        raise LocalError(f"table {name}: keys, latest and partition_by are lists of columns")
    if latest and not keys:
        raise LocalError(f"table {name}: latest tells which row of a key stays, so it needs keys")
    return Table(name, format, tuple(keys), tuple(latest), tuple(partition_by))


@dataclass(frozen=True)
class Flow:
    """One function of a pipeline with its places."""

    name: str
    function: Function
    reads: tuple[Endpoint, ...]
    writes: Endpoint
    mode: OutputMode = "append"
    every: str | None = None
    """The least time from one batch to the next, as Spark writes it; None for as soon as possible."""

    @property
    def streams(self) -> tuple[Topic, ...]:
        """What is read as a stream: tables are looked up as they are when the query starts."""
        return tuple(place for place in self.reads if isinstance(place, Topic))


class Pipeline:
    """Flows under one name, by which their checkpoints are found again."""

    def __init__(self, name: str) -> None:
        _check_name("a pipeline", name)
        self.name = name
        self.flows: dict[str, Flow] = {}
        self.module: ModuleType | None = None
        """Of a pipeline in a file: what was loaded from it, which nobody else can import."""

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, {', '.join(self.flows)})"

    def flow(
        self,
        *,
        reads: Endpoint | Sequence[Endpoint],
        writes: Endpoint,
        mode: OutputMode = "append",
        every: str | None = None,
        name: str | None = None,
    ) -> Callable[[Function], Function]:
        """Declares the function below it as a flow; it gets one data frame for each place that it reads."""
        places = (reads,) if isinstance(reads, Topic | Table) else reads
        if not isinstance(places, Sequence) or not all(isinstance(one, Topic | Table) for one in places):
            raise LocalError(
                f'reads is a place or a list of them, as in reads=topic("words"), not {_shown(reads)}'
            )
        if not isinstance(writes, Topic | Table):
            raise LocalError(f'writes is one place, as in writes=topic("letters"), not {_shown(writes)}')
        if mode not in OUTPUT_MODES:
            raise LocalError(f"the mode of a flow is one of {', '.join(OUTPUT_MODES)}, not {mode!r}")

        def declare(function: Function) -> Function:
            flow = Flow(name or function.__name__, function, tuple(places), writes, mode, every)
            self._add(flow)
            return function

        return declare

    def _add(self, flow: Flow) -> None:
        _check_name("a flow", flow.name)
        if flow.name in self.flows:
            raise LocalError(f"pipeline {self.name} has two flows called {flow.name}")
        if not flow.streams:
            raise LocalError(f"flow {flow.name} reads no topic: without one it has no end to wait for")
        if isinstance(flow.writes, Table) and flow.mode == "complete":
            raise LocalError(f"flow {flow.name}: a table takes the changes of each batch, not mode=complete")
        if isinstance(flow.writes, Table) and flow.writes.format == "parquet" and flow.mode != "append":
            raise LocalError(
                f"flow {flow.name}: rows of parquet tables can only be added; with mode={flow.mode} use "
                'format="delta" with keys, or a topic'
            )
        self.flows[flow.name] = flow

    def topics(self) -> dict[str, Topic]:
        """Every topic of the pipeline, with what is declared about its creation wherever it is."""
        found: dict[str, Topic] = {}
        for flow in self.flows.values():
            for place in (*flow.reads, flow.writes):
                if isinstance(place, Topic):
                    known = found.get(place.name)
                    if known is None or not (known.partitions or known.config):
                        found[place.name] = place
        return found

    def in_order(self) -> list[Flow]:
        """The flows so that who writes a place comes before who reads it: the order of a triggered run."""
        waiting, ordered = list(self.flows.values()), []
        while waiting:
            pending = {(type(flow.writes), flow.writes.name) for flow in waiting}
            ready = [
                flow for flow in waiting if not any((type(one), one.name) in pending for one in flow.reads)
            ] or waiting[:1]
            ordered += ready
            waiting = [flow for flow in waiting if flow not in ready]
        return ordered


def _shown(given: object) -> str:
    return repr(given) if given is None or isinstance(given, str) else f"a {type(given).__name__}"


def load(what: str) -> Pipeline:
    """The pipeline that a file or a module declares."""
    module = _module(what)
    found = {id(value): value for value in vars(module).values() if isinstance(value, Pipeline)}
    if not found:
        raise LocalError(f"{what} declares no pipeline: it needs one, as in `pipeline = Pipeline(name)`")
    if len(found) > 1:
        names = ", ".join(sorted(pipeline.name for pipeline in found.values()))
        raise LocalError(f"{what} declares several pipelines ({names}): one file, one pipeline")
    pipeline = next(iter(found.values()))
    if not pipeline.flows:
        raise LocalError(f"pipeline {pipeline.name} in {what} has no flow")
    pipeline.module = module if _is_file(what) else None
    return pipeline


def _module(what: str) -> ModuleType:
    if not _is_file(what):
        try:
            return importlib.import_module(what)
        except (ValueError, TypeError) as error:  # it can't be a name: "", ".a"
            raise _nowhere(what) if not what or what.startswith(".") else _broken(what, error) from error
        except ModuleNotFoundError as error:
            missing = error.name is not None and (what == error.name or what.startswith(f"{error.name}."))
            raise _nowhere(what) if missing else _broken(what, error) from error
        except (Exception, SystemExit) as error:
            raise _broken(what, error) from error
    path = Path(what).resolve()
    if not path.is_file():
        raise LocalError(f"there is no file {what}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise LocalError(f"{what} is not a Python file")
    # As `python FILE` does: what lies beside the file can be imported, here and in Spark's workers.
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[path.stem]
        raise _broken(what, error, str(path)) from error
    return module


def _nowhere(what: str) -> LocalError:
    return LocalError(f"there is neither a file nor a module called {what or repr(what)}")


def _broken(what: str, error: BaseException, file: str | None = None) -> LocalError:
    """What is wrong with the user's code, in a line: where, and what Python says."""
    if file is None:
        with suppress(Exception):
            found = importlib.util.find_spec(what)
            file = found.origin if found is not None else None
    line, words = line_of(error, file or what), error_message(error)
    if isinstance(error, SyntaxError):
        what, line = (error.filename or what) if error.filename != file else what, error.lineno
        words = f"{type(error).__name__}: {error.msg}"
    elif isinstance(error, SystemExit):
        words = f"it ends the program (SystemExit: {error.code}), and should only declare a pipeline"
    elif condition_of(error) == _NO_SESSION:
        words += f" {_WITHOUT_SESSION}"
    return LocalError(f"{what}, line {line}: {words}" if line else f"{what}: {words}")


def _is_file(what: str) -> bool:
    return what.endswith(".py") or "/" in what


def _check_name(what: str, name: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise LocalError(f"the name of {what} is made of letters, digits, '.', '_' and '-', not {name!r}")
