"""A broker whose disk can be broken while it runs: a preloaded library that refuses calls below one directory."""

from __future__ import annotations

import errno
import mmap
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

_SHIM = Path(__file__).with_name("fault_shim.c")
_KINDS = ("writes", "syncs", "reads", "names")
_REFUSED = len(_KINDS)
_SLOT = struct.Struct("=i")


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc")


class DiskFaults:
    """What is refused below `path`, for processes started while `install` is in force; nothing at first."""

    def __init__(self, workshop: Path, path: Path) -> None:
        built = workshop / "shim.so"
        cc = compiler()
        assert cc is not None
        subprocess.run([cc, "-shared", "-fPIC", "-O1", "-o", str(built), str(_SHIM), "-ldl"], check=True)
        self._orders = workshop / "orders"
        self._orders.write_bytes(bytes(_SLOT.size * (len(_KINDS) + 1)))
        self._environment = {
            "LD_PRELOAD": str(built),
            "FAULT_ORDERS": str(self._orders),
            "FAULT_PATH": str(path),
        }

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in self._environment.items():
            monkeypatch.setenv(name, value)

    def refuse(self, kind: str, error: int = errno.EIO) -> None:
        self._set(_KINDS.index(kind), error)

    def heal(self) -> None:
        for slot in range(_REFUSED + 1):
            self._set(slot, 0)

    @property
    def refused(self) -> int:
        """How many calls failed since the last `heal`."""
        (count,) = _SLOT.unpack_from(self._orders.read_bytes(), _REFUSED * _SLOT.size)
        return int(count)

    def _set(self, slot: int, value: int) -> None:
        with self._orders.open("r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
            _SLOT.pack_into(shared, slot * _SLOT.size, value)
