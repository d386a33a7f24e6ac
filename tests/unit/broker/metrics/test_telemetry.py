"""Subscriptions of clients, and the values that they push."""

from __future__ import annotations

import uuid

from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.metrics.otlp import Point
from ottla.broker.metrics.telemetry import (
    CLIENTS_MAX,
    INTERVAL_MS,
    POINTS_MAX,
    ClientIdentity,
    ClientTelemetry,
    subscription_of,
)

CLIENT = ClientIdentity.of(uuid.UUID(int=1), "app-1", "127.0.0.1:5000")


class FakeClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_subscriptions_that_match_are_merged() -> None:
    configs = {
        "one": {"metrics": "org.a, org.b", "interval.ms": "1000", "match": "client_id=app-.*"},
        "two": {"metrics": "org.c", "interval.ms": "500"},
        "other": {"metrics": "org.d", "match": "client_id=other"},
        "address": {"metrics": "org.e", "match": "client_source_address=127.*,client_source_port=5000"},
        "software": {"metrics": "org.f", "match": "client_software_name=librdkafka"},
        "broken": {"metrics": "org.g", "match": "client_id=("},
        "empty": {"interval.ms": "1"},
    }
    found = subscription_of(configs, CLIENT)
    assert found.metrics == ["org.a", "org.b", "org.c", "org.e"]
    assert found.interval_ms == 500
    assert found == subscription_of(configs, CLIENT)
    assert found.id != subscription_of({}, CLIENT).id


def test_all_metrics_and_none() -> None:
    assert subscription_of({"all": {"metrics": "*"}}, CLIENT).metrics == [""]
    assert subscription_of({}, CLIENT)[1:] == ([], INTERVAL_MS)


def exposed(telemetry: ClientTelemetry) -> dict[str, list[tuple[dict[str, str], float]]]:
    return {
        each.name: [(sample.labels, sample.value) for sample in each.samples]
        for each in text_string_to_metric_families("".join(telemetry.families()))
    }


def test_the_last_values_are_exposed() -> None:
    telemetry = ClientTelemetry(FakeClock())
    name = "org.apache.kafka.consumer.fetch.manager.records.lag"
    telemetry.pushed(CLIENT, [Point(name, (("topic", "old"),), 1.0, False)], 1000)
    points = [Point(name, (("topic", "t"), ("1st", "x"), ("client_id", "forged")), 2.0, False)]
    telemetry.pushed(CLIENT, points, 1000)
    labels = {"client_id": "app-1", "client_instance_id": str(uuid.UUID(int=1)), "topic": "t"}
    assert exposed(telemetry) == {"kafka_client_consumer_fetch_manager_records_lag": [(labels, 2.0)]}


def test_clients_are_forgotten() -> None:
    clock = FakeClock()
    telemetry = ClientTelemetry(clock)
    telemetry.pushed(CLIENT, [Point("a", (), 1.0, False)], 1000)
    clock.now = 3.1
    assert exposed(telemetry) == {}
    telemetry.pushed(CLIENT, [Point("a", (), 1.0, False)], 1000)
    telemetry.terminated(CLIENT.instance_id)
    assert exposed(telemetry) == {}


def test_memory_is_bounded() -> None:
    telemetry = ClientTelemetry(FakeClock())
    points = [Point("a", (("n", str(n)),), 1.0, False) for n in range(POINTS_MAX + 5)]
    telemetry.pushed(CLIENT, points, 1000)
    assert len(exposed(telemetry)["kafka_client_a"]) == POINTS_MAX
    for number in range(CLIENTS_MAX):
        other = ClientIdentity.of(uuid.UUID(int=number + 2), "b", "127.0.0.1:1")
        telemetry.pushed(other, [Point("b", (), 1.0, False)], 1000)
    found = exposed(telemetry)
    assert list(found) == ["kafka_client_b"]
    assert len(found["kafka_client_b"]) == CLIENTS_MAX
