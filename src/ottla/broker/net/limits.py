"""Limits of connections: their number, frame sizes, pending bytes, timeouts. All are bounded by default.

Kafka leaves most of these unlimited, so that one client can exhaust a broker; the defaults here are large but finite.
`queued.max.request.bytes`, `max.connections`, `max.connections.per.ip` (and
`.overrides`), `socket.request.max.bytes` and `connections.max.idle.ms` set them.
"""

from __future__ import annotations

import resource
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from ottla.config.dynamic_rules import parse_connection_overrides

if TYPE_CHECKING:
    from ottla.config.broker import BrokerValues

# Descriptors for files and sockets of the broker itself.
_RESERVED_DESCRIPTORS: Final = 256
_CONNECTIONS_MAX: Final = 20_000
_IN_FLIGHT_BYTES_MAX: Final = 256 * 1024 * 1024


class Limits(msgspec.Struct, frozen=True):
    """The limits of all connections of a broker."""

    frame_bytes_max: int = 100 * 1024 * 1024
    connections_max: int = _CONNECTIONS_MAX
    connections_per_ip_max: int = 2**31 - 1
    connections_per_ip_overrides: dict[str, int] = {}
    in_flight_bytes_max: int = _IN_FLIGHT_BYTES_MAX
    connection_in_flight_bytes_max: int = 16 * 1024 * 1024
    connection_pending_max: int = 2048
    # Immediate responses of a connection in one iteration of the loop, before other connections are served.
    connection_responses_max: int = 16
    idle_seconds_max: float = 600.0
    # The size of a frame must arrive within `frame_start_seconds_max`, then its bytes at the minimum rate.
    frame_start_seconds_max: float = 10.0
    frame_bytes_per_second_min: int = 1024
    # The minimum rate while memory is exhausted: other connections wait until the frame is complete.
    exhausted_bytes_per_second_min: int = 256 * 1024
    # A client with pending bytes to read must read some of them within this time.
    write_stall_seconds_max: float = 60.0
    # A TLS handshake must be complete within this time, and its messages must not be larger.
    handshake_seconds_max: float = 10.0
    # With the state of OpenSSL, 47 KiB, a connection has less than 64 KiB before its client is authenticated.
    handshake_bytes_max: int = 14 * 1024

    @classmethod
    def from_config(cls, config: BrokerValues) -> Limits:
        frame_bytes_max = config.int("socket.request.max.bytes")
        queued = config.long("queued.max.request.bytes")
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        room = max(16, (descriptors - _RESERVED_DESCRIPTORS) * 3 // 4)
        idle_ms = config.long("connections.max.idle.ms")
        return cls(
            frame_bytes_max=frame_bytes_max,
            connections_max=min(config.int("max.connections"), _CONNECTIONS_MAX, room),
            connections_per_ip_max=config.int("max.connections.per.ip"),
            connections_per_ip_overrides=parse_connection_overrides(
                config.str("max.connections.per.ip.overrides")
            ),
            # A smaller limit would not allow a single frame.
            in_flight_bytes_max=max(queued if queued > 0 else _IN_FLIGHT_BYTES_MAX, frame_bytes_max),
            idle_seconds_max=idle_ms / 1000 if idle_ms >= 0 else float("inf"),
        )


class ConnectionCount:
    """The number of connections, in total and per address."""

    def __init__(self) -> None:
        self._per_ip: Counter[str] = Counter()
        self.total = 0

    def admit(self, ip: str, limits: Limits) -> bool:
        """Count a new connection from `ip`; False if a limit is reached."""
        # An IPv4 client of a dual-stack socket has a mapped address.
        plain = ip.removeprefix("::ffff:")
        most = limits.connections_per_ip_overrides.get(plain, limits.connections_per_ip_max)
        if self.total >= limits.connections_max or self._per_ip[ip] >= most:
            return False
        self.total += 1
        self._per_ip[ip] += 1
        return True

    def release(self, ip: str) -> None:
        self.total -= 1
        self._per_ip[ip] -= 1
        if not self._per_ip[ip]:
            del self._per_ip[ip]
