"""A preloaded library that refuses or records the file system calls of a process below one directory."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

_SHIM = Path(__file__).with_name("fault_shim.c")
_KINDS = ("writes", "syncs", "reads", "names")
_REFUSED, _SKIPPED, _LIMIT = len(_KINDS), len(_KINDS) + 1, len(_KINDS) + 2
_SLOTS = len(_KINDS) + 3
_SLOT = struct.Struct("=i")


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc")


needs_compiler = pytest.mark.skipif(
    compiler() is None, reason="the preloaded library cannot be built: there is no C compiler"
)


class Orders:
    """The file through which the preloaded library is controlled."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def refuse(self, kind: str, error: int = errno.EIO, *, after: int = 0, times: int = 0) -> None:
        """Let calls of this kind fail: after so many more that succeed, and so many times (0: always)."""
        self._set(_REFUSED, 0)
        self._set(_SKIPPED, after)
        self._set(_LIMIT, times)
        self._set(_KINDS.index(kind), error)

    def heal(self) -> None:
        for slot in range(_SLOTS):
            self._set(slot, 0)

    @property
    def refused(self) -> int:
        """How many calls failed since the last `refuse` or `heal`."""
        (count,) = _SLOT.unpack_from(self._file.read_bytes(), _REFUSED * _SLOT.size)
        return int(count)

    def _set(self, slot: int, value: int) -> None:
        with self._file.open("r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
            _SLOT.pack_into(shared, slot * _SLOT.size, value)


class DiskFaults(Orders):
    """The calls below `path` that fail in processes started with `environment`; at first none.

    The directory `workshop` gets the compiled library, the orders and, at `trace`, the recorded calls.
    """

    def __init__(self, workshop: Path, path: Path) -> None:
        built = workshop / "shim.so"
        cc = compiler()
        assert cc is not None
        subprocess.run([cc, "-shared", "-fPIC", "-O1", "-o", str(built), str(_SHIM), "-ldl"], check=True)
        orders = workshop / "orders"
        orders.write_bytes(bytes(_SLOT.size * _SLOTS))
        super().__init__(orders)
        self.trace = workshop / "trace"
        self.trace.touch()
        self.environment = {
            "LD_PRELOAD": str(built),
            "FAULT_ORDERS": str(orders),
            "FAULT_PATH": os.path.realpath(path),
            "FAULT_TRACE": str(self.trace),
            "FAULT_NO_SYNC": "1",
        }

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
