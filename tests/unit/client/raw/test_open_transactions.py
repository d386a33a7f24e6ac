"""Open transactions are asked for from all brokers, of which some may be away."""

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


def test_all_brokers_are_asked(cluster: Cluster) -> None:
    assert list_open_transactions(cluster, "q.") == ({"q.1": 11, "q.2": 21}, True)


def test_a_broker_that_has_restarted_is_asked_again(brokers: TwoBrokers, cluster: Cluster) -> None:
    assert list_open_transactions(cluster, "q.").complete
    brokers.brokers[TWO].hang_up()
    assert list_open_transactions(cluster, "q.") == ({"q.1": 11, "q.2": 21}, True)
    brokers.brokers[ONE].hang_up()
    brokers.brokers[TWO].hang_up()
    assert list_open_transactions(cluster, "q.") == ({"q.1": 11, "q.2": 21}, True)


def test_a_broker_that_is_gone_is_not_waited_for(brokers: TwoBrokers, cluster: Cluster, time: Time) -> None:
    assert list_open_transactions(cluster, "q.").complete
    brokers.brokers[TWO].close()
    assert list_open_transactions(cluster, "q.") == ({"q.1": 11}, False)
    assert time.waits == []


def test_a_broker_that_hangs_up_at_the_question_is_not_asked_for_ever(
    brokers: TwoBrokers, cluster: Cluster
) -> None:
    del brokers.open[TWO]
    assert list_open_transactions(cluster, "q.") == ({"q.1": 11}, False)
    asked = [node for node, request in brokers.asked if request is ListTransactionsRequest]
    assert sorted(asked) == [ONE, TWO, TWO]


def test_a_broker_that_does_not_know_yet_says_so(brokers: TwoBrokers, cluster: Cluster) -> None:
    brokers.listing_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not list_open_transactions(cluster, "q.").complete
    brokers.listing_error = ErrorCode.NONE
    assert list_open_transactions(cluster, "q.").complete
