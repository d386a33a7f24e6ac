"""The data source without Spark running: found by its module, schemas, refusals, what is pickled."""

from __future__ import annotations

import inspect
import json
import pickle
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import (
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
)

import pyspark_ottla
from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.client.raw import ClientSettings
from ottla.client.raw.errors import Refused
from ottla.spark import register
from ottla.spark.data_source import OttlaDataSource
from ottla.spark.source import spark_readers as readers
from ottla.spark.source.ranges import OffsetRange
from tests.support.fake_cluster import FakeClock, FakeCluster

BASE = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "a"}
A0 = TopicPartition("a", 0)
SMALL = StructType([StructField("value", BinaryType()), StructField("offset", LongType())])


def source(**more: str) -> OttlaDataSource:
    return OttlaDataSource({**BASE, **{name.replace("__", "."): value for name, value in more.items()}})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster(a=1)
    monkeypatch.setattr(readers, "cluster_for", lambda _: made)
    return made


def test_spark_finds_it_by_its_module() -> None:
    assert pyspark_ottla.DefaultSource is OttlaDataSource
    assert OttlaDataSource.name() == "ottla"


def test_registering() -> None:
    class Session:
        kept: Any = None
        active: Session | None = None

        @property
        def dataSource(self) -> Session:
            return self

        def register(self, made: Any) -> None:
            self.kept = made

        def getActiveSession(self) -> Session | None:
            return self.active

        def createDataFrame(self, *_: object) -> None:
            self.active = self

    session, other = Session(), Session()
    register(session)  # type: ignore[arg-type]
    assert (session.kept, session.active) == (OttlaDataSource, session)
    session.active = other
    register(session)  # type: ignore[arg-type]
    assert session.active is other, "a thread that has a session keeps it"


def test_schemas() -> None:
    assert source(columns="value,offset").schema() == "`value` BINARY, `offset` BIGINT"
    typed = source(columns="value", valueFormat="json", valueSchema="a INT")
    assert typed.schema() == "a INT, `_corrupt` BINARY"
    avro = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]})
    assert (
        source(columns="value", valueFormat="avro", valueSchema=avro).schema() == "`a` INT, `_corrupt` BINARY"
    )


def test_wrong_options_are_refused_before_anything_is_read() -> None:
    with pytest.raises(LocalError, match="not supported"):
        source(kafka__enable__auto__commit="true").schema()


def test_a_schema_of_the_users_own_is_refused() -> None:
    made = source(columns="value,offset")
    made.reader(SMALL)
    made.streamReader(SMALL)
    other = StructType([StructField("value", StringType()), StructField("offset", LongType())])
    for wrong in (other, StructType([*SMALL.fields, StructField("more", LongType())])):
        with pytest.raises(LocalError, match="schema of the source cannot be replaced"):
            made.reader(wrong)


def test_two_columns_of_one_name_are_refused() -> None:
    made = source(columns="value,offset", valueFormat="json", valueSchema="offset BIGINT")
    fields = [StructField(name, kind) for name, kind in (("offset", LongType()), ("Offset", LongType()))]
    with pytest.raises(LocalError, match="two columns have the name offset"):
        made.reader(StructType([*fields, StructField("_corrupt", BinaryType())]))


def test_a_batch_plans_its_ranges(cluster: FakeCluster) -> None:
    cluster.logs[A0].append(10)
    reader = source(columns="value,offset", startingOffsets="-4", minPartitions="2").reader(SMALL)
    assert reader.partitions() == [
        readers.RangePartition(OffsetRange(A0, 6, 8)),
        readers.RangePartition(OffsetRange(A0, 8, 10)),
    ]
    assert list(reader.read(InputPartition(None))) == []


def test_a_batch_that_would_end_before_it_begins_is_refused(cluster: FakeCluster) -> None:
    """Also when that shows only after the cluster was asked: it is a mistake, not an empty frame."""
    cluster.logs[A0].append(10)
    for place in (
        {"startingOffsets": '{"a":{"0":11}}'},
        {"endingOffsets": '{"a":{"0":2}}', "startingOffsets": "-5"},
    ):
        with pytest.raises(LocalError, match="of a-0 is after the ending offset"):
            source(columns="value,offset", **place).reader(SMALL).partitions()
    nothing = source(columns="value,offset", startingOffsets='{"a":{"0":10}}').reader(SMALL)
    assert nothing.partitions() == []


