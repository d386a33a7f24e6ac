"""Picks the compiled kernel, or its plain-Python reference where that was not built.

`OTTLA_PURE=1` in the environment forces the reference; it is read once, here. `COMPILED` says which one runs.
"""

from __future__ import annotations

import os

from ottla.records import _reference

__all__ = ["COMPILED", "check_batch", "murmur2", "walk"]

COMPILED = False
check_batch = _reference.check_batch
murmur2 = _reference.murmur2
walk = _reference.walk

if os.environ.get("OTTLA_PURE", "") in {"", "0"}:
    try:
        from ottla.records import _kernel
    except ImportError:
        pass
    else:
        COMPILED = True
        check_batch, murmur2, walk = _kernel.check_batch, _kernel.murmur2, _kernel.walk
