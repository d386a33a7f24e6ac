"""Tests of `orders` on a real broker. `ottla`, `topic` and `make_ottla` are fixtures that come with Ottla."""

from __future__ import annotations

import threading

import orders
import pytest
from confluent_kafka import KafkaException


def test_an_order_is_published(ottla, topic):
    with ottla.expect(topic, count=1) as new:
        orders.publish(ottla.bootstrap, topic, "ann", 2.5)
    assert new[0].key == b"ann"
    assert new[0].json() == {"price": 2.5}


def test_totals_are_added_up(ottla, topic):
    totals = ottla.create_topic(f"{topic}-totals")
    for price in (1, 2, 4):
        ottla.produce(topic, key="ann", value={"price": price})
    with ottla.expect(totals, count=3) as new:
        orders.add_up(ottla.bootstrap, topic, totals, orders_max=3)
    assert [record.json()["total"] for record in new] == [1, 3, 7]
    assert ottla.committed("totals", topic) == {0: 3}


def test_the_consumer_follows_its_topic(ottla, topic):
    totals = ottla.create_topic(f"{topic}-totals")
    app = threading.Thread(target=orders.add_up, args=(ottla.bootstrap, topic, totals, "totals", 1))
    app.start()
    ottla.wait_for_group("totals", state="stable", members=1)
    ottla.produce(topic, key="bob", value={"price": 5})
    ottla.wait_for_lag("totals", 0)
    app.join()
    assert ottla.records(totals)[0].json() == {"total": 5}


def test_a_moved_leader_is_found(ottla, topic):
    with ottla.fault("Produce", topic=topic, error="NOT_LEADER_OR_FOLLOWER", count=3) as fault:
        orders.publish(ottla.bootstrap, topic, "ann", 1)
    assert fault.hits == 3
    assert len(ottla.records(topic)) == 1


def test_a_lost_response_does_not_duplicate_the_order(ottla, topic):
    with ottla.fault("Produce", topic=topic, drop="response", count=1):
        orders.publish(ottla.bootstrap, topic, "ann", 1)
    assert len(ottla.records(topic)) == 1


def test_a_refused_order_is_reported(ottla, topic):
    with (
        ottla.fault("Produce", topic=topic, error="TOPIC_AUTHORIZATION_FAILED"),
        pytest.raises(KafkaException, match="uthorization"),
    ):
        orders.publish(ottla.bootstrap, topic, "ann", 1)


def test_no_order_is_lost_when_a_broker_crashes(make_ottla):
    own = make_ottla(brokers=3)
    topic = own.create_topic("orders")
    orders.publish(own.bootstrap, topic, "ann", 1)
    own.kill(0)
    orders.publish(own.bootstrap, topic, "ann", 2)
    own.restart(0)
    assert [record.json()["price"] for record in own.records(topic)] == [1, 2]
    assert own.history.anomalies() == []
