"""Defaults that differ from Kafka's, with the reason; see `docs/decisions/0003-defaults-that-differ.md`."""

from __future__ import annotations

from msgspec import Struct


class OwnDefault(Struct, frozen=True):
    """A default and the reason for it."""

    text: str
    why: str


_SYNCED = "acknowledged means synced; group commit makes this cost a fraction of a millisecond"

OWN_BROKER_DEFAULTS = {
    "listeners": OwnDefault(
        "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "a broker without authentication must not be reachable from the network by default",
    ),
    "listener.security.protocol.map": OwnDefault(
        "CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "belongs to the default listeners",
    ),
    "controller.listener.names": OwnDefault(
        "CONTROLLER", "Kafka has no default and does not start without it"
    ),
    "process.roles": OwnDefault("broker,controller", "Kafka has no default and does not start without it"),
    "node.id": OwnDefault("1", "Kafka has no default and does not start without it"),
    "log.dir": OwnDefault("ottla-data", "the temporary directory may be emptied when the machine boots"),
    "log.flush.interval.messages": OwnDefault("1", _SYNCED),
    "max.connections": OwnDefault("10000", "many connections must not use the memory of the others"),
    "max.connections.per.ip": OwnDefault("1000", "one address must not use all connections"),
    "max.connections.per.ip.overrides": OwnDefault(
        "127.0.0.1:10000,::1:10000", "all clients on the local machine have the same address"
    ),
    "broker.session.timeout.ms": OwnDefault(
        "3000",
        "a machine that disappears must not stop its partitions for 9 s; ended processes are noticed at once",
    ),
    "broker.heartbeat.interval.ms": OwnDefault("1000", "belongs to the shorter session timeout"),
    "queued.max.request.bytes": OwnDefault("268435456", "the memory of requests must be limited"),
}

OWN_TOPIC_DEFAULTS = {"flush.messages": OwnDefault("1", _SYNCED)}
