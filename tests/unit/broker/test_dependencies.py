"""The dependencies that handlers declare."""

from __future__ import annotations

import inspect

import pytest

from ottla.broker.dependencies import Dependencies
from ottla.broker.handlers import load_all
from ottla.broker.registry import Route

ROUTES = load_all()


@pytest.mark.parametrize("route", ROUTES, ids=[route.api_key.name for route in ROUTES])
def test_declared_dependencies_exist_and_have_the_declared_types(route: Route) -> None:
    parameters = inspect.signature(route.handler).parameters
    declared = {name: each.annotation for name, each in parameters.items()}
    assert declared == {name: Dependencies.__annotations__[name] for name in declared}
