"""Outside oracles: Apache Kafka itself, and its tools in a JVM that stays."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from bench.peers import KafkaPeer
from bench.places import KAFKA_LIBS
from tests.compat.java_tools import JavaTools


@pytest.fixture(scope="session")
def kafka_jars() -> None:
    if shutil.which("java") is None or not KAFKA_LIBS.is_dir():
        pytest.skip("Apache Kafka is not there: make compat fetches it")


@pytest.fixture(scope="session")
def tools(kafka_jars: None) -> Iterator[JavaTools]:
    running = JavaTools()
    yield running
    running.close()


@pytest.fixture(scope="session")
def kafka(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaPeer]:
    """One Apache Kafka node for all tests of the session."""
    with KafkaPeer(tmp_path_factory.mktemp("kafka") / "data") as peer:
        yield peer
