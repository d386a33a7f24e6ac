"""Families about quotas: what clients use, and how long they were throttled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.metrics.text import family, labels

if TYPE_CHECKING:
    from ottla.broker.quotas import Quotas

_VALUES: Final = {
    "produce": ("byte_rate", "Bytes a second that a client with a quota produces."),
    "fetch": ("byte_rate", "Bytes a second that a client with a quota fetches."),
    "request": ("request_time", "Percentage of the time of the event loop that a client with a quota uses."),
    "controllermutation": ("tokens", "Partitions that a client with a quota can change without a wait."),
}


def quota_families(quotas: Quotas) -> Iterator[str]:
    """The clients with quotas, by kind of quota, and refused connections."""
    used = [
        (kind, labels(user=each.holder[0], client_id=each.holder[1]), each)
        for kind, each in quotas.throttled()
    ]
    for kind, (name, text) in _VALUES.items():
        prefix = f"kafka_server_{kind}"
        found = [(label, each) for of, label, each in used if of == kind]
        yield from family(f"{prefix}_{name}", "gauge", text, [(label, each.value) for label, each in found])
        yield from family(
            f"{prefix}_throttle_time",
            "gauge",
            "Average throttle time in milliseconds, of throttled responses.",
            [(label, each.throttled_ms / max(each.throttles, 1)) for label, each in found],
        )
        yield from family(
            f"{prefix}_throttles_total",
            "counter",
            "Throttled responses.",
            [(label, each.throttles) for label, each in found],
        )
    rates = quotas.connections
    if rates is not None:
        prefix = "kafka_server_socket_server_metrics"
        yield from family(
            f"{prefix}_ip_connections_refused_total",
            "counter",
            "Connections above the rate of their address.",
            [("", rates.refused)],
        )
        yield from family(
            f"{prefix}_connection_accept_throttle_ms_total",
            "counter",
            "Time for which listeners accepted no connections.",
            [("", rates.paused_ms)],
        )
