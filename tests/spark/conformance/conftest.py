"""The four columns: our connector and Spark's own, each on Ottla and on Apache Kafka.

`make spark` runs the first (our connector on Ottla), `make compat` the other three. A test marked `ours` shows what
only our connector offers, one marked `stock` what only Spark's own does: they run in two columns.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.places import KAFKA_LIBS
from tests.spark.conformance.columns import COLUMNS, OUR_COLUMNS, STOCK_COLUMNS, Collector, Column


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "column" in metafunc.fixturenames:
        chosen = COLUMNS
        if metafunc.definition.get_closest_marker("ours"):
            chosen = OUR_COLUMNS
        elif metafunc.definition.get_closest_marker("stock"):
            chosen = STOCK_COLUMNS
        metafunc.parametrize("column", chosen, indirect=True, scope="session")


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Apache Kafka node for all tests of the session."""
    if shutil.which("java") is None or not KAFKA_LIBS.is_dir():
        pytest.skip("Apache Kafka is not there: make compat fetches it")
    from bench.peers import KafkaPeer

    with KafkaPeer(tmp_path_factory.mktemp("kafka") / "data") as peer:
        yield peer


@pytest.fixture(scope="session")
def column(request: pytest.FixtureRequest, spark: Any) -> Column:
    connector, broker = request.param
    peer = request.getfixturevalue("broker" if broker == "ottla" else "kafka_broker")
    return Column(connector, peer.bootstrap, spark)


@pytest.fixture
def seen(run_query: Callable[[Any], Any]) -> Collector:
    return Collector(run_query)
