"""One module for each API, named after its key. `load_all` collects the handler classes that they declare."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from ottla.broker.registry import Route, declared_route


@cache
def load_all() -> tuple[Route, ...]:
    """Import every handler module and return the declarations of its handlers."""
    found: list[Route] = []
    for module in pkgutil.iter_modules(__path__):
        loaded = import_module(f"{__name__}.{module.name}")
        routes = (declared_route(each) for each in vars(loaded).values())
        found += [
            route for route in routes if route is not None and route.handler.__module__ == loaded.__name__
        ]
    return tuple(found)
