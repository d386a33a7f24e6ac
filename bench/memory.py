"""Memory that the host of a virtual machine has provided.

The first write to a page of a virtual machine costs several times as much as a later one: the host must provide the
page, and that time is counted as processor time of the writing process. The host takes pages back some seconds after
they were freed. A broker that writes a gigabyte into new pages of the page cache is measured at the speed of the host,
whichever broker it is. So a child process touches free memory before anything is measured, and ends.
"""

from __future__ import annotations

import mmap
import subprocess
import sys
from pathlib import Path

_SHARE = 0.7
_BYTES_MAX = 4 << 30


def available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def touch(size: int) -> None:
    """Map the memory with all its pages present; it is freed at the end of the process."""
    mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)


def warm_memory() -> int:
    """Touch the free memory once; returns how many bytes."""
    size = min(int(available_bytes() * _SHARE), _BYTES_MAX)
    subprocess.run([sys.executable, "-m", "bench.memory", str(size)], check=True)
    return size


if __name__ == "__main__":
    touch(int(sys.argv[1]))
