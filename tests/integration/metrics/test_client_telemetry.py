"""Clients push their metrics (KIP-714), and the endpoint exposes them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from ottla.local.requests import request_once
from ottla.records.compression import Codec, compress
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ottla.wire.schema import Message
from tests.integration.metrics.test_endpoint import Scraped
from tests.unit.broker.metrics.test_otlp import attribute, double, metric, pushed

CLIENT_METRICS = 16
TELEMETRY = {71, 72}


class Telemetry:
    def __init__(self, broker: BrokerProcess, port: int) -> None:
        self.broker = broker
        self.port = port

    def send(self, request: Message, response: type, version: int = 0) -> Message:
        made = request_once("127.0.0.1", self.broker.port, request, response, version, 60)
        assert made is not None
        return made

    def subscribe(self, name: str, metrics: str) -> None:
        configs = [
            AlterableConfig(name="metrics", value=metrics),
            AlterableConfig(name="interval.ms", value="1000"),
        ]
        resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        response = self.send(request, IncrementalAlterConfigsResponse)
        assert [each.error_code for each in response.responses] == [0]  # type: ignore[attr-defined]

    def subscription(self, client: uuid.UUID) -> GetTelemetrySubscriptionsResponse:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=client)
        made = self.send(request, GetTelemetrySubscriptionsResponse)
        assert isinstance(made, GetTelemetrySubscriptionsResponse)
        return made

    def push(self, client: uuid.UUID, data: bytes, **fields: object) -> int:
        subscription = self.subscription(client).subscription_id
        values = {"client_instance_id": client, "subscription_id": subscription, "metrics": data, **fields}
        made = self.send(PushTelemetryRequest(**values), PushTelemetryResponse)  # type: ignore[arg-type]
        assert isinstance(made, PushTelemetryResponse)
        return made.error_code


@pytest.fixture(scope="module")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Telemetry]:
    port = free_port()
    settings = {"ottla.metrics.port": str(port), "telemetry.max.bytes": "10000"}
    with BrokerProcess(tmp_path_factory.mktemp("telemetry") / "data", settings) as broker:
        made = Telemetry(broker, port)
        made.subscribe("everything", "*")
        yield made


def listed(broker: BrokerProcess) -> set[int]:
    response = request_once("127.0.0.1", broker.port, ApiVersionsRequest(), ApiVersionsResponse, 0, 60)
    assert response is not None
    return {each.api_key for each in response.api_keys}


def test_the_apis_are_listed_with_an_endpoint_only(telemetry: Telemetry, tmp_path: Path) -> None:
    assert listed(telemetry.broker) >= TELEMETRY
    with BrokerProcess(tmp_path / "data") as other:
        assert not listed(other) & TELEMETRY


def test_a_subscription_names_the_metrics(telemetry: Telemetry) -> None:
    found = telemetry.subscription(uuid.UUID(int=0))
    assert found.client_instance_id != uuid.UUID(int=0)
    assert (found.requested_metrics, found.push_interval_ms, found.telemetry_max_bytes) == (
        [""],
        1000,
        10_000,
    )
    assert not found.delta_temporality


@pytest.mark.parametrize("codec", list(Codec))
def test_pushed_values_are_exposed(telemetry: Telemetry, codec: Codec) -> None:
    client = uuid.uuid4()
    data = pushed(metric("org.apache.kafka.producer.latency", 5, double(2.5) + attribute("node", "1")))
    assert telemetry.push(client, compress(codec, data), compression_type=int(codec)) == 0
    scraped = Scraped.of(telemetry.port)
    labels = {"client_instance_id": str(client), "node": "1", "client_id": "ottla-local"}
    assert scraped.values("kafka_client_producer_latency", **labels) == [2.5]
    assert telemetry.push(client, b"", terminating=True) == 0
    gone = Scraped.of(telemetry.port)
    assert gone.values("kafka_client_producer_latency", client_instance_id=str(client)) == []


def test_hostile_pushes_are_refused(telemetry: Telemetry) -> None:
    client = uuid.uuid4()
    assert telemetry.push(client, b"\xff" * 20) == ErrorCode.INVALID_RECORD
    assert telemetry.push(client, b"x" * 10_001) == ErrorCode.TELEMETRY_TOO_LARGE
    assert telemetry.push(client, b"x", compression_type=9) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert telemetry.push(client, b"x", compression_type=4) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert telemetry.push(client, b"", subscription_id=1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    bomb = compress(Codec.GZIP, bytes(1_000_000))
    assert telemetry.push(client, bomb, compression_type=1) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    request = PushTelemetryRequest(client_instance_id=uuid.UUID(int=0))
    assert telemetry.send(request, PushTelemetryResponse).error_code == ErrorCode.INVALID_REQUEST  # type: ignore[attr-defined]
