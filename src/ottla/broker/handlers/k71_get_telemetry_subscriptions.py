"""GetTelemetrySubscriptions (key 71), version 0: which metrics a client is to push (KIP-714).

Without an endpoint for metrics the subscription is empty and ApiVersions does not list the API, as in a Kafka without a
receiver of client metrics. Counters are requested as totals: the endpoint exposes the last value of each.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

from ottla.base.ids import ZERO_UUID
from ottla.base.rng import Random, random_uuid
from ottla.broker.dependencies import MetadataCache
from ottla.broker.metrics.telemetry import (
    INTERVAL_MS,
    ClientIdentity,
    ClientTelemetry,
    client_metrics,
    subscription_of,
)
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import NOTHING
from ottla.config.broker import BrokerConfig
from ottla.wire.apis import ApiKey
from ottla.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

_CODECS: Final = [4, 3, 1, 2]


@handles(
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    GetTelemetrySubscriptionsRequest,
    versions=(0, 0),
    telemetry=True,
    requires=NOTHING,
)
@dataclass(frozen=True)
class GetTelemetrySubscriptions:
    """Assigns a client instance id, and subscribes to the metrics of the matching CLIENT_METRICS resources."""

    rng: Random
    config: BrokerConfig
    metadata: MetadataCache
    telemetry: ClientTelemetry | None

    def handle(
        self, request: GetTelemetrySubscriptionsRequest, call: Call
    ) -> GetTelemetrySubscriptionsResponse:
        client = request.client_instance_id
        if client == ZERO_UUID:
            client = random_uuid(self.rng)
        response = GetTelemetrySubscriptionsResponse(
            client_instance_id=client,
            subscription_id=zlib.crc32(client.bytes) & 0x7FFFFFFF,
            accepted_compression_types=_CODECS,
            push_interval_ms=INTERVAL_MS,
            telemetry_max_bytes=self.config.int("telemetry.max.bytes"),
            delta_temporality=True,
        )
        if self.telemetry is not None:
            identity = ClientIdentity.of(client, call.client_id, call.origin.peer)
            subscription = subscription_of(client_metrics(self.metadata.image), identity)
            response.subscription_id = subscription.id
            response.push_interval_ms = subscription.interval_ms
            response.requested_metrics = subscription.metrics
            response.delta_temporality = False
        return response
