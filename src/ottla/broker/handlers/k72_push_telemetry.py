"""PushTelemetry (key 72), version 0: the metrics of a client (KIP-714), for the endpoint of metrics.

- A subscription that has changed is refused (117): the client requests it again.
- More than `telemetry.max.bytes` are refused (118); data that cannot be decoded (87), or decompressed (76).
- A client that terminates is forgotten.
- Without an endpoint for metrics the data is dropped, and ApiVersions does not list the API.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.executor import Executor
from ottla.base.ids import ZERO_UUID
from ottla.base.promise import Promise
from ottla.base.settled import settled
from ottla.broker.dependencies import MetadataCache
from ottla.broker.metrics.otlp import MalformedMetrics, Point, decode_metrics
from ottla.broker.metrics.telemetry import ClientIdentity, ClientTelemetry, client_metrics, subscription_of
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import NOTHING
from ottla.config.broker import BrokerConfig
from ottla.records.compression import DecompressedTooLarge, DecompressionFailed, decompress
from ottla.wire.apis import ApiKey
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

_GROWTH_MAX: Final = 4
"""Decompressed bytes per byte of `telemetry.max.bytes`."""
_CODECS: Final = range(5)


@handles(ApiKey.PUSH_TELEMETRY, PushTelemetryRequest, versions=(0, 0), telemetry=True, requires=NOTHING)
@dataclass(frozen=True)
class PushTelemetry:
    """Decodes what a client pushes, in the executor, and keeps it."""

    config: BrokerConfig
    metadata: MetadataCache
    executor: Executor
    telemetry: ClientTelemetry | None

    async def handle(self, request: PushTelemetryRequest, call: Call) -> PushTelemetryResponse:
        if self.telemetry is None:
            return PushTelemetryResponse()
        return PushTelemetryResponse(error_code=await self._push(self.telemetry, request, call))

    async def _push(self, telemetry: ClientTelemetry, request: PushTelemetryRequest, call: Call) -> ErrorCode:
        if request.client_instance_id == ZERO_UUID:
            return ErrorCode.INVALID_REQUEST
        client = ClientIdentity.of(request.client_instance_id, call.client_id, call.origin.peer)
        subscription = subscription_of(client_metrics(self.metadata.image), client)
        if request.subscription_id != subscription.id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        limit = self.config.int("telemetry.max.bytes")
        if len(request.metrics) > limit:
            return ErrorCode.TELEMETRY_TOO_LARGE
        if request.compression_type not in _CODECS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if request.terminating:
            telemetry.terminated(client.instance_id)
            return ErrorCode.NONE
        try:
            points = await self._decode(request, limit)
        except (DecompressionFailed, DecompressedTooLarge):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        except MalformedMetrics:
            return ErrorCode.INVALID_RECORD
        telemetry.pushed(client, points, subscription.interval_ms)
        return ErrorCode.NONE

    async def _decode(self, request: PushTelemetryRequest, limit: int) -> list[Point]:
        found: list[Point] = []
        done: Promise[None] = Promise()

        def work() -> None:
            data = bytes(decompress(request.compression_type, request.metrics, _GROWTH_MAX * limit))
            found.extend(decode_metrics(data))

        def finish(error: BaseException | None) -> None:
            if error is None:
                done.keep(None)
            else:
                done.fail(error)

        self.executor.submit(work, finish)
        await settled(done)
        return found
