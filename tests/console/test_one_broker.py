"""The console of a single broker; with `--on-kafka` the same pages of Apache Kafka."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer, Producer

from ottla.local.broker_process import BrokerProcess
from tests.support.console import console_for, request, token_of
from tests.support.waiting import wait_until

TOPIC, GROUP = "console-single", "console-group"


def test_pages_and_actions_of_one_broker(broker: BrokerProcess) -> None:
    with console_for(broker.bootstrap) as console:
        headers = {"x-ottla-token": token_of(console)}
        made = request(console, "/topics", form={"name": TOPIC, "partitions": "2"}, headers=headers)
        assert made.status == 200, made.text
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for number in range(20):
            producer.produce(TOPIC, json.dumps({"id": number}), f"k{number}")
        assert producer.flush(60) == 0
        settings = {"group.id": GROUP, "auto.offset.reset": "earliest", "log_level": 0}
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, **settings})
        consumer.subscribe([TOPIC])
        assert len(consumer.consume(5, 60)) == 5
        consumer.commit(asynchronous=False)
        wait_until(lambda: GROUP in request(console, "/groups").text, "the group in the list", 60)
        for path, wanted in {
            "/": TOPIC,
            "/topics": TOPIC,
            f"/topics/{TOPIC}": "k19",
            f"/topics/{TOPIC}/partitions": "epoch",
            f"/topics/{TOPIC}/configuration?all=1": "retention.ms",
            f"/topics/{TOPIC}/fragments/timeline": "<svg",
            f"/topics/{TOPIC}/files/download?where=value.id=7": '\\"id\\": 7',
            f"/groups/{GROUP}": "rdkafka",
            "/cluster": "controller",
            "/transactions": "Transactions",
            "/pipelines": "No pipeline",
            "/scoreboard": "Scoreboard",
        }.items():
            response = request(console, path)
            assert response.status == 200, path
            assert wanted in response.text, path
        assert "data-action" not in request(console, "/cluster").text, "brokers of others are not controlled"
        refused = request(console, "/cluster/brokers/0/kill", form={}, headers=headers)
        assert refused.status == 400
        consumer.close()


@pytest.mark.parametrize("form", [{}, {"to": "start"}])
def test_a_group_that_does_not_exist_is_not_found(broker: BrokerProcess, form: dict[str, str]) -> None:
    with console_for(broker.bootstrap) as console:
        assert request(console, f"/groups/nothing?{'&'.join(form)}").status == 404
