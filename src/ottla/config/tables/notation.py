"""Short names for the types and checks in the tables of settings; used in the tables only."""

from __future__ import annotations

from ottla.config.checks import (
    ANYTHING,
    FILLED,
    OFFSET_RESET,
    PRESENT,
    THROTTLED_REPLICAS,
    at_least,
    between,
    between_or,
    entries_like,
    items,
    one_of,
    one_of_any_case,
)
from ottla.config.key import ConfigKey as Key
from ottla.config.key import ConfigType, Importance, Scope, Status

BOOLEAN, STRING, INT, SHORT, LONG = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
)
DOUBLE, LIST, CLASS, PASSWORD = ConfigType.DOUBLE, ConfigType.LIST, ConfigType.CLASS, ConfigType.PASSWORD
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
STATIC, BROKER, CLUSTER = Scope.READ_ONLY, Scope.PER_BROKER, Scope.CLUSTER_WIDE
HONOURED, ACCEPTED, PROTECTIVE = Status.HONOURED, Status.ACCEPTED, Status.PROTECTIVE

VOTERS = entries_like(r"[0-9]+@\[?[0-9A-Za-z\-%._:]*\]?:[0-9]+", "id@host:port")
ENDPOINTS = entries_like(r"\[?[0-9A-Za-z\-%._:]+\]?:[0-9]+", "host:port")

__all__ = [
    "ACCEPTED",
    "ANYTHING",
    "BOOLEAN",
    "BROKER",
    "CLASS",
    "CLUSTER",
    "DOUBLE",
    "ENDPOINTS",
    "FILLED",
    "HIGH",
    "HONOURED",
    "INT",
    "LIST",
    "LONG",
    "LOW",
    "MEDIUM",
    "OFFSET_RESET",
    "PASSWORD",
    "PRESENT",
    "PROTECTIVE",
    "SHORT",
    "STATIC",
    "STRING",
    "THROTTLED_REPLICAS",
    "VOTERS",
    "Key",
    "at_least",
    "between",
    "between_or",
    "items",
    "one_of",
    "one_of_any_case",
]
