"""Spark on a secured cluster: both connectors with the same options of Java clients, over SASL_SSL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.local.cluster import LocalCluster
from ottla.local.secure.folder import SecureFolder

pytestmark = pytest.mark.spark
CONNECTORS = [
    pytest.param("ottla", id="ottla"),
    pytest.param("kafka", id="jvm", marks=[pytest.mark.compat, pytest.mark.jvm_connector]),
]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, SecureFolder]]:
    home = tmp_path_factory.mktemp("secured")
    folder = SecureFolder(home / "secure")
    with LocalCluster(home / "data", 3, secure=folder) as cluster:
        yield cluster, folder


def options(folder: SecureFolder) -> dict[str, str]:
    lines = (folder.path / "admin-java.properties").read_text().splitlines()
    return {f"kafka.{key}": value for key, value in (line.split("=", 1) for line in lines)}


def rows(spark: Any, connector: str, folder: SecureFolder, topic: str) -> list[str]:
    frame = spark.read.format(connector).options(**options(folder)).option("subscribe", topic).load()
    return sorted(row.v for row in frame.selectExpr("CAST(value AS STRING) AS v").collect())


@pytest.mark.parametrize("connector", CONNECTORS)
def test_a_batch_is_read_and_written(
    spark: Any, secured: tuple[LocalCluster, SecureFolder], connector: str
) -> None:
    _, folder = secured
    topic, copy = f"{connector}-in", f"{connector}-out"
    producer = Producer(folder.read_client_settings())
    for value in ("a", "b", "c"):
        producer.produce(topic, value.encode())
    assert producer.flush(30) == 0
    assert rows(spark, connector, folder, topic) == ["a", "b", "c"]
    frame = spark.createDataFrame([("x",), ("y",)], "value STRING")
    frame.write.format(connector).options(**options(folder)).option("topic", copy).mode("append").save()
    assert rows(spark, connector, folder, copy) == ["x", "y"]


def test_a_stream_copies_exactly_once_while_a_broker_is_killed(
    spark: Any, secured: tuple[LocalCluster, SecureFolder], tmp_path: Path
) -> None:
    cluster, folder = secured
    producer = Producer(folder.read_client_settings())
    for number in range(100):
        producer.produce("numbers", str(number).encode())
    assert producer.flush(30) == 0
    source = spark.readStream.format("ottla").options(**options(folder)).option("subscribe", "numbers")
    query = (
        source.option("startingOffsets", "earliest").load().selectExpr("value")
        .writeStream.format("ottla").options(**options(folder)).option("topic", "copies")
        .option("checkpointLocation", str(tmp_path)).trigger(processingTime="0 seconds").start()
    )  # fmt: skip
    try:
        query.processAllAvailable()
        cluster.kill(cluster.wait_leader("numbers"))
        for number in range(100, 200):
            producer.produce("numbers", str(number).encode())
        assert producer.flush(60) == 0
        query.processAllAvailable()
    finally:
        query.stop()
        cluster.restart_all()
    assert sorted(map(int, rows(spark, "ottla", folder, "copies"))) == list(range(200))
