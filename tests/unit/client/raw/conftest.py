"""Fake brokers, and a client of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.client.raw import ClientSettings, Cluster

from .two_brokers import TwoBrokers


@pytest.fixture
def brokers() -> Iterator[TwoBrokers]:
    made = TwoBrokers()
    yield made
    for broker in made.brokers.values():
        broker.close()


@pytest.fixture
def cluster(brokers: TwoBrokers) -> Iterator[Cluster]:
    options = {
        "bootstrap.servers": brokers.bootstrap,
        "retry.backoff.ms": 1,
        "default.api.timeout.ms": 5_000,
    }
    with Cluster(ClientSettings.from_options(options)) as made:
        yield made
