from __future__ import annotations

from ottla.metadata.image import QuotaEntity
from ottla.security.quotas.connections import _ADDRESSES_MAX, ADMITTED, UNLIMITED, Accepted, ConnectionRates
from ottla.security.quotas.limits import AddressLimits
from ottla.security.quotas.usage import Windows

RATE = "connection_creation_rate"


def rates(protected: str = "INTERNAL") -> ConnectionRates:
    return ConnectionRates(Windows(11, 1000), protected)


def addresses(**bounds: float) -> AddressLimits:
    quotas: dict[QuotaEntity, dict[str, float]] = {
        (("ip", None if ip == "default" else ip.replace("_", ".")[1:]),): {RATE: bound}
        for ip, bound in bounds.items()
    }
    return AddressLimits(quotas)


def test_nothing_is_limited_at_first() -> None:
    made = rates()
    assert not made
    made.set_rates(UNLIMITED, {"CLIENTS": UNLIMITED})
    assert not made
    assert made.accept("CLIENTS", "10.0.0.1", 0) == ADMITTED


def test_the_rate_of_the_broker_pauses_its_listeners() -> None:
    made = rates()
    made.set_rates(10, {"CLIENTS": UNLIMITED, "INTERNAL": UNLIMITED})
    assert made
    for _ in range(100):
        assert made.accept("CLIENTS", "10.0.0.1", 0) == ADMITTED
    assert made.accept("CLIENTS", "10.0.0.1", 0) == Accepted(pause_ms=100)
    assert made.accept("INTERNAL", "10.0.0.1", 0) == ADMITTED
    assert made.paused_ms == 100


def test_the_rate_of_a_listener() -> None:
    made = rates()
    made.set_rates(UNLIMITED, {"CLIENTS": 1, "INTERNAL": UNLIMITED})
    results = [made.accept("CLIENTS", "10.0.0.1", 0) for _ in range(30)]
    assert results[:10] == [ADMITTED] * 10
    assert results[10] == Accepted(pause_ms=1000)
    assert made.accept("INTERNAL", "10.0.0.1", 0) == ADMITTED


def test_connections_above_the_rate_of_an_address_are_refused_and_not_counted() -> None:
    made = rates()
    made.set_addresses(addresses(i10_0_0_1=1.0))
    assert made
    for _ in range(10):
        assert made.accept("CLIENTS", "10.0.0.1", 0) == ADMITTED
    for _ in range(5):
        assert made.accept("CLIENTS", "10.0.0.1", 0) == Accepted(refuse_ms=1000)
    assert made.refused == 5
    assert made.accept("CLIENTS", "10.0.0.1", 11_000) == ADMITTED
    assert made.accept("CLIENTS", "10.0.0.2", 0) == ADMITTED


def test_every_address_has_its_own_share_of_the_default() -> None:
    made = rates()
    made.set_addresses(addresses(default=1.0))
    for _ in range(10):
        assert made.accept("CLIENTS", "10.0.0.1", 0) == ADMITTED
        assert made.accept("CLIENTS", "10.0.0.2", 0) == ADMITTED
    assert made.accept("CLIENTS", "10.0.0.2", 0).refuse_ms


def test_the_number_of_addresses_is_limited() -> None:
    made = rates()
    made.set_addresses(addresses(default=1.0))
    for number in range(_ADDRESSES_MAX + 10):
        made.accept("CLIENTS", f"address {number}", 0)
    assert len(made._rates) <= _ADDRESSES_MAX


def test_refused_connections_do_not_delay_the_next_one() -> None:
    made = rates()
    made.set_addresses(addresses(i10_0_0_1=2.0))
    for _ in range(20):
        made.accept("CLIENTS", "10.0.0.1", 0)
    for _ in range(50):
        assert made.accept("CLIENTS", "10.0.0.1", 0).refuse_ms
    assert made.accept("CLIENTS", "10.0.0.1", 10_600) == ADMITTED


def test_the_rate_of_the_broker_applies_to_its_only_listener() -> None:
    made = rates(protected="INTERNAL")
    made.set_rates(1, {"INTERNAL": UNLIMITED})
    results = [made.accept("INTERNAL", "10.0.0.1", 0) for _ in range(11)]
    assert results == [ADMITTED] * 10 + [Accepted(pause_ms=1000)]


def test_addresses_in_use_are_kept() -> None:
    made = rates()
    made.set_addresses(addresses(default=1.0))
    for number in range(_ADDRESSES_MAX - 1):
        made.accept("CLIENTS", f"address {number}", 0)
    for _ in range(10):
        made.accept("CLIENTS", "busy", 10_000)
    made.accept("CLIENTS", "one more", 11_000)
    assert set(made._rates) == {"busy", "one more"}
    assert made.accept("CLIENTS", "busy", 11_000).refuse_ms


def test_half_of_the_addresses_is_forgotten_if_all_are_in_use() -> None:
    made = rates()
    made.set_addresses(addresses(default=1.0))
    for number in range(_ADDRESSES_MAX + 1):
        made.accept("CLIENTS", f"address {number}", 0)
    assert len(made._rates) == _ADDRESSES_MAX // 2 + 1
    assert f"address {_ADDRESSES_MAX - 1}" in made._rates
