"""Listeners: their names, types, bound addresses and advertised addresses."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ottla.security.protocol import SecurityProtocol


class ListenerType(Enum):
    """The kind of clients that a listener serves; the names are those of Kafka's message definitions."""

    BROKER = "broker"
    CONTROLLER = "controller"


class Listener(NamedTuple):
    """One listener. An empty `host` binds every interface; port 0 lets the system choose."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    type: ListenerType = ListenerType.BROKER
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
