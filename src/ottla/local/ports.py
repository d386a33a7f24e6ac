"""Free ports of the loopback interface, outside the range from which the kernel takes ports of clients.

A port of that range may be taken by a client while its broker restarts. A client that connects to such a port while no
broker listens can even be connected to itself.

Each worker of pytest-xdist, with the processes that it starts, has a part of the ports for itself: a port that one
worker has chosen, and on which it does not listen yet, is not chosen by another.
"""

from __future__ import annotations

import os
import re
import socket
from contextlib import ExitStack
from pathlib import Path

from ottla.base.rng import system_random

FIRST = 10_240
_CLIENT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_CLIENT_RANGE_DEFAULT = 32_768
_FEWEST = 1_000
_ATTEMPTS = 1_000
_WORKERS_MAX = 64


def free_port() -> int:
    """A port that was free a moment ago."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ports that were all free a moment ago."""
    rng = system_random()
    first, end = _range()
    found: list[int] = []
    with ExitStack() as bound:
        for _ in range(_ATTEMPTS):
            if len(found) >= count:
                return found
            probe = bound.enter_context(socket.socket())
            try:
                probe.bind(("127.0.0.1", rng.randrange(first, end)))
            except OSError:
                continue
            found.append(int(probe.getsockname()[1]))
    raise OSError(f"no {count} free ports between {first} and {end}")


def is_free(port: int) -> bool:
    """Whether a server could listen on a port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _range() -> tuple[int, int]:
    """The first port, and the port after the last one."""
    try:
        end = int(_CLIENT_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        end = _CLIENT_RANGE_DEFAULT
    if end - FIRST < _FEWEST:
        end = _CLIENT_RANGE_DEFAULT
    worker, workers = _worker()
    part = (end - FIRST) // workers
    return FIRST + worker * part, FIRST + (worker + 1) * part


def _worker() -> tuple[int, int]:
    """The number of this worker of pytest-xdist, and how many there are; 0 of 1 without it."""
    name = re.fullmatch(r"gw(\d+)", os.environ.get("PYTEST_XDIST_WORKER", ""))
    count = os.environ.get("PYTEST_XDIST_WORKER_COUNT", "")
    if name is None or not count.isdecimal() or not 0 < int(count) <= _WORKERS_MAX:
        return 0, 1
    # A worker that replaces a crashed one has a higher number.
    return int(name[1]) % int(count), int(count)
