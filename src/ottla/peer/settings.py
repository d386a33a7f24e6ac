"""Limits and timeouts of the connections to other nodes; the defaults are those of Kafka's network client."""

from __future__ import annotations

import msgspec


class PeerSettings(msgspec.Struct, frozen=True, kw_only=True):
    client_id: str
    connection_setup_timeout_s: float = 10.0
    """Time to open a connection and to learn the API versions of the other side."""
    reconnect_backoff_s: float = 0.05
    reconnect_backoff_max_s: float = 1.0
    requests_in_flight_max: int = 1000
    bytes_in_flight_max: int = 64 << 20
    """Request bytes without a response, per connection. A single larger request is allowed if no other is in flight."""
    response_bytes_max: int = 128 << 20
    """A larger frame closes the connection; at least 128 KiB."""
