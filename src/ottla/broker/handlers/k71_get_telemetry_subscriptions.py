"""GetTelemetrySubscriptions (key 71), version 0: an empty subscription for every client (KIP-714).

Served but not listed by ApiVersions, as in a Kafka without a receiver of client metrics.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

from ottla.base.ids import ZERO_UUID
from ottla.base.rng import Random, random_uuid
from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

_CODECS: Final = [4, 3, 1, 2]
_PUSH_INTERVAL_MS: Final = 300_000
_BYTES_MAX: Final = 1_048_576


@handles(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, GetTelemetrySubscriptionsRequest, versions=(0, 0), listed=False)
@dataclass(frozen=True)
class GetTelemetrySubscriptions:
    """Assigns a client instance id and subscribes to no metrics."""

    rng: Random

    def handle(
        self, request: GetTelemetrySubscriptionsRequest, call: Call
    ) -> GetTelemetrySubscriptionsResponse:
        client = request.client_instance_id
        if client == ZERO_UUID:
            client = random_uuid(self.rng)
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=client,
            subscription_id=zlib.crc32(client.bytes) & 0x7FFFFFFF,
            accepted_compression_types=_CODECS,
            push_interval_ms=_PUSH_INTERVAL_MS,
            telemetry_max_bytes=_BYTES_MAX,
            delta_temporality=True,
        )
