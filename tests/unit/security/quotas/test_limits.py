from __future__ import annotations

from itertools import combinations

from ottla.metadata.image import QuotaEntity
from ottla.security.quotas.limits import AddressLimits, ClientLimits, Limit

KEY = "producer_byte_rate"
# In the order of precedence: the entity, and by whom it is shared.
LEVELS: list[tuple[QuotaEntity, tuple[str, str]]] = [
    ((("client-id", "app"), ("user", "alice")), ("alice", "app")),
    ((("client-id", None), ("user", "alice")), ("alice", "app")),
    ((("user", "alice"),), ("alice", "")),
    ((("client-id", "app"), ("user", None)), ("alice", "app")),
    ((("client-id", None), ("user", None)), ("alice", "app")),
    ((("user", None),), ("alice", "")),
    ((("client-id", "app"),), ("", "app")),
    ((("client-id", None),), ("", "app")),
]


def test_the_most_specific_quota_applies() -> None:
    for count in (1, 2, 3, 8):
        for chosen in combinations(range(8), count):
            limits = ClientLimits({LEVELS[level][0]: {KEY: level + 1.0} for level in chosen}, KEY)
            assert limits.of("alice", "app") == Limit(chosen[0] + 1.0, LEVELS[chosen[0]][1])


def test_other_clients_are_not_limited() -> None:
    limits = ClientLimits({LEVELS[0][0]: {KEY: 1.0}, LEVELS[2][0]: {"consumer_byte_rate": 2.0}}, KEY)
    assert limits
    assert limits.of("alice", "other") is None
    assert limits.of("bob", "app") is None
    assert not ClientLimits({LEVELS[2][0]: {"consumer_byte_rate": 2.0}}, KEY)


def test_a_client_without_an_id_has_quotas_of_its_user_only() -> None:
    limits = ClientLimits({entity: {KEY: level + 1.0} for level, (entity, _) in enumerate(LEVELS)}, KEY)
    assert limits.of("alice", "") == Limit(3.0, ("alice", ""))
    assert limits.of("bob", "") == Limit(6.0, ("bob", ""))


def test_addresses() -> None:
    rate = "connection_creation_rate"
    limits = AddressLimits({(("ip", "10.0.0.1"),): {rate: 5.0}, (("user", "x"),): {KEY: 1.0}})
    assert limits
    assert limits.of("10.0.0.1") == 5.0
    assert limits.of("10.0.0.2") is None
    assert AddressLimits({(("ip", None),): {rate: 7.0}}).of("::1") == 7.0
    assert not AddressLimits({(("user", "x"),): {KEY: 1.0}})


def test_the_defaults_of_client_ids_do_not_apply_without_an_id() -> None:
    for entity in (LEVELS[1][0], LEVELS[4][0], LEVELS[7][0]):
        limits = ClientLimits({entity: {KEY: 1.0}}, KEY)
        assert limits.of("alice", "app") is not None
        assert limits.of("alice", "") is None
