"""Fixtures that every kind of test may use.

`pytest --on-kafka` runs the tests that use them on Apache Kafka instead: what fails there is wrong in the
test.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from ottla.local.broker_process import BrokerProcess

MakeBroker = Callable[..., BrokerProcess]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--on-kafka", action="store_true", help="run against Apache Kafka instead of Ottla")


# No example has a deadline: on a busy machine a correct one may take any time.
settings.register_profile("no deadline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no deadline")


def pytest_configure() -> None:
    """Signals as a terminal gives them: under nohup, or behind `&` in a script, some are ignored, also by children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


SPARK = (
    "tests/spark/",
    "tests/fault/test_spark",
    "tests/mission/test_data_pipeline",
    "tests/integration/test_demo",
)
ALWAYS = (
    "tests/spark/test_source_",
    "tests/spark/test_sink_",
    "tests/spark/test_docs_snippets",
    "tests/spark/test_pipelines_rules",
    "tests/spark/test_pipelines_state",
    "tests/fault/test_spark_sink",
    "tests/mission/test_data_pipeline",
    "tests/integration/test_demo",
)
"""What of Spark is part of every run; the rest, marked `spark`, takes longer than all other tests together: the suite
that is run for either connector, pipelines, clusters with executors.
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark starts slowly and is large: where tests run in several processes, one of them gets all that need it."""
    for item in items:
        if item.nodeid.startswith(SPARK):
            item.add_marker(pytest.mark.xdist_group("spark"))
            if not item.nodeid.startswith(ALWAYS):
                item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session", autouse=True)
def own_contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A configuration folder of the tests' own: `ottla up` writes a context there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session")
def peer(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """What makes a broker: Ottla's process, or Apache Kafka's."""
    if request.config.getoption("--on-kafka"):
        from bench.peers import KafkaPeer

        return KafkaPeer
    return BrokerProcess


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, peer: MakeBroker) -> Iterator[BrokerProcess]:
    """One broker with default settings for all tests of the session: give topics names of your own."""
    with peer(tmp_path_factory.mktemp("broker") / "data") as process:
        yield process


@pytest.fixture
def make_broker(tmp_path: Path, peer: MakeBroker) -> Iterator[MakeBroker]:
    """Brokers of the test's own, started, with the settings it names; all are ended with the test."""
    made: list[BrokerProcess] = []

    def make(
        overrides: dict[str, str] | None = None, *, name: str = "data", port: int | None = None
    ) -> BrokerProcess:
        process = peer(tmp_path / name, overrides, port=port)
        made.append(process)
        process.start()
        return process

    yield make
    for process in made:
        process.kill()
