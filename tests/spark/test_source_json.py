"""`valueFormat=json` gives what `from_json` gives: every type, every text, in the time zone of the session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ottla.spark.source.arrow_batches import arrow_schema
from ottla.spark.values.json_values import JsonReader
from ottla.spark.values.times import parse_zone
from tests.support.json_table import STRICTER, TEXTS, TYPES, WHOLE

ZONE = "America/New_York"
OPTIONS = {"columnNameOfCorruptRecord": "_corrupt"}


@pytest.fixture
def session(spark: Any) -> Iterator[Any]:
    """The session with another time zone than those of the machine and of the other tests."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", ZONE)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def as_read(ddl: str, texts: list[str]) -> pa.Table:
    """The columns of the schema and whether the value is corrupt, by the source."""
    fields = list(arrow_schema(StructType.fromDDL(ddl)))
    reader = JsonReader(fields, lambda: parse_zone(ZONE))  # type: ignore[arg-type,return-value]
    columns, corrupt = reader(pa.array([text.encode() for text in texts], pa.binary()))
    return pa.table([*columns, corrupt.is_valid()], [*(field.name for field in fields), "is_corrupt"])


def as_parsed(session: Any, ddl: str, texts: list[str]) -> pa.Table:
    """The same by `from_json`."""
    frame = session.createDataFrame(list(enumerate(texts)), "number INT, text STRING").coalesce(1)
    parsed = F.from_json("text", f"{ddl}, _corrupt STRING", OPTIONS).alias("parsed")
    is_corrupt = F.coalesce(F.col("parsed._corrupt").isNotNull(), F.lit(False)).alias("is_corrupt")
    names = [F.col(f"parsed.{field.name}") for field in StructType.fromDDL(ddl)]
    return frame.select("number", parsed).orderBy("number").select(*names, is_corrupt).toArrow()


def shown(table: pa.Table, kind: pa.DataType) -> list[str]:
    """Values as text, which also distinguishes NaN, -0.0 and times outside the range of Python's."""
    return [repr(_plain(value)) for value in table.column(0).combine_chunks().cast(kind)]


def _plain(scalar: Any) -> Any:
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_temporal(kind):
        return scalar.value
    if pa.types.is_map(kind):
        return [(_plain(entry["key"]), _plain(entry["value"])) for entry in scalar.values]
    if pa.types.is_list(kind):
        return [_plain(each) for each in scalar.values]
    if pa.types.is_struct(kind):
        return {name: _plain(each) for name, each in scalar.items()}
    return scalar.as_py()


@pytest.mark.parametrize("kind", TYPES)
def test_each_type_is_read_as_by_from_json(session: Any, kind: str) -> None:
    texts = [f'{{"x":{text}}}' for text in TEXTS]
    ours, theirs = as_read(f"x {kind}", texts), as_parsed(session, f"x {kind}", texts)
    wanted = arrow_schema(StructType.fromDDL(f"x {kind}")).field(0).type
    differences = [
        (text, our_value, our_fault, their_value, their_fault)
        for text, our_value, our_fault, their_value, their_fault in zip(
            texts,
            shown(ours, wanted),
            ours["is_corrupt"].to_pylist(),
            shown(theirs, wanted),
            theirs["is_corrupt"].to_pylist(),
            strict=True,
        )
        if (our_value, our_fault) != (their_value, their_fault)
    ]
    assert differences == []


def test_whole_records_are_read_as_by_from_json_or_stricter(session: Any) -> None:
    ours, theirs = (
        table.to_pylist()
        for table in (as_read("x INT, y STRING", WHOLE), as_parsed(session, "x INT, y STRING", WHOLE))
    )
    differences = [text for text, our, their in zip(WHOLE, ours, theirs, strict=True) if our != their]
    assert differences == STRICTER
    assert all(our["is_corrupt"] for text, our in zip(WHOLE, ours, strict=True) if text in STRICTER)


@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "stream"])
def test_times_are_in_the_time_zone_of_the_session(
    session: Any, send: Any, new_topic: Any, broker: Any, tmp_path: Any, streaming: bool
) -> None:
    topic = new_topic()
    texts = [
        '{"at":"2024-01-02T03:04:05"}',
        '{"at":"2024-01-02T03:04:05Z"}',
        '{"at":"2024-07-02"}',
        '{"at":5}',
    ]
    send(topic, [{"value": text} for text in texts])
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    reading = session.readStream if streaming else session.read
    typed = {**options, "valueFormat": "json", "valueSchema": "at TIMESTAMP", "columns": "value"}
    read = reading.format("ottla").options(**typed).load()
    if streaming:
        place, name = str(tmp_path / "checkpoint"), f"times_{topic.replace('-', '_')}"
        writer = read.writeStream.format("memory").queryName(name).option("checkpointLocation", place)
        writer.trigger(availableNow=True).start().awaitTermination()
        read = session.table(name)
    plain = session.read.format("ottla").options(**options).load()
    parsed = plain.select(F.from_json(plain.value.cast("string"), "at TIMESTAMP").alias("p")).select("p.at")
    micros = [sorted(row[0] for row in each.select(F.unix_micros("at")).collect()) for each in (read, parsed)]
    assert micros[0] == micros[1]
    assert micros[0] == [5_000_000, 1_704_164_645_000_000, 1_704_182_645_000_000, 1_719_892_800_000_000]
