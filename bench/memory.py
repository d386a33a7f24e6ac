"""Memory that has been used once.

On a virtual machine the first touch of a page is paid to the host, many times the price of every later one. A
broker that writes a gigabyte into a page cache made of untouched pages is measured at the host's speed, whichever
broker it is. So before anything is measured a child process touches most of the free memory and ends.
"""

from __future__ import annotations

import mmap
import subprocess
import sys
from pathlib import Path

_SHARE = 0.7
_BYTES_MAX = 6 << 30
_PIECE = 64 << 20


def available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def touch(size: int) -> None:
    held = []
    for _ in range(size // _PIECE):
        piece = mmap.mmap(-1, _PIECE)
        for page in range(0, _PIECE, mmap.PAGESIZE):
            piece[page] = 1
        held.append(piece)


def warm_memory() -> int:
    """Touch the free memory once; returns how many bytes."""
    size = min(int(available_bytes() * _SHARE), _BYTES_MAX)
    subprocess.run([sys.executable, "-m", "bench.memory", str(size)], check=True)
    return size


if __name__ == "__main__":
    touch(int(sys.argv[1]))
