"""Settings of replica fetchers."""

from __future__ import annotations

import msgspec

from ottla.config.broker import BrokerConfig


class ReplicaFetchSettings(msgspec.Struct, frozen=True, kw_only=True):
    min_bytes: int = 1
    wait_max_ms: int = 500
    partition_bytes_max: int = 1 << 20
    response_bytes_max: int = 10 << 20
    backoff_s: float = 1.0
    """The longest pause after errors."""
    timeout_s: float = 30.0

    @staticmethod
    def from_config(config: BrokerConfig) -> ReplicaFetchSettings:
        return ReplicaFetchSettings(
            min_bytes=config.int("replica.fetch.min.bytes"),
            wait_max_ms=config.int("replica.fetch.wait.max.ms"),
            partition_bytes_max=config.int("replica.fetch.max.bytes"),
            response_bytes_max=config.int("replica.fetch.response.max.bytes"),
            backoff_s=config.int("replica.fetch.backoff.ms") / 1000,
            timeout_s=config.int("replica.socket.timeout.ms") / 1000,
        )
