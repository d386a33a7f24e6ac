"""What a listener is: the name, the address it binds, and the address clients are told to use."""

from __future__ import annotations

from typing import NamedTuple


class Listener(NamedTuple):
    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
