from __future__ import annotations

from ottla.metadata.image import QuotaEntity
from ottla.security.quotas.limits import ClientLimits
from ottla.security.quotas.usage import BucketUsage, RateUsage, Windows

WINDOWS = Windows()
ALICE: QuotaEntity = (("user", "alice"),)
ANYONE: QuotaEntity = (("user", None),)
HOUR_MS = 3_600_000


def limits(entity: QuotaEntity, bound: float) -> ClientLimits:
    return ClientLimits({entity: {"key": bound}}, "key")


def test_a_client_above_its_bound_is_throttled() -> None:
    usage = RateUsage(limits(ALICE, 1000.0), WINDOWS)
    assert usage.charge("alice", "a", 10_000, 0) == 0
    assert usage.charge("alice", "b", 5000, 0) == 5000
    assert usage.charge("bob", "a", 10**9, 0) == 0
    (one,) = usage.throttled(0)
    assert one == (("alice", ""), 1, 5000, 1500.0)


def test_a_refunded_value_is_not_counted() -> None:
    usage = RateUsage(limits(ALICE, 1000.0), WINDOWS)
    assert usage.charge("alice", "", 10_001, 0, refund=True) == 1
    assert usage.charge("alice", "", 10_000, 0, refund=True) == 0


def test_the_throttle_time_can_be_limited() -> None:
    usage = RateUsage(limits(ALICE, 1.0), WINDOWS, throttle_max_ms=1000)
    assert usage.charge("alice", "", 10**6, 0) == 1000


def test_each_user_has_its_own_share_of_the_default() -> None:
    usage = RateUsage(limits(ANYONE, 1000.0), WINDOWS)
    assert usage.charge("alice", "x", 10_000, 0) == 0
    assert usage.charge("bob", "x", 10_000, 0) == 0
    assert usage.charge("alice", "y", 10, 0) > 0


def test_the_largest_request() -> None:
    usage = RateUsage(limits(ALICE, 1000.0), WINDOWS)
    assert usage.window_bytes("alice", "a") == 10_000
    assert usage.window_bytes("bob", "a") is None
    assert usage.charge("alice", "a", 10_000, 0, refund=True) == 0


def test_a_changed_quota_applies_to_the_usage_so_far() -> None:
    usage = RateUsage(limits(ALICE, 1000.0), WINDOWS)
    usage.charge("alice", "", 10_000, 0)
    usage.limits = limits(ALICE, 100.0)
    assert usage.charge("alice", "", 0, 0) == 90_000
    usage.limits = ClientLimits({}, "key")
    assert not usage
    assert usage.charge("alice", "", 10**9, 0) == 0


def test_unused_state_is_removed() -> None:
    usage = RateUsage(limits(ANYONE, 1000.0), WINDOWS)
    for number in range(100):
        usage.charge(f"user-{number}", "", 1, 0)
    usage.charge("late", "", 1, HOUR_MS + 1)
    assert len(list(usage.throttled(HOUR_MS + 1))) == 1


def test_strict_and_permissive_buckets() -> None:
    strict, permissive = (BucketUsage(limits(ALICE, 1.0), WINDOWS) for _ in range(2))
    assert strict.charge("alice", "", 15, 0, strict=True) == 0
    assert strict.charge("alice", "", 1, 0, strict=True) == 4000
    assert strict.charge("alice", "", 1, 4000, strict=True) == 0
    assert permissive.charge("alice", "", 15, 0, strict=False) == 4000
    assert permissive.charge("alice", "", 1, 0, strict=False) == 5000
    assert permissive.charge("bob", "", 10**6, 0, strict=False) == 0
    (one,) = permissive.throttled(0)
    assert one == (("alice", ""), 2, 9000, -5.0)


def test_state_in_use_is_kept() -> None:
    usage = RateUsage(limits(ANYONE, 1000.0), WINDOWS)
    usage.charge("alice", "", 1, 0)
    usage.charge("alice", "", 10_000, HOUR_MS)
    usage.charge("late", "", 1, HOUR_MS + 1)
    assert usage.charge("alice", "", 1000, HOUR_MS + 1) > 0


def test_a_changed_quota_fills_the_bucket_at_its_rate() -> None:
    usage = BucketUsage(limits(ALICE, 1.0), WINDOWS)
    assert usage.charge("alice", "", 15, 0, strict=True) == 0
    usage.limits = limits(ALICE, 4.0)
    assert usage.charge("alice", "", 1, 0, strict=True) == 1000


def test_a_request_that_does_not_wait_is_not_counted_as_throttled() -> None:
    usage = BucketUsage(limits(ALICE, 1.0), WINDOWS)
    usage.charge("alice", "", 1, 0, strict=True)
    usage.charge("alice", "", 1, 0, strict=False)
    (one,) = usage.throttled(0)
    assert (one.throttles, one.throttled_ms) == (0, 0)
