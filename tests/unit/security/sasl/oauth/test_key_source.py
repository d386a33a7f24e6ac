"""Key sets: fetched once, refreshed, and not fetched again for every unknown key id."""

from __future__ import annotations

import structlog

from ottla.security.sasl.oauth.key_source import KeySettings, KeySource
from ottla.testing.executor import InlineExecutor
from tests.support.tokens import Provider

PROVIDER = Provider()


class FakeClock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


class Setup:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.executor = InlineExecutor(stepped=True)
        self.fetched = 0
        self.content: str | None = PROVIDER.jwks("rsa")
        settings = KeySettings("https://issuer.example/keys", refresh_s=3600, backoff_s=1, backoff_max_s=8)
        self.source = KeySource(settings, self.fetch, self.executor, self.clock, structlog.get_logger())

    def fetch(self, url: str) -> bytes:
        self.fetched += 1
        if self.content is None:
            raise OSError("no route")
        return self.content.encode()

    def ids(self, key_id: str | None) -> set[str | None]:
        promise = self.source.keys(key_id)
        self.executor.run_all()
        return set(promise.result())


def test_the_set_is_fetched_at_the_first_use_and_kept() -> None:
    setup = Setup()
    assert setup.ids("rsa") == {"rsa"}
    assert setup.ids("rsa") == {"rsa"}
    assert setup.fetched == 1


def test_requests_that_wait_share_one_fetch() -> None:
    setup = Setup()
    promises = [setup.source.keys("rsa") for _ in range(5)]
    setup.executor.run_all()
    assert all(set(promise.result()) == {"rsa"} for promise in promises)
    assert setup.fetched == 1


def test_a_new_key_is_found() -> None:
    setup = Setup()
    setup.ids("rsa")
    setup.clock.seconds += 11
    setup.content = PROVIDER.jwks("rsa", "ec256")
    assert setup.ids("ec256") == {"rsa", "ec256"}


def test_a_flood_of_unknown_key_ids_causes_few_fetches() -> None:
    setup = Setup()
    for number in range(1000):
        assert setup.ids(f"unknown-{number}") == {"rsa"}
        setup.clock.seconds += 0.01
    assert setup.fetched <= 2


def test_the_set_is_refreshed_while_the_one_before_is_used() -> None:
    setup = Setup()
    setup.ids("rsa")
    setup.clock.seconds += 3601
    setup.content = PROVIDER.jwks("ec256")
    assert set(setup.source.keys("rsa").result()) == {"rsa"}
    setup.executor.run_all()
    assert setup.ids("ec256") == {"ec256"}


def test_a_failed_fetch_is_repeated_after_a_back_off() -> None:
    setup = Setup()
    setup.content = None
    assert setup.ids(None) == set()
    assert setup.ids(None) == set()
    assert setup.fetched == 1
    setup.clock.seconds += 1
    setup.content = PROVIDER.jwks("rsa")
    assert setup.ids(None) == {"rsa"}


def test_the_set_stays_effective_if_a_refresh_fails() -> None:
    setup = Setup()
    setup.ids("rsa")
    setup.clock.seconds += 3601
    setup.content = "not a key set"
    setup.ids("rsa")
    assert setup.ids("rsa") == {"rsa"}


def test_failed_fetches_are_repeated_more_and_more_rarely() -> None:
    setup = Setup()
    setup.content = None
    waits = []
    for _ in range(6):
        setup.ids(None)
        fetched, begun = setup.fetched, setup.clock.seconds
        while setup.fetched == fetched:
            setup.clock.seconds += 0.5
            setup.ids(None)
        waits.append(setup.clock.seconds - begun)
    assert waits == [1, 2, 4, 8, 8, 8]


def test_a_known_key_causes_no_fetch() -> None:
    setup = Setup()
    setup.ids("rsa")
    setup.clock.seconds += 100
    for key_id in ("rsa", None):
        assert setup.ids(key_id) == {"rsa"}
    assert setup.fetched == 1
