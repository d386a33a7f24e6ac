"""GetTelemetrySubscriptions (key 71), version 0: no metrics are wanted from any client (KIP-714).

Not listed by ApiVersions, as with a Kafka that has no receiver of client metrics, but answered.
"""

from __future__ import annotations

import zlib
from typing import Final

from ottla.base.ids import ZERO_UUID
from ottla.base.rng import random_uuid
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
def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, call: Call
) -> GetTelemetrySubscriptionsResponse:
    client = request.client_instance_id
    if client == ZERO_UUID:
        client = random_uuid(call.broker.rng)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client,
        subscription_id=zlib.crc32(client.bytes) & 0x7FFFFFFF,
        accepted_compression_types=_CODECS,
        push_interval_ms=_PUSH_INTERVAL_MS,
        telemetry_max_bytes=_BYTES_MAX,
        delta_temporality=True,
    )
