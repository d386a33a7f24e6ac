"""Whether compiled kernels are used: yes, unless `OTTLA_PURE=1` in the environment selects plain Python.

Read once, here. A compiled kernel may still be missing, where there was no C compiler: the modules that choose between
a kernel and its reference try the import and fall back.
"""

from __future__ import annotations

import os

WANTED = os.environ.get("OTTLA_PURE", "") in {"", "0"}
