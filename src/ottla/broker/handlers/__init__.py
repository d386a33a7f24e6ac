"""One module for each API, named after its key; importing them all fills the registry."""

from __future__ import annotations

import pkgutil
from importlib import import_module


def load_all() -> None:
    """Register every handler."""
    for module in pkgutil.iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
