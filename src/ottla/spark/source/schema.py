"""The columns of the source: the names and types of Spark's Kafka connector, and typed values in place of `value`.

`columns` chooses and renames: "value, offset, timestamp as arrived". With a value format the one column `value`
becomes what the format makes of it, followed at the end by `_corrupt`, which holds the bytes of a value that does
not fit its schema and is null otherwise:

    binary            value BINARY
    string            value STRING, _corrupt BINARY
    json, avro        the columns of valueSchema, _corrupt BINARY

Schemas are told to Spark as DDL text, because inside `DataSource.schema` there is no session to parse one with.
Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.base.errors import LocalError

COLUMNS: Final = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
"""In the connector's order, as DDL types."""
CORRUPT: Final = "_corrupt"
VALUE_FORMATS: Final = ("binary", "string", "json", "avro")

_CHOICE = re.compile(r"(\w+)(?:\s+as\s+(\w+))?", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnChoice:
    """A column of the source and the name it has in the data frame."""

    column: str
    name: str


def parse_columns(text: str) -> tuple[ColumnChoice, ...]:
    """The option `columns`."""
    known = {name.lower(): name for name in COLUMNS}
    choices: list[ColumnChoice] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        found = _CHOICE.fullmatch(part)
        column = known.get(found[1].lower()) if found else None
        if found is None or column is None:
            raise LocalError(f"option columns: {part!r} is none of {', '.join(COLUMNS)}")
        choices.append(ColumnChoice(column, found[2] or column))
    if not choices:
        raise LocalError("option columns names no column")
    for what in ("column", "name"):
        seen = [getattr(choice, what).lower() for choice in choices]
        if len(set(seen)) < len(seen):
            raise LocalError(f"option columns: a {what} is given twice in {text!r}")
    return tuple(choices)


def schema_ddl(choices: Sequence[ColumnChoice], value_format: str, value_ddl: str | None) -> str:
    """What the source yields, as DDL; `value_ddl` are the columns of a typed value."""
    parts = []
    for choice in choices:
        if choice.column != "value" or value_format == "binary":
            parts.append(f"`{choice.name}` {COLUMNS[choice.column]}")
        elif value_format == "string":
            parts.append(f"`{choice.name}` STRING")
        else:
            parts.append(value_ddl or "")
    if has_corrupt(choices, value_format):
        parts.append(f"`{CORRUPT}` BINARY")
    return ", ".join(parts)


def has_corrupt(choices: Sequence[ColumnChoice], value_format: str) -> bool:
    return value_format != "binary" and any(choice.column == "value" for choice in choices)


def json_ddl(text: str) -> str:
    """The columns of a `valueSchema` for JSON values: DDL as it is, or the JSON of a Spark schema."""
    if not text.lstrip().startswith("{"):
        return text
    from pyspark.sql.types import StructType

    try:
        fields = StructType.fromJson(json.loads(text)).fields
    except (ValueError, KeyError, TypeError) as error:
        raise LocalError(f"valueSchema is neither DDL nor the JSON of a Spark schema: {error}") from error
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in fields)
