"""Values as texts, and the reader of each format."""

from __future__ import annotations

import pyarrow as pa

from ottla.spark.values.formats import read_strings, value_reader
from ottla.spark.values.json_values import JsonReader
from ottla.spark.values.times import UTC


def test_texts() -> None:
    columns, corrupt = read_strings(pa.array([b"x", None], pa.binary()))
    assert (columns[0].to_pylist(), corrupt.to_pylist()) == (["x", None], [None, None])
    columns, corrupt = read_strings(pa.array([b"x", None, b"\xff"], pa.binary()))
    assert (columns[0].to_pylist(), corrupt.to_pylist()) == (["x", None, None], [None, None, b"\xff"])
    assert value_reader("string", None, [], lambda: UTC) is read_strings
    assert isinstance(value_reader("json", None, [pa.field("x", pa.int32())], lambda: UTC), JsonReader)
