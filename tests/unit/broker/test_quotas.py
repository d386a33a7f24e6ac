from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.quotas import Quotas
from ottla.broker.registry import Call
from ottla.config.broker import BrokerConfig
from ottla.config.dynamic import DynamicConfig
from ottla.metadata.image import MetadataImage, QuotaEntity
from ottla.security.principal import user
from tests.support.quotas import make_quotas

ALICE: QuotaEntity = (("user", "alice"),)


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self.seconds


class Connection:
    def __init__(self) -> None:
        self.throttles: list[float] = []

    def throttle(self, seconds: float) -> None:
        self.throttles.append(seconds)


def call(name: str = "alice") -> Call:
    return Call(0, 0, "app", cast(Any, SimpleNamespace(principal=user(name))))


def made(**limits: float) -> tuple[Quotas, Clock, Any]:
    clock = Clock()
    return make_quotas({ALICE: limits}, clock), clock, Connection()


def test_without_a_quota_there_is_nothing_to_count() -> None:
    quotas = make_quotas()
    assert (quotas.produce, quotas.fetch, quotas.request, quotas.connections) == (None, None, None, None)
    quotas.load(MetadataImage(quotas={ALICE: {"producer_byte_rate": 1.0}}))
    assert quotas.produce is not None
    assert quotas.fetch is None
    quotas.load(MetadataImage())
    assert quotas.produce is None


def test_bytes() -> None:
    quotas, _, connection = made(producer_byte_rate=1000.0, consumer_byte_rate=10.0)
    assert quotas.produce is not None
    assert quotas.fetch is not None
    assert quotas.produce.charge(connection, call(), 10_000) == 0
    assert connection.throttles == []
    assert quotas.produce.charge(connection, call(), 5000) == 5000
    assert quotas.produce.charge(connection, call("bob"), 10**9) == 0
    assert connection.throttles == [5.0]
    assert quotas.fetch.window_bytes(call()) == 100
    assert quotas.fetch.charge(connection, call(), 101, refund=True) == 100
    assert quotas.fetch.charge(connection, call(), 100, refund=True) == 0
    assert [(kind, each.throttles, each.throttled_ms) for kind, each in quotas.throttled()] == [
        ("produce", 1, 5000),
        ("fetch", 1, 100),
    ]


def test_all_the_time_of_the_loop_is_100_percent() -> None:
    quotas, clock, connection = made(request_percentage=10.0)
    quota = quotas.request
    assert quota is not None
    one = call()
    one.started = quota.now()
    clock.seconds += 1.0  # 100 % of one second, 10 % of ten
    assert quota.charge(connection, one) == 0
    assert one.started == 0.0
    other = call()
    other.started = quota.now()
    clock.seconds += 1.0
    assert quota.charge(connection, other) == 1000
    assert other.throttle_ms == 1000
    assert connection.throttles == [1.0]


def test_changes_of_partitions() -> None:
    quotas, _, _ = made(controller_mutation_rate=1.0)
    strict = quotas.mutations(call(), strict=True)
    strict(12)
    assert strict.throttle_ms == 0
    with pytest.raises(ApiError) as refused:
        strict(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert strict.throttle_ms == 1000
    permissive = quotas.mutations(call(), strict=False)
    permissive(1)
    assert permissive.throttle_ms == 2000
    quotas.mutations(call("bob"), strict=True)(10**6)


def test_rates_of_connections() -> None:
    quotas = make_quotas()
    settings = {"node.id": "1", "listener.name.slow.max.connection.creation.rate": "1"}
    quotas.set_connection_rates(DynamicConfig(BrokerConfig(settings), 1), ["FAST", "SLOW"])
    assert quotas.connections is not None
    assert not any(quotas.connections.accept("FAST", "::1", 0).pause_ms for _ in range(100))
    assert any(quotas.connections.accept("SLOW", "::1", 0).pause_ms for _ in range(12))


def test_the_rate_of_the_broker_does_not_include_the_listener_of_brokers() -> None:
    config = BrokerConfig(
        {"node.id": "1", "inter.broker.listener.name": "INTERNAL", "max.connection.creation.rate": "1"}
    )
    quotas = Quotas(config, Clock())
    quotas.set_connection_rates(DynamicConfig(config, 1), ["CLIENTS", "INTERNAL"])
    assert quotas.connections is not None
    assert any(quotas.connections.accept("CLIENTS", "::1", 0).pause_ms for _ in range(12))
    assert not quotas.connections.accept("INTERNAL", "::1", 0).pause_ms
