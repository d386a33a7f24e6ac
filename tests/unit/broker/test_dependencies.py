"""The dependencies that handlers declare."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from ottla.broker.dependencies import ControllerDependencies, Dependencies
from ottla.broker.handlers import load_all
from ottla.broker.net.listeners import ListenerType
from ottla.broker.registry import Route

ROUTES = load_all()


@pytest.mark.parametrize("route", ROUTES, ids=[route.api_key.name for route in ROUTES])
def test_declared_dependencies_exist_and_have_the_declared_types(route: Route) -> None:
    parameters = inspect.signature(route.handler).parameters
    declared = {name: each.annotation for name, each in parameters.items()}
    for listener_type in route.listeners:
        is_broker = listener_type is ListenerType.BROKER
        provided = {
            each.name: each.type for each in fields(Dependencies if is_broker else ControllerDependencies)
        }
        assert declared == {name: provided[name] for name in declared}
