"""Declaration of a pipeline: its flows, and the topics and tables that they read and write.

A flow is a function from data frames to one data frame, with one target. It becomes one streaming query with its own
checkpoint. The function gets data frames and is independent of the connector: the same file runs with either one, as a
stream or as a triggered run. This module does not import Spark, so pipelines can be listed without Java. Pure, except
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
    "Spark starts after the file has been loaded: do this in the function of the flow, "
    "and give types as StringType(), not as text"
)
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Topic:
    """A topic as a source or a target; see `topic`."""

    name: str
    schema: str | None = None
    key: str | None = None
    starting: str = "earliest"
    partitions: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    dead_letters: str | None = None
    """The topic for values that do not match the schema."""

    def __str__(self) -> str:
        return f"topic {self.name}"


@dataclass(frozen=True)
class Table:
    """A table as a source or a target; see `table`."""

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
    dead_letters: str | None = None,
) -> Topic:
    """A topic to read or to write.

    Reading: with `schema` (DDL) the JSON values become typed columns, in addition to the columns of the connector, and
    `_corrupt` contains a value that does not match the schema. Without it there are the columns of the connector.
    With `dead_letters`, the name of another topic, such values are written there and no flow gets them.
    `starting` is the starting offset of a query without a checkpoint.

    Writing: a frame with a column `value` is written unchanged. Of any other frame each row becomes one JSON object,
    with the column `key` as the key of the record.

    `partitions` and `config` are used if the topic has to be created. `options` are passed to the connector.
    """
    _check_name("a topic", name)
    if partitions is not None and not isinstance(partitions, int):
        raise LocalError(f"topic {name}: partitions must be a number, got {partitions!r}")
    if dead_letters is not None:
        _check_name("a dead-letter topic", dead_letters)
        if schema is None:
            raise LocalError(f"topic {name}: dead_letters needs a schema that the values can violate")
    return Topic(
        name, schema, key, starting, partitions, dict(config or {}), dict(options or {}), dead_letters
    )


def table(
    name: str,
    *,
    format: TableFormat = "parquet",  # noqa: A002 - Spark's name for it
    keys: Sequence[str] = (),
    latest: Sequence[str] = (),
    partition_by: Sequence[str] = (),
) -> Table:
    """A table to read or to write: a name below the directory of tables, an absolute path, or a URL.

    Rows are appended. A Delta table with `keys` has one row for each key instead: the row with the greatest values in
    the columns `latest`, or the row that was written last if `latest` is not given.
    """
    if format not in TABLE_FORMATS:
        raise LocalError(f"table {name}: format must be one of {', '.join(TABLE_FORMATS)}, got {format!r}")
    if keys and format != "delta":
        raise LocalError(
            f'table {name}: rows of a parquet table can only be appended, not replaced by key; use format="delta"'
        )
    if any(isinstance(columns, str) for columns in (keys, latest, partition_by)):
        raise LocalError(f"table {name}: keys, latest and partition_by must be lists of column names")
    if latest and not keys:
        raise LocalError(f"table {name}: latest selects the row to keep for each key, so it needs keys")
    return Table(name, format, tuple(keys), tuple(latest), tuple(partition_by))


@dataclass(frozen=True)
class Flow:
    """One function of a pipeline with its sources and its target."""

    name: str
    function: Function
    reads: tuple[Endpoint, ...]
    writes: Endpoint
    mode: OutputMode = "append"
    every: str | None = None
    """The minimum time between batches, in Spark's notation; None starts the next batch immediately."""
    takes_corrupt: bool = False
    """Whether the function gets the corrupt rows of topics with a dead-letter topic."""

    @property
    def streams(self) -> tuple[Topic, ...]:
        """The topics, which are read as streams. A table is read once, when the query starts."""
        return tuple(source for source in self.reads if isinstance(source, Topic))


