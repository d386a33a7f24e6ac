"""Selected columns, and the schemas that are returned to Spark."""

from __future__ import annotations

import json

import pytest

from ottla.base.errors import LocalError
from ottla.spark.source.schema import COLUMNS, ColumnChoice, json_ddl, parse_columns, schema_ddl

ALL = tuple(ColumnChoice(name, name) for name in COLUMNS)


def test_choices() -> None:
    assert parse_columns("Value, timestamptype AS kind") == (
        ColumnChoice("value", "value"),
        ColumnChoice("timestampType", "kind"),
    )
    with pytest.raises(LocalError, match="is not one of"):
        parse_columns("value as")


def test_the_connectors_schema() -> None:
    assert schema_ddl(ALL, "binary", None) == (
        "`key` BINARY, `value` BINARY, `topic` STRING, `partition` INT, `offset` BIGINT, `timestamp` TIMESTAMP, "
        "`timestampType` INT, `headers` ARRAY<STRUCT<key: STRING, value: BINARY>>"
    )


def test_typed_values_stand_where_the_value_stood() -> None:
    choices = parse_columns("offset, value, topic")
    assert (
        schema_ddl(choices, "string", None)
        == "`offset` BIGINT, `value` STRING, `topic` STRING, `_corrupt` BINARY"
    )
    assert schema_ddl(choices, "json", "a INT") == "`offset` BIGINT, a INT, `topic` STRING, `_corrupt` BINARY"
    assert schema_ddl(parse_columns("offset"), "json", "a INT") == "`offset` BIGINT"


def test_schemas_of_json_values() -> None:
    assert json_ddl("a INT") == "a INT"
    field = {"name": "a", "type": "integer", "nullable": True, "metadata": {}}
    assert json_ddl(json.dumps({"type": "struct", "fields": [field]})) == "`a` int"
    with pytest.raises(LocalError, match="valueSchema"):
        json_ddl('{"type": "struct"}')
