"""The columns of the source: names and types of Spark's Kafka connector, and typed values in place of `value`.

The option `columns` selects and renames: "value, offset, timestamp as arrived". With a value format, the column `value`
is replaced by the columns of the format, and `_corrupt` is the last column. It has the bytes of a value that does not
match its schema, and is null otherwise:

    binary            value BINARY
    string            value STRING, _corrupt BINARY
    json, avro        the columns of valueSchema, _corrupt BINARY

Schemas are passed to Spark as DDL text, because `DataSource.schema` has no session to parse it. Pure.
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
"""DDL types, in the order of the connector."""
CORRUPT: Final = "_corrupt"
VALUE_FORMATS: Final = ("binary", "string", "json", "avro")

_CHOICE = re.compile(r"(\w+)(?:\s+as\s+(\w+))?", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnChoice:
    """A column of the source and the name it has in the data frame."""

    column: str
    name: str


def parse_columns(text: str) -> tuple[ColumnChoice, ...]:
    """Parse the option `columns`."""
    known = {name.lower(): name for name in COLUMNS}
    choices: list[ColumnChoice] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        found = _CHOICE.fullmatch(part)
        column = known.get(found[1].lower()) if found else None
        if found is None or column is None:
            raise LocalError(f"option columns: {part!r} is not one of {', '.join(COLUMNS)}")
        choices.append(ColumnChoice(column, found[2] or column))
    if not choices:
        raise LocalError("option columns is empty")
    for kind in ("column", "name"):
        seen = [getattr(choice, kind).lower() for choice in choices]
        if len(set(seen)) < len(seen):
            raise LocalError(f"option columns: a {kind} is given twice in {text!r}")
    return tuple(choices)


def schema_ddl(choices: Sequence[ColumnChoice], value_format: str, value_ddl: str | None) -> str:
    """The schema of the source as DDL; `value_ddl` has the columns of a typed value."""
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
    """The columns of a `valueSchema` for JSON values: DDL unchanged, or from the JSON of a Spark schema."""
    if not text.lstrip().startswith("{"):
        return text
    from pyspark.sql.types import StructType

    try:
        fields = StructType.fromJson(json.loads(text)).fields
    except (ValueError, KeyError, TypeError) as error:
        raise LocalError(f"valueSchema is neither DDL nor the JSON of a Spark schema: {error}") from error
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in fields)
