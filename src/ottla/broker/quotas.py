"""Client quotas of one node: what its clients use, and how long they must wait (KIP-13, KIP-124, KIP-219, KIP-599).

A client that exceeds a quota gets its response at once, with the time for which it is throttled; until then the broker
does not read from its connection. So a client that ignores the time is held back as well.

- `produce` counts the bytes of Produce requests, `fetch` the bytes of records in responses to consumers. A throttled
  fetch returns no records, and they are not counted.
- `request` counts the time in which the event loop handles requests, as a percentage: 100 is all the time of the loop.
  Counted is the time until a handler responds or waits. A client waits for at most one window.
- `mutations` counts partitions that are created or deleted; it is used on the active controller.
- `connections` counts new connections, of addresses, of listeners and of the broker.
- `leader_replication` and `follower_replication` count the bytes of throttled replicas, `moves` those of moves between
  log directories. They are set by settings of the broker.

`produce`, `fetch`, `request` and `connections` are None without a quota of their kind, so a broker without quotas
compares a field with None and does nothing else. Requests of brokers and of their followers are counted by the quotas
of replication only.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.replication.quota import ReplicationQuota
from ottla.security.quotas.connections import ConnectionRates
from ottla.security.quotas.limits import AddressLimits, ClientLimits
from ottla.security.quotas.usage import BucketUsage, RateUsage, Throttled, Windows

if TYPE_CHECKING:
    from ottla.base.clock import Clock
    from ottla.broker.net.connection import Connection
    from ottla.broker.registry import Call
    from ottla.config.broker import BrokerConfig
    from ottla.config.dynamic import DynamicConfig
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage, QuotaEntity

_NO_LIMITS: Final = ClientLimits({}, "")
_CREATION_RATE: Final = "max.connection.creation.rate"
_LEADER_RATE: Final = "leader.replication.throttled.rate"
_FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
_MOVES_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
REPLICATION_RATES: Final = (_LEADER_RATE, _FOLLOWER_RATE, _MOVES_RATE)


class TrafficQuota:
    """A quota of bytes."""

    __slots__ = ("_clock", "usage")

    def __init__(self, usage: RateUsage, clock: Clock) -> None:
        self.usage = usage
        self._clock = clock

    def charge(self, connection: Connection, call: Call, size: int, *, refund: bool = False) -> int:
        """Count bytes, and stop reading from the connection if they are too many; the throttle time.

        With `refund` they are not counted in this case.
        """
        user, now_ms = call.origin.principal.name, _milliseconds(self._clock)
        wait_ms = self.usage.charge(user, call.client_id or "", size, now_ms, refund=refund)
        if wait_ms:
            connection.throttle(wait_ms / 1000)
        return wait_ms

    def window_bytes(self, call: Call) -> int | None:
        """The most bytes of one response; None if they are not limited."""
        return self.usage.window_bytes(call.origin.principal.name, call.client_id or "")


class TimeQuota:
    """A quota of the time of the event loop."""

    __slots__ = ("_clock", "usage")

    def __init__(self, usage: RateUsage, clock: Clock) -> None:
        self.usage = usage
        self._clock = clock

    def now(self) -> float:
        """The time at which the handling of a request starts."""
        return self._clock.monotonic()

    def charge(self, connection: Connection, call: Call) -> int:
        """Count the time since `call.started`, once, and stop reading from the connection if it is too much."""
        spent = self._clock.monotonic() - call.started
        call.started = 0.0
        user, now_ms = call.origin.principal.name, _milliseconds(self._clock)
        wait_ms = self.usage.charge(user, call.client_id or "", 100 * spent, now_ms)
        if wait_ms:
            call.throttle_ms = max(call.throttle_ms, wait_ms)
            connection.throttle(wait_ms / 1000)
        return wait_ms


class MutationCharge:
    """The partitions that one request changes. `throttle_ms` is the throttle time of its response."""

    __slots__ = ("_call", "_clock", "_strict", "_usage", "throttle_ms")

    def __init__(self, usage: BucketUsage, clock: Clock, call: Call, *, strict: bool) -> None:
        self._usage = usage
        self._clock = clock
        self._call = call
        self._strict = strict
        self.throttle_ms = 0

    def __call__(self, partitions: int) -> None:
        """Count partitions; ApiError if the quota is exceeded and strict."""
        user, client_id = self._call.origin.principal.name, self._call.client_id or ""
        wait_ms = self._usage.charge(
            user, client_id, partitions, _milliseconds(self._clock), strict=self._strict
        )
        if wait_ms:
            self.throttle_ms = wait_ms
            if self._strict:
                raise ApiError(
                    ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the quota of changed partitions is exceeded"
                )


class Quotas:
    """The quotas of the newest metadata, and their use on this node."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        windows = Windows(config.int("quota.window.num"), 1000 * config.int("quota.window.size.seconds"))
        changes = Windows(
            config.int("controller.quota.window.num"),
            1000 * config.int("controller.quota.window.size.seconds"),
        )
        self._clock = clock
        self._quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}
        self._produce = TrafficQuota(RateUsage(_NO_LIMITS, windows), clock)
        self._fetch = TrafficQuota(RateUsage(_NO_LIMITS, windows), clock)
        self._request = TimeQuota(RateUsage(_NO_LIMITS, windows, throttle_max_ms=windows.window_ms), clock)
        self._mutations = BucketUsage(_NO_LIMITS, changes)
        self.produce: TrafficQuota | None = None
        self.fetch: TrafficQuota | None = None
        self.request: TimeQuota | None = None
        self._rates = ConnectionRates(windows, config.text("inter.broker.listener.name") or "")
        self.connections: ConnectionRates | None = None
        self.leader_replication = _replication_quota(config, "replication", clock)
        self.follower_replication = _replication_quota(config, "replication", clock)
        self.moves = _replication_quota(config, "alter.log.dirs.replication", clock)

    def changed(self, _: MetadataDelta, image: MetadataImage) -> None:
        """Follow a change of the metadata; a listener of the publisher."""
        self.load(image)

    def load(self, image: MetadataImage) -> None:
        """Use the quotas of an image."""
        quotas = image.quotas
        if quotas is self._quotas:
            return
        self._quotas = quotas
        self._produce.usage.limits = ClientLimits(quotas, "producer_byte_rate")
        self._fetch.usage.limits = ClientLimits(quotas, "consumer_byte_rate")
        self._request.usage.limits = ClientLimits(quotas, "request_percentage")
        self._mutations.limits = ClientLimits(quotas, "controller_mutation_rate")
        self.produce = self._produce if self._produce.usage else None
        self.fetch = self._fetch if self._fetch.usage else None
        self.request = self._request if self._request.usage else None
        self._rates.set_addresses(AddressLimits(quotas))
        self.connections = self._rates if self._rates else None

    def set_connection_rates(self, settings: DynamicConfig, listeners: Iterable[str]) -> None:
        """Use the settings `max.connection.creation.rate` of the broker and of each listener."""
        broker = settings.int(_CREATION_RATE)
        rates = {name: settings.listener_int(name, _CREATION_RATE) for name in listeners}
        self._rates.set_rates(broker, rates)
        self.connections = self._rates if self._rates else None

    def set_replication_rates(self, settings: DynamicConfig) -> None:
        """Use the settings of the bytes per second that replicas copy."""
        self.leader_replication.set_bound(settings.int(_LEADER_RATE))
        self.follower_replication.set_bound(settings.int(_FOLLOWER_RATE))
        self.moves.set_bound(settings.int(_MOVES_RATE))

    def mutations(self, call: Call, *, strict: bool) -> MutationCharge:
        """The charge of a request that changes partitions."""
        return MutationCharge(self._mutations, self._clock, call, strict=strict)

    def throttled(self) -> Iterator[tuple[str, Throttled]]:
        """The use of each quota by each client that has one, for metrics."""
        now_ms = _milliseconds(self._clock)
        for kind, usage in (
            ("produce", self._produce.usage),
            ("fetch", self._fetch.usage),
            ("request", self._request.usage),
            ("controllermutation", self._mutations),
        ):
            for each in usage.throttled(now_ms):
                yield kind, each


def _replication_quota(config: BrokerConfig, kind: str, clock: Clock) -> ReplicationQuota:
    window_ms = 1000 * config.int(f"{kind}.quota.window.size.seconds")
    return ReplicationQuota(config.int(f"{kind}.quota.window.num"), window_ms, clock)


def _milliseconds(clock: Clock) -> int:
    return int(clock.monotonic() * 1000)
