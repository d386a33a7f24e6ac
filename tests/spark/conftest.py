"""One Spark session for all Spark tests of a process, tuned for start-up and short batches.

Spark needs Java 17 or newer: without it these tests are skipped, except where `OTTLA_REQUIRE_SPARK` is set
(continuous integration), where a missing Java is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla.spark
from tests.support.clients import Publisher

JAVA_VERSION_MIN = 17
TUNED = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.catalogImplementation": "in-memory",
}


def _java_problem() -> str | None:
    """Why Spark cannot start here, or None."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return f"Spark needs Java {JAVA_VERSION_MIN} or newer, and there is no `java` on the PATH or in JAVA_HOME"
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', output)
    if found is None or int(found[1]) < JAVA_VERSION_MIN:
        first = output.splitlines()[0] if output else "nothing"
        return f"Spark needs Java {JAVA_VERSION_MIN} or newer; `{java} -version` says: {first}"
    return None


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A SparkSession on two local cores, with tasks that are retried once; with the jars of Spark's own Kafka
    connector when a chosen test is marked as needing them.
    """
    if request.config.getoption("loadgroup", default=False):
        apart = "pytest and pytest-xdist do not fit together: each process would start a Spark of its own"
        assert any(item.nodeid.endswith("@spark") for item in request.session.items), apart
    problem = _java_problem()
    if problem is not None:
        if os.environ.get("OTTLA_REQUIRE_SPARK"):
            pytest.fail(problem)
        pytest.skip(problem)
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("ottla tests").master("local[2,2]")
    for key, value in TUNED.items():
        builder = builder.config(key, value)
    for key in filter(None, os.environ.get("OTTLA_SPARK_CONF", "").split(";")):
        builder = builder.config(*key.split("=", 1))
    if any(item.get_closest_marker("jvm_connector") for item in request.session.items):
        from bench.spark_jars import connector_jars

        builder = builder.config("spark.jars", connector_jars())
    session = (
        builder.config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch / "local"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    ottla.spark.register(session)  # a busy machine may have kept Spark from finding it
    yield session
    session.stop()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A checkpoint location of the test's own."""
    return str(tmp_path / "checkpoint")


@pytest.fixture
def new_topic(broker: Any) -> Callable[..., str]:
    """Makes topics with names of their own on the session's broker."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def make(partitions: int = 1, *, prefix: str = "t", **config: str) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        for future in admin.create_topics([NewTopic(name, partitions, 1, config=settings)]).values():
            future.result(30)
        return name

    return make


@pytest.fixture
def run_query() -> Iterator[Callable[[Any], Any]]:
    """Starts streaming writers and stops what is still running when the test ends."""
    started: list[Any] = []

    def start(writer: Any) -> Any:
        query = writer.start()
        started.append(query)
        return query

    yield start
    for query in started:
        if query.isActive:
            query.stop()


def _with_options(reader: Any, bootstrap: str, options: dict[str, object]) -> Any:
    """A data frame of our source; `kafka__group__id` is the option `kafka.group.id`."""
    reader = reader.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), str(value))
    return reader.load()


@pytest.fixture
def read(spark: Any, broker: Any) -> Callable[..., Any]:
    """A data frame over the session's broker with these options."""
    return lambda **options: _with_options(spark.read, broker.bootstrap, options)


@pytest.fixture
def stream(spark: Any, broker: Any) -> Callable[..., Any]:
    """A streaming data frame over the session's broker with these options."""
    return lambda **options: _with_options(spark.readStream, broker.bootstrap, options)


@pytest.fixture
def send(broker: Any) -> Callable[..., Any]:
    """Produces records to the session's broker."""
    return Publisher(broker.bootstrap).send
