"""Power failures of real processes: their directories are rewritten to a state that a disk may have after one.

The brokers run with a preloaded library (`tests.support.fault_shim`) that records each change of the file system below
one directory, with the size of the file after it. `PowerFailures.apply` is called while no broker runs. For each file
it keeps what was synced and a random part of what was appended afterwards; the last kept bytes may be zeros, as after a
write whose length but not whose data reached the disk. A file whose name was never synced may be missing. Renames and
removals survive: to undo them is also legal, and is left to the simulator.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.faults import compiler

SHIM = Path(__file__).parents[1] / "support" / "fault_shim.c"
_APPENDED_ONLY = (".log",)
"""Files of which a tail may be missing. Others are replaced by renames, or rebuilt if they are damaged."""


@dataclass
class FileState:
    """What a power failure may take from one file."""

    synced: int
    named: bool


def durable(lines: Iterable[str], sizes: Mapping[str, int]) -> dict[str, FileState]:
    """The state of each file, from the lines of a trace and the sizes of the files at its beginning."""
    files = {path: FileState(size, named=True) for path, size in sizes.items()}
    for line in lines:
        call, path, rest = line.rstrip("\n").split("\t")
        state = files.get(path)
        if call == "create":
            files[path] = FileState(0, named=False)
        elif call == "rename":
            moved = files.pop(path, None)
            if moved is not None:
                files[rest] = FileState(moved.synced, moved.named)
            for inner in [name for name in files if name.startswith(f"{path}/")]:
                files[rest + inner[len(path) :]] = files.pop(inner)
        elif call == "remove":
            files.pop(path, None)
        elif call == "truncate" and rest:
            if state is not None:
                state.synced = min(state.synced, int(rest))
        elif call in ("sync", "write+sync"):
            if state is not None:
                state.synced = max(state.synced, int(rest or 0))
            for inner in _direct_children(files, path):
                files[inner].named = True
        elif call == "sync-all":
            for each in files.values():
                each.synced, each.named = 1 << 62, True
    return files


def _direct_children(files: dict[str, FileState], folder: str) -> Iterator[str]:
    prefix = "" if folder == "." else f"{folder}/"
    return (name for name in files if name.startswith(prefix) and "/" not in name[len(prefix) :])


class PowerFailures:
    """Records the changes below a directory, and takes away what a power failure may take."""

    def __init__(self, workshop: Path, root: Path) -> None:
        cc = compiler()
        if cc is None:
            raise RuntimeError("power failures need a C compiler")
        library = workshop / "shim.so"
        subprocess.run([cc, "-shared", "-fPIC", "-O1", "-o", str(library), str(SHIM), "-ldl"], check=True)
        self._root = root
        self._trace = workshop / "trace"
        self._trace.touch()
        self._sizes: dict[str, int] = {}
        self.count = 0
        self.bytes_lost = 0
        self.files_lost = 0
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAULT_PATH": os.path.realpath(root),
            "FAULT_TRACE": str(self._trace),
            "FAULT_SIZES": "1",
            "FAULT_NO_SYNC": "1",
        }

    def apply(self, dice: random.Random) -> None:
        """Rewrite the directories. Afterwards everything that is left counts as synced."""
        self.count += 1
        with self._trace.open() as lines:
            states = durable(lines, self._sizes)
        for name, state in states.items():
            path = self._root / name
            if not path.is_file() or not name.endswith(_APPENDED_ONLY):
                continue
            size = path.stat().st_size
            if not state.named and state.synced == 0 and dice.random() < 0.5:
                path.unlink()
                self.files_lost += 1
            elif state.synced < size:
                self._cut(path, dice.randint(state.synced, size), state.synced, dice)
        self._trace.write_bytes(b"")
        found = (path for ending in _APPENDED_ONLY for path in self._root.rglob(f"*{ending}"))
        self._sizes = {str(path.relative_to(self._root)): path.stat().st_size for path in found}

    def _cut(self, path: Path, kept: int, synced: int, dice: random.Random) -> None:
        self.bytes_lost += path.stat().st_size - kept
        with path.open("r+b") as file:
            file.truncate(kept)
            if dice.random() < 0.5:
                start = dice.randint(synced, kept)
                file.seek(start)
                file.write(bytes(kept - start))
