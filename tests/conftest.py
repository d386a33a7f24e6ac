"""Fixtures that every kind of test may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.testing.broker_process import BrokerProcess

MakeBroker = Callable[..., BrokerProcess]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker with default settings for all tests of the session: give topics names of your own."""
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data") as process:
        yield process


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[MakeBroker]:
    """Brokers of the test's own, started, with the settings it names; all are ended with the test."""
    made: list[BrokerProcess] = []

    def make(overrides: dict[str, str] | None = None, *, name: str = "data") -> BrokerProcess:
        process = BrokerProcess(tmp_path / name, overrides)
        made.append(process)
        return process.start()

    yield make
    for process in made:
        process.kill()
