from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from ottla.broker.metrics.quota_metrics import quota_families
from ottla.broker.registry import Call
from ottla.security.principal import user
from tests.support.quotas import make_quotas


def test_nothing_is_written_without_quotas() -> None:
    assert list(quota_families(make_quotas())) == []


def test_the_clients_with_quotas() -> None:
    quotas = make_quotas(
        {(("user", "alice"),): {"producer_byte_rate": 10.0, "controller_mutation_rate": 1.0}}
    )
    call = Call(0, 0, "app", cast(Any, SimpleNamespace(principal=user("alice"))))
    connection = cast(Any, SimpleNamespace(throttle=lambda seconds: None))
    assert quotas.produce is not None
    quotas.produce.charge(connection, call, 200)
    quotas.mutations(call, strict=False)(1)
    lines = "".join(quota_families(quotas)).splitlines()
    alice = '{user="alice",client_id=""}'
    assert f"kafka_server_produce_throttle_time{alice} 10000.0" in lines
    assert f"kafka_server_produce_throttles_total{alice} 1" in lines
    assert any(line.startswith(f"kafka_server_produce_byte_rate{alice} ") for line in lines)
    assert any(line.startswith(f"kafka_server_controllermutation_tokens{alice} ") for line in lines)
    assert f"kafka_server_controllermutation_throttles_total{alice} 0" in lines
    assert not any("refused" in line for line in lines)


def test_refused_connections() -> None:
    quotas = make_quotas({(("ip", None),): {"connection_creation_rate": 1.0}})
    assert quotas.connections is not None
    for _ in range(12):
        quotas.connections.accept("CLIENTS", "10.0.0.1", 0)
    assert "kafka_server_socket_server_metrics_ip_connections_refused_total 2\n" in "".join(
        quota_families(quotas)
    )
