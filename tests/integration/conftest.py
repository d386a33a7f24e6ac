"""A broker that does at once what others do from time to time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.local.broker_process import BrokerProcess
from tests.conftest import MakeBroker

BRISK = {
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.cleaner.backoff.ms": "50",
    "log.flush.offset.checkpoint.interval.ms": "100",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
    "log.flush.scheduler.interval.ms": "100",
    "log.flush.interval.ms": "9223372036854775807",
    "log.segment.delete.delay.ms": "200",
}


@pytest.fixture(scope="session")
def brisk(tmp_path_factory: pytest.TempPathFactory, peer: MakeBroker) -> Iterator[BrokerProcess]:
    """One broker with short intervals for all tests of settings: give topics names of your own."""
    with peer(tmp_path_factory.mktemp("brisk") / "data", BRISK) as process:
        yield process
