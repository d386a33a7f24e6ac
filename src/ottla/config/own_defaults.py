"""Where Ottla's default is not Kafka's, and why. `docs/decisions/0003-defaults-that-differ.md` argues it."""

from __future__ import annotations

from msgspec import Struct


class OwnDefault(Struct, frozen=True):
    text: str
    why: str


_ALONE = "one node must be enough for groups and transactions; Kafka's sample settings say the same"
_SYNCED = "acknowledged means synced; syncs are grouped, so it costs a fraction of a millisecond"

OWN_BROKER_DEFAULTS = {
    "listeners": OwnDefault(
        "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "a broker without passwords must not be on the network by accident",
    ),
    "listener.security.protocol.map": OwnDefault(
        "CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "goes with the default listeners",
    ),
    "controller.listener.names": OwnDefault("CONTROLLER", "Kafka has none and refuses to start"),
    "process.roles": OwnDefault("broker,controller", "Kafka has none and refuses to start"),
    "node.id": OwnDefault("1", "Kafka has none and refuses to start"),
    "log.dir": OwnDefault("ottla-data", "the temporary directory is emptied at the next boot"),
    "log.flush.interval.messages": OwnDefault("1", _SYNCED),
    "max.connections": OwnDefault("10000", "a flood of connections must not eat the memory of the others"),
    "max.connections.per.ip": OwnDefault("1000", "one address cannot take every connection"),
    "max.connections.per.ip.overrides": OwnDefault(
        "127.0.0.1:10000,::1:10000", "on the own machine every client has the same address"
    ),
    "offsets.topic.replication.factor": OwnDefault("1", _ALONE),
    "transaction.state.log.replication.factor": OwnDefault("1", _ALONE),
    "transaction.state.log.min.isr": OwnDefault("1", _ALONE),
    "queued.max.request.bytes": OwnDefault("268435456", "requests in memory need a bound"),
}

OWN_TOPIC_DEFAULTS = {"flush.messages": OwnDefault("1", _SYNCED)}