def test_the_offsets_of_a_stream_are_json(cluster: FakeCluster) -> None:
    cluster.logs[A0].append(10)
    reader: Any = source(
        columns="value,offset", startingOffsets="earliest", maxOffsetsPerTrigger="4"
    ).streamReader(SMALL)
    limit = reader.getDefaultReadLimit()
    assert limit.max_rows == 4
    assert reader.reportLatestOffset() is None
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    assert (start, end) == ({"a": {"0": 0}}, {"a": {"0": 4}})
    assert reader.reportLatestOffset() == {"a": {"0": 10}}
    assert reader.partitions(start, end) == [readers.RangePartition(OffsetRange(A0, 0, 4))]
    assert reader.latestOffset(end, ReadAllAvailable()) == {"a": {"0": 10}}
    reader.prepareForTriggerAvailableNow()
    cluster.logs[A0].append(1)
    assert reader.latestOffset({"a": {"0": 9}}, limit) == {"a": {"0": 10}}


@pytest.mark.parametrize("ask", ["initialOffset", "latestOffset", "partitions"])
def test_an_invalid_stream_reports_the_reason_at_its_first_call(ask: str) -> None:
    """Whatever Spark asks first: a new query for its start, one that goes on for its end, or for the batch it repeats.

    It must be able to ask as it would ask the oldest readers, and to stop what it has got.
    """
    reader: Any = source(columns="value,offset", endingOffsets="latest").streamReader(SMALL)
    assert not inspect.signature(reader.latestOffset).parameters
    with pytest.raises(LocalError, match="endingOffsets is not valid in streaming"):
        getattr(reader, ask)(*({}, {}) if ask == "partitions" else ())
    reader.stop()


def test_readers_are_pickled_without_their_connections(cluster: FakeCluster) -> None:
    reader: Any = source(columns="value,offset").streamReader(SMALL)
    reader.initialOffset()
    travelled = pickle.loads(pickle.dumps(reader))  # noqa: S301 - as Spark does
    assert "_made" not in travelled.__dict__


def test_older_pysparks(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.logs[A0].append(3)
    monkeypatch.setattr("pyspark.__version__", "4.1.1")
    reader: Any = source(columns="value,offset").streamReader(SMALL)
    assert isinstance(reader, readers.OttlaPlainStreamReader)
    start = reader.initialOffset()
    cluster.logs[A0].append(3)
    assert reader.latestOffset() == start == {"a": {"0": 3}}
    assert reader.partitions(start, start) == []
    end = reader.latestOffset()
    assert end == {"a": {"0": 6}}
    with pytest.raises(LocalError, match=r"4\.2"):
        source(columns="value,offset", maxOffsetsPerTrigger="5").streamReader(SMALL).initialOffset()
    monkeypatch.setattr("pyspark.__version__", "4.0.2")
    with pytest.raises(LocalError, match=r"needs pyspark 4\.1"):
        source().schema()


def test_with_older_pysparks_progress_is_committed_before_the_next_batch(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.logs[A0].append(3)
    monkeypatch.setattr("pyspark.__version__", "4.1.1")
    options = {"columns": "value,offset", "startingOffsets": "earliest", "kafka.group.id": "g"}
    reader: Any = source(**options).streamReader(SMALL)
    end = reader.latestOffset()
    reader.partitions(reader.initialOffset(), end)
    assert not cluster.groups.get("g")
    assert reader.latestOffset() == end
    assert cluster.groups == {"g": {A0: 3}}


def group(name: str | None) -> ClientSettings:
    return ClientSettings(bootstrap=(("h", 1),), group_id=name, api_timeout_ms=60_000)


def test_progress_is_committed_once(cluster: FakeCluster) -> None:
    progress = readers.GroupProgress(group("g"))
    progress({A0: 5})
    assert cluster.groups == {"g": {A0: 5}}
    cluster.groups.clear()
    progress({A0: 5})
    assert cluster.groups == {}
    readers.GroupProgress(group(None))({A0: 6})
    assert cluster.groups == {}


def test_progress_that_cannot_be_committed_does_not_fail_the_query(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit times out soon and is not retried with every batch."""
    used: list[ClientSettings] = []
    attempts: list[str] = []

    def refuse(group: str, positions: object) -> None:
        attempts.append(group)
        raise Refused("committing", 25)

    def connect(settings: ClientSettings) -> FakeCluster:
        used.append(settings)
        return cluster

    monkeypatch.setattr(cluster, "commit_offsets", refuse)
    monkeypatch.setattr(readers, "cluster_for", connect)
    clock = FakeClock()
    progress = readers.GroupProgress(group("g"), clock)
    for offset in range(50):
        progress({A0: offset})
        clock.seconds += 1
    assert attempts == ["g"]
    assert max(used[0].api_timeout_ms, used[0].request_timeout_ms, used[0].connect_timeout_ms) <= 5_000
    clock.seconds += 60
    progress({A0: 99})
    assert attempts == ["g", "g"]
