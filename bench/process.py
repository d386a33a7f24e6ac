"""What a process and its children use: CPU seconds and resident memory, read from /proc."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """The process and its living descendants."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found.extend(int(child) for child in task.read_text().split())
            except OSError:
                continue
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads, living descendants and ended children."""
    return _ticks(pid, (0, 1, 2, 3)) / TICKS


def kernel_seconds(pid: int) -> float:
    """The system time alone."""
    return _ticks(pid, (1, 3)) / TICKS


def _ticks(pid: int, chosen: tuple[int, ...]) -> int:
    """The sum of the chosen times of all members: 0 utime, 1 stime, 2 cutime, 3 cstime."""
    total = 0
    for member in family(pid):
        try:
            stat = Path(f"/proc/{member}/stat").read_text()
        except OSError:
            continue
        # Fields are counted after the command's closing parenthesis; the times are 14 to 17.
        times = stat.rpartition(")")[2].split()[11:15]
        total += sum(int(times[index]) for index in chosen)
    return total


def rss_bytes(pid: int) -> int:
    """Resident memory of the process and its living descendants."""
    total = 0
    for member in family(pid):
        try:
            status = Path(f"/proc/{member}/status").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))
    return total
