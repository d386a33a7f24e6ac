"""Whether compiled kernels are wanted: yes, unless `OTTLA_PURE=1` in the environment asks for plain Python.

Read once, here. A kernel that is wanted may still be missing, where there was no C compiler: whoever picks between a
kernel and its reference tries the import and falls back.
"""

from __future__ import annotations

import os

WANTED = os.environ.get("OTTLA_PURE", "") in {"", "0"}
