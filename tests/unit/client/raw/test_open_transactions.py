"""Open transactions of all brokers, some of which cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.base.errors import ErrorCode
from ottla.client.raw import ClientSettings, Cluster
from ottla.client.raw.admin import list_open_transactions
from ottla.wire.messages.list_transactions import ListTransactionsRequest

from .test_retry import Time
from .two_brokers import ONE, TWO, TwoBrokers


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def cluster(brokers: TwoBrokers, time: Time) -> Iterator[Cluster]:
    brokers.open = {ONE: {"q.1": 11, "other": 12}, TWO: {"q.2": 21}}
    options = {"bootstrap.servers": brokers.bootstrap}
    with Cluster(ClientSettings.from_options(options), clock=time, wait=time.wait) as made:
        yield made


def test_all_brokers_get_the_request(cluster: Cluster) -> None:
    assert list_open_transactions(cluster, "q.") == ({"q.1": 11, "q.2": 21}, True)


def test_a_broker_that_has_restarted_gets_the_request_again(brokers: TwoBrokers, cluster: Cluster) -> None:
    assert list_open_transactions(cluster, "q.").complete
    brokers.brokers[TWO].hang_up()
    assert list_open_transactions(cluster, "q.") == ({"q.1": 11, "q.2": 21}, True)
    brokers.brokers[ONE].hang_up()
    brokers.brokers[TWO].hang_up()
    assert list_open_transactions(cluster, "q.") == ({"q.1": 11, "q.2": 21}, True)


def test_an_unreachable_broker_makes_the_result_incomplete(
    brokers: TwoBrokers, cluster: Cluster, time: Time
) -> None:
    assert list_open_transactions(cluster, "q.").complete
    brokers.brokers[TWO].close()
    assert list_open_transactions(cluster, "q.") == ({"q.1": 11}, False)
    assert time.waits == []


def test_a_broker_that_closes_the_connection_is_requested_twice_at_most(
    brokers: TwoBrokers, cluster: Cluster
) -> None:
    del brokers.open[TWO]
    assert list_open_transactions(cluster, "q.") == ({"q.1": 11}, False)
    asked = [node for node, request in brokers.asked if request is ListTransactionsRequest]
    assert sorted(asked) == [ONE, TWO, TWO]


def test_a_broker_that_is_loading_makes_the_result_incomplete(brokers: TwoBrokers, cluster: Cluster) -> None:
    brokers.listing_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not list_open_transactions(cluster, "q.").complete
    brokers.listing_error = ErrorCode.NONE
    assert list_open_transactions(cluster, "q.").complete