class Pipeline:
    """A named set of flows. Checkpoints are stored under the name."""

    def __init__(self, name: str) -> None:
        _check_name("a pipeline", name)
        self.name = name
        self.flows: dict[str, Flow] = {}
        self.module: ModuleType | None = None
        """The module that was loaded from a file, which workers cannot import; None for an importable module."""

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
        """Declare the decorated function as a flow; it is called with one data frame for each source."""
        sources = (reads,) if isinstance(reads, Topic | Table) else reads
        if not isinstance(sources, Sequence) or not all(isinstance(one, Topic | Table) for one in sources):
            raise LocalError(
                f'reads must be a topic, a table or a list of them, as in reads=topic("words"), got {_shown(reads)}'
            )
        if not isinstance(writes, Topic | Table):
            raise LocalError(
                f'writes must be a topic or a table, as in writes=topic("letters"), got {_shown(writes)}'
            )
        if mode not in OUTPUT_MODES:
            raise LocalError(f"the mode of a flow must be one of {', '.join(OUTPUT_MODES)}, got {mode!r}")

        def declare(function: Function) -> Function:
            flow = Flow(name or function.__name__, function, tuple(sources), writes, mode, every)
            self._add(flow)
            return function

        return declare

    def _add(self, flow: Flow) -> None:
        _check_name("a flow", flow.name)
        if flow.name in self.flows:
            raise LocalError(f"pipeline {self.name} has two flows with the name {flow.name}")
        if not flow.streams:
            raise LocalError(f"flow {flow.name} reads no topic: a flow needs at least one topic to read")
        if isinstance(flow.writes, Table) and flow.mode == "complete":
            raise LocalError(
                f"flow {flow.name}: mode=complete cannot be written to a table; use mode=append or mode=update"
            )
        if isinstance(flow.writes, Table) and flow.writes.format == "parquet" and flow.mode != "append":
            raise LocalError(
                f"flow {flow.name}: rows of a parquet table can only be appended; for mode={flow.mode} use "
                'format="delta" with keys, or a topic'
            )
        self.flows[flow.name] = flow
        for source in flow.streams:
            if source.dead_letters is not None:
                self._add_dead_letters(source, source.dead_letters)

    def _add_dead_letters(self, source: Topic, target: str) -> None:
        """Add the flow of the corrupt values of a topic, once."""
        from ottla.pipelines.io.corrupt_records import dead_letters

        name = f"{source.name}-dead-letters"
        known = self.flows.get(name)
        if known is None:
            self.flows[name] = Flow(name, dead_letters, (source,), Topic(target), takes_corrupt=True)
        elif known.writes.name != target:
            raise LocalError(
                f"topic {source.name} has two dead-letter topics: {known.writes.name} and {target}"
            )

    def topics(self) -> dict[str, Topic]:
        """All topics of the pipeline; of several declarations of a topic, one with settings for its creation."""
        found: dict[str, Topic] = {}
        for flow in self.flows.values():
            for endpoint in (*flow.reads, flow.writes):
                if isinstance(endpoint, Topic):
                    known = found.get(endpoint.name)
                    if known is None or not (known.partitions or known.config):
                        found[endpoint.name] = endpoint
        return found

    def in_order(self) -> list[Flow]:
        """The flows in the order of a triggered run: the writer of a topic or table before its readers."""
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


def load(target: str) -> Pipeline:
    """The pipeline that a file or a module declares."""
    module = _module(target)
    found = {id(value): value for value in vars(module).values() if isinstance(value, Pipeline)}
    if not found:
        raise LocalError(f"{target} declares no pipeline; add one, as in `pipeline = Pipeline('name')`")
    if len(found) > 1:
        names = ", ".join(sorted(pipeline.name for pipeline in found.values()))
        raise LocalError(f"{target} declares several pipelines ({names}); a file can declare only one")
    pipeline = next(iter(found.values()))
    if not pipeline.flows:
        raise LocalError(f"pipeline {pipeline.name} in {target} has no flow")
    pipeline.module = module if _is_file(target) else None
    return pipeline


def _module(target: str) -> ModuleType:
    if not _is_file(target):
        try:
            return importlib.import_module(target)
        except (ValueError, TypeError) as error:  # not a module name: "", ".a"
            raise (
                _not_found(target) if not target or target.startswith(".") else _broken(target, error)
            ) from error
        except ModuleNotFoundError as error:
            missing = error.name is not None and (target == error.name or target.startswith(f"{error.name}."))
            raise _not_found(target) if missing else _broken(target, error) from error
        except (Exception, SystemExit) as error:
            raise _broken(target, error) from error
    path = Path(target).resolve()
    if not path.is_file():
        raise LocalError(f"file not found: {target}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise LocalError(f"{target} is not a Python file")
    # As `python FILE` does: modules beside the file can be imported, here and in Spark's workers.
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[path.stem]
        raise _broken(target, error, str(path)) from error
    return module


def _not_found(target: str) -> LocalError:
    return LocalError(f"there is neither a file nor a module with the name {target or repr(target)}")


def _broken(target: str, error: BaseException, file: str | None = None) -> LocalError:
    """The error of the user's code in one line: the position and Python's message."""
    if file is None:
        with suppress(Exception):
            found = importlib.util.find_spec(target)
            file = found.origin if found is not None else None
    line, message = line_of(error, file or target), error_message(error)
    if isinstance(error, SyntaxError):
        target, line = (error.filename or target) if error.filename != file else target, error.lineno
        message = f"{type(error).__name__}: {error.msg}"
    elif isinstance(error, SystemExit):
        message = f"the file calls sys.exit (SystemExit: {error.code}); it should only declare a pipeline"
    elif condition_of(error) == _NO_SESSION:
        message += f" {_WITHOUT_SESSION}"
    return LocalError(f"{target}, line {line}: {message}" if line else f"{target}: {message}")


def _is_file(target: str) -> bool:
    return target.endswith(".py") or "/" in target


def _check_name(kind: str, name: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise LocalError(
            f"the name of {kind} must consist of letters, digits, '.', '_' and '-', got {name!r}"
        )
