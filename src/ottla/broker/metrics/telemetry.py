"""Metrics that clients push (KIP-714): which metrics are subscribed, and the last values of each client.

A subscription is a resource of type CLIENT_METRICS: `metrics` lists prefixes of names, `interval.ms` the interval, and
`match` the clients, as selector=pattern entries. All that match a client are merged: all their prefixes, and the
shortest interval. The selectors of software names never match: connections do not keep them.

The values are exposed as `kafka_client_...` with the client id, the instance id and the attributes of the point. Memory
is bounded: a number of clients, the least recent of which is forgotten, and a number of points of each. A client that
has not pushed for three intervals is forgotten as well. Concurrency: the event loop only.
"""

from __future__ import annotations

import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from ottla.base.ids import Uuid
from ottla.broker.metrics.otlp import Point
from ottla.broker.metrics.text import family, labels
from ottla.metadata.image import MetadataImage, ResourceType

CLIENTS_MAX: Final = 500
POINTS_MAX: Final = 500
"""Points of a client that are kept."""
INTERVAL_MS: Final = 300_000
_INTERVALS_KEPT: Final = 3
_PATTERN_CHARS_MAX: Final = 200
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]")
_COMMON_PREFIX: Final = "org.apache.kafka."
_OWN_LABELS: Final = ("client_id", "client_instance_id")


class Subscription(NamedTuple):
    """What one client is to push."""

    id: int
    metrics: list[str]
    interval_ms: int


class ClientIdentity(NamedTuple):
    """What selectors are compared with."""

    instance_id: Uuid
    client_id: str
    address: str
    port: str

    @classmethod
    def of(cls, instance_id: Uuid, client_id: str | None, peer: str) -> ClientIdentity:
        """The client of a request; `peer` is its address with the port."""
        address, _, port = peer.rpartition(":")
        return cls(instance_id, client_id or "", address, port)


def client_metrics(image: MetadataImage) -> dict[str, Mapping[str, str]]:
    """The subscriptions in the metadata, by name."""
    wanted = ResourceType.CLIENT_METRICS
    return {name: values for (kind, name), values in image.configs.items() if kind == wanted}


def subscription_of(configs: Mapping[str, Mapping[str, str]], client: ClientIdentity) -> Subscription:
    """Merge the subscriptions that match a client; without one it pushes nothing."""
    prefixes: set[str] = set()
    interval_ms = INTERVAL_MS
    for values in configs.values():
        wanted = [each.strip() for each in values.get("metrics", "").split(",") if each.strip()]
        if wanted and _matches(values.get("match", ""), client):
            prefixes.update(wanted)
            interval_ms = min(interval_ms, _number(values.get("interval.ms"), INTERVAL_MS))
    # "" subscribes to all metrics, "*" is how the setting says so.
    metrics = [""] if "*" in prefixes else sorted(prefixes)
    digest = zlib.crc32(repr((metrics, interval_ms)).encode()) & 0x7FFFFFFF
    return Subscription(digest, metrics, interval_ms)


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() else default


def _matches(match: str, client: ClientIdentity) -> bool:
    known = {
        "client_instance_id": str(client.instance_id),
        "client_id": client.client_id,
        "client_source_address": client.address,
        "client_source_port": client.port,
    }
    for entry in filter(None, (each.strip() for each in match.split(","))):
        selector, _, pattern = entry.partition("=")
        if selector.strip() not in known or not _full_match(pattern.strip(), known[selector.strip()]):
            return False
    return True


def _full_match(pattern: str, value: str) -> bool:
    """Match with RE2, which needs linear time: the pattern is a setting that clients can change."""
    import re2

    try:
        return len(pattern) <= _PATTERN_CHARS_MAX and re2.fullmatch(pattern, value) is not None
    except re2.error:
        return False


class _Client(NamedTuple):
    client_id: str
    points: list[Point]
    expires: float


class ClientTelemetry:
    """The last values that each client has pushed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._clients: OrderedDict[Uuid, _Client] = OrderedDict()

    def pushed(self, client: ClientIdentity, points: list[Point], interval_ms: int) -> None:
        """Replace the values of a client."""
        expires = self._clock() + _INTERVALS_KEPT * interval_ms / 1000
        self._clients[client.instance_id] = _Client(client.client_id, points[:POINTS_MAX], expires)
        self._clients.move_to_end(client.instance_id)
        while len(self._clients) > CLIENTS_MAX:
            self._clients.popitem(last=False)

    def terminated(self, instance_id: Uuid) -> None:
        """Forget a client that ends."""
        self._clients.pop(instance_id, None)

    def families(self) -> Iterator[str]:
        """The values of all clients, by metric."""
        now = self._clock()
        for instance_id in [key for key, each in self._clients.items() if each.expires < now]:
            del self._clients[instance_id]
        by_name: dict[str, dict[str, Point]] = {}
        for instance_id, client in self._clients.items():
            for point in client.points:
                values = {"client_id": client.client_id, "client_instance_id": str(instance_id)}
                for key, text in point.attributes:
                    name = _NOT_IN_NAMES.sub("_", key)
                    if name and not name[0].isdigit() and name not in _OWN_LABELS:
                        values[name] = text
                by_name.setdefault(exposed_name(point.name), {})[labels(**values)] = point
        for name, points in sorted(by_name.items()):
            kind = "counter" if next(iter(points.values())).monotonic else "gauge"
            samples = ((label, point.value) for label, point in points.items())
            yield from family(name, kind, "Pushed by clients (KIP-714).", samples)


def exposed_name(name: str) -> str:
    """The name of a client metric in Prometheus's form."""
    return "kafka_client_" + _NOT_IN_NAMES.sub("_", name.removeprefix(_COMMON_PREFIX))
