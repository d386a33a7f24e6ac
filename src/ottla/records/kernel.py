"""Picks the compiled kernel, or its plain-Python reference where that was not built.

`base.native` selects it, `COMPILED` is True if it is used.
"""

from __future__ import annotations

from ottla.base import native
from ottla.records import _reference

__all__ = ["COMPILED", "check_batch", "murmur2", "walk"]

COMPILED = False
check_batch = _reference.check_batch
murmur2 = _reference.murmur2
walk = _reference.walk

if native.WANTED:
    try:
        from ottla.records import _kernel
    except ImportError:
        pass
    else:
        COMPILED = True
        check_batch, murmur2, walk = _kernel.check_batch, _kernel.murmur2, _kernel.walk
