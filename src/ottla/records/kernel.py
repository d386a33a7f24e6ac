"""Picks the compiled kernel, or its plain-Python reference where that was not built.

`OTTLA_PURE=1` in the environment forces the reference; it is read once, here. `COMPILED` says what runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ottla.records import _reference
from ottla.records._reference import Check, Walk
from ottla.records.batch import Buffer

COMPILED = False

check_batch: Callable[[Buffer, int, bool], Check] = _reference.check_batch
walk: Callable[[Buffer, int, int, int, int, bool], Walk] = _reference.walk
murmur2: Callable[[Buffer], int] = _reference.murmur2

if os.environ.get("OTTLA_PURE", "") in ("", "0"):
    try:
        from ottla.records import _kernel
    except ImportError:
        pass
    else:
        COMPILED = True
        check_batch, walk, murmur2 = _kernel.check_batch, _kernel.walk, _kernel.murmur2
