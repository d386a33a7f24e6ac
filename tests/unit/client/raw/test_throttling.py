"""A throttled client waits as requested and continues."""

from __future__ import annotations

import pytest

from ottla.client.raw import ClientSettings, Cluster, TimedOut
from ottla.wire.messages.fetch import FetchRequest

from .test_retry import Time
from .two_brokers import TP, TwoBrokers


def cluster_of(brokers: TwoBrokers, time: Time) -> Cluster:
    options = {"bootstrap.servers": brokers.bootstrap, "default.api.timeout.ms": 1000}
    return Cluster(ClientSettings.from_options(options), clock=time, wait=time.wait)


def test_a_throttled_fetch_waits_as_long_as_requested(brokers: TwoBrokers) -> None:
    time = Time()
    with cluster_of(brokers, time) as cluster:
        brokers.throttles_ms = [5000, 7000]
        assert cluster.fetch(TP, 0).end(0) == 1
        assert time.waits == [5.0, 7.0], "longer than the time that a call may take"
        brokers.throttles_ms = [5000, 7000]
        ((at, fetched),) = cluster.stream(TP, 0, 1)
        assert (at, fetched.end(0)) == (0, 1)
        assert time.waits == [5.0, 7.0] * 2
    assert sum(request is FetchRequest for _, request in brokers.asked) == 6


def test_a_response_without_the_partition_is_retried_until_the_timeout(brokers: TwoBrokers) -> None:
    time = Time()
    with cluster_of(brokers, time) as cluster:
        brokers.throttles_ms = [0, 0]
        assert cluster.fetch(TP, 0).end(0) == 1
        brokers.throttles_ms = [0] * 100
        with pytest.raises(TimedOut, match="the response does not contain the partition"):
            cluster.fetch(TP, 0)
