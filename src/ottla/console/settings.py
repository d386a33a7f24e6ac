"""Settings of one console: the cluster, the address it listens on, and what it is allowed to do."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.base.errors import LocalError

HOST, PORT = "127.0.0.1", 8080
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True)
class ConsoleSettings:
    """All settings of a console. Raises LocalError for an address without a password."""

    bootstrap: str
    options: Mapping[str, str] = field(default_factory=dict)
    """Client settings for the cluster, such as `security.protocol`."""
    host: str = HOST
    port: int = PORT
    read_only: bool = False
    password: str | None = field(default=None, repr=False)
    allowed_hosts: frozenset[str] = frozenset()
    """Further host names by which browsers may address the console."""
    pipelines: Path = Path("ottla-pipelines")
    """The state directory of the pipelines."""

    def __post_init__(self) -> None:
        if not is_loopback(self.host) and not self.password:
            raise LocalError(
                f"--host {self.host} can be reached from other machines: set a password in OTTLA_CONSOLE_PASSWORD"
            )

    @property
    def url(self) -> str:
        host = self.host if ":" not in self.host else f"[{self.host}]"
        return f"http://{host}:{self.port}/"


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can connect to this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_address(name: str) -> bool:
    """Whether a host name is an IP address. Such a name is not resolved, so DNS rebinding cannot use it."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
