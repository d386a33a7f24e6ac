"""Values as typed columns: text, JSON and Avro, decoded by column instead of by record.

A value reader gets the values of a batch and returns the typed arrays and the array `_corrupt`: the bytes of each value
that does not match the schema, null for the others. A null value (a tombstone) gives nulls and is not corrupt. A
corrupt value gives nulls, except for the parts of a JSON value that match the schema, as in Spark's `from_json`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ottla.spark.values.times import Zone

ValueReader = Callable[[pa.Array], tuple[list[pa.Array], pa.Array]]
"""Converts values to typed columns and `_corrupt`."""


def value_reader(
    value_format: str, value_schema: str | None, fields: Sequence[pa.Field], zone: Callable[[], Zone]
) -> ValueReader:
    """The reader for a format; `fields` are the typed columns with Spark's types.

    `zone` is called for a timestamp without a time zone.
    """
    if value_format == "string":
        return read_strings
    if value_format == "json":
        from ottla.spark.values.json_values import JsonReader

        return JsonReader(fields, zone)
    from ottla.spark.values.avro import AvroReader

    return AvroReader(value_schema or "", fields)


def read_strings(values: pa.Array) -> tuple[list[pa.Array], pa.Array]:
    """Values that must be UTF-8."""
    try:
        return [values.cast(pa.string())], pa.nulls(len(values), pa.binary())
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        for value in values.to_pylist():
            try:
                texts.append(None if value is None else value.decode())
            except UnicodeDecodeError:
                texts.append(None)
        made = pa.array(texts, pa.string())
        return [made], _bytes_where(values, pc.is_null(made))


def _bytes_where(values: pa.Array, is_corrupt: pa.Array) -> pa.Array:
    return pc.if_else(is_corrupt, values, pa.scalar(None, values.type))
