"""What clients are told of an API."""

from __future__ import annotations

import pytest

from ottla.broker.handlers import load_all
from ottla.broker.registry import ROUTES
from ottla.config.broker import BrokerConfig
from ottla.wire.apis import ApiKey

load_all()


@pytest.mark.parametrize(("enabled", "newest"), [("true", 6), ("false", 5)])
def test_a_version_that_needs_a_setting_is_listed_where_that_is_on(enabled: str, newest: int) -> None:
    route = ROUTES[ApiKey.INIT_PRODUCER_ID]
    assert route.versions == (0, 6)
    assert route.listed(BrokerConfig({"transaction.two.phase.commit.enable": enabled})) == (0, newest)


def test_everything_else_is_listed_as_declared() -> None:
    config = BrokerConfig({})
    others = [route for route in ROUTES.values() if route.newest_needs is None]
    assert [route.listed(config) for route in others] == [route.advertised for route in others]
