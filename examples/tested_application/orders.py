"""An application on Kafka: `publish` sends orders, `add_up` consumes them and publishes the total of each customer."""

from __future__ import annotations

import json
from collections import defaultdict

from confluent_kafka import Consumer, KafkaException, Producer


def publish(bootstrap: str, topic: str, customer: str, price: float) -> None:
    """Send one order and wait until it is stored. Raises KafkaException if it cannot be."""
    failures = []

    def delivered(error, _message):
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "retry.backoff.ms": 50})
    producer.produce(topic, key=customer, value=json.dumps({"price": price}), on_delivery=delivered)
    producer.flush()
    if failures:
        raise KafkaException(failures[0])


def add_up(bootstrap: str, orders: str, totals: str, group: str = "totals", orders_max: int | None = None) -> None:
    """Consume orders, `orders_max` at most, and publish the new total of the customer after each."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    consumer.subscribe([orders])
    sums: dict[str, float] = defaultdict(float)
    handled = 0
    while orders_max is None or handled < orders_max:
        message = consumer.poll(0.1)
        if message is None or message.error():
            continue
        customer = message.key().decode()
        sums[customer] += json.loads(message.value())["price"]
        producer.produce(totals, key=customer, value=json.dumps({"total": sums[customer]}))
        producer.flush()
        consumer.commit(message, asynchronous=False)
        handled += 1
    consumer.close()
