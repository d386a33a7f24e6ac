"""Values of fields that a request needs to be accepted: names, ids and epochs of the cluster under test.

A request of random values is refused by the first check. `Known` collects what exists, and `Values` chooses from it by
the name of the field, mixed with boundary values. A field that is not listed gets a value of its type, so that a new
API is covered without a change here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from ottla.base.ids import Uuid
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.control import EndTxnMarker, build_end_txn_batch
from ottla.wire.schema import Field

NOW_MS = 1_750_000_000_000
BOUNDS = {
    "bool": (0, 1),
    "int8": (-128, -1, 0, 1, 2, 127),
    "int16": (-32768, -2, -1, 0, 1, 2, 32767),
    "uint16": (0, 1, 65535),
    "int32": (-(2**31), -2, -1, 0, 1, 2, 100, 2**31 - 1),
    "uint32": (0, 1, 2**32 - 1),
    "int64": (-(2**63), -2, -1, 0, 1, 2, 1000, 2**63 - 1),
    "float64": (0.0, -1.0, 1e308, float("inf"), float("nan")),
}
HOSTILE_TEXTS = (
    "",
    ".",
    "..",
    "a/../../x",
    "\0",
    "é€😀",
    "x" * 249,
    "x" * 250,
    "-1",
    "*",
    "(a+)+$",
    "[",
    "__consumer_offsets",
    "__transaction_state",
    "__cluster_metadata",
)
_CONFIGS = (
    "retention.ms",
    "cleanup.policy",
    "max.message.bytes",
    "min.insync.replicas",
    "segment.bytes",
    "compression.type",
    "log.retention.ms",
    "consumer.session.timeout.ms",
    "max.connections.per.ip.overrides",
    "leader.replication.throttled.replicas",
    "message.timestamp.type",
)
_CONFIG_VALUES = ("1", "-1", "1000", "delete", "compact", "zstd", "true", "1e9", "127.0.0.1:5", "0:1,1:2", "")
_NODE_PARTS = ("broker", "leader", "voter", "candidate", "replica", "node", "isr", "controller_id")
_COMMON_INTS: dict[str, tuple[int, ...]] = {
    "acks": (-1, -1, 1, 0),
    "timeout_ms": (0, 1, 100),
    "max_wait_ms": (0, 0, 1, 50),
    "min_bytes": (0, 1),
    "max_bytes": (1 << 20, 1, 0),
    "partition_max_bytes": (1 << 20, 1, 0),
    "isolation_level": (0, 1),
    "fetch_offset": (0, 1, 2),
    "current_leader_epoch": (-1, 0),
    "leader_epoch": (0, 1, -1),
    "replica_id": (-1, -1, 1, 2, 3),
    "session_id": (0, 0, 1),
    "session_epoch": (-1, 0, 1),
    "resource_type": (2, 4, 4, 32, 8, 16),
    "config_operation": (0, 1, 2, 3),
    "config_type": (0,),
    "key_type": (0, 1, 2),
    "num_partitions": (1, 2, -1),
    "replication_factor": (1, 2, -1),
    "count": (2, 3, 4),
    "session_timeout_ms": (6000, 10_000),
    "rebalance_timeout_ms": (100, 1000),
    "transaction_timeout_ms": (1000, 60_000),
    "timestamp": (-1, -2, -3, -4, -5, NOW_MS),
    "security_protocol": (0, 1, 3),
    "operation": (1, 2, 3, 4, 8, 12),
    "permission_type": (2, 3),
    "resource_pattern_type": (3, 4),
    "pattern_type_filter": (1, 2, 3, 4),
    "iterations": (4096, 8192),
    "match_type": (0, 1, 2),
    "port": (9092, 9093),
    "election_type": (0, 1),
    "endpoint_type": (1, 2),
    "upgrade_type": (1, 2, 3),
    "max_version_level": (0, 1, 2, 7, 25),
    "transaction_version": (0, 1, 2),
    "compression_type": (0, 1, 2, 3, 4),
    "replica_epoch": (-1, 1),
}


@dataclass(slots=True)
class Known:
    """What exists in the cluster under test."""

    cluster_id: str = ""
    topics: list[str] = field(default_factory=lambda: ["fuzz", "keyed"])
    topic_ids: list[Uuid] = field(default_factory=list)
    groups: list[str] = field(default_factory=lambda: ["group-a", "group-b", "group-c"])
    members: list[str] = field(default_factory=lambda: ["", "member-1"])
    transactional_ids: list[str] = field(default_factory=lambda: ["txn-a", "txn-b"])
    brokers: list[int] = field(default_factory=lambda: [1, 2, 3])
    broker_epochs: list[int] = field(default_factory=lambda: [-1])
    directory_ids: list[Uuid] = field(default_factory=list)
    epochs: list[int] = field(default_factory=lambda: [0, 1])
    configs: list[str] = field(default_factory=lambda: list(_CONFIGS))
    inner: list[bytes] = field(default_factory=list)
    """Request frames without size, for Envelope."""

    def texts(self) -> dict[str, list[str]]:
        """The known texts by the name of a field."""
        topics = [*self.topics, *self.topics, "missing"]
        return {
            "name": [*topics, "range", "metadata.version", "PLAINTEXT", *self.configs],
            "topic": topics,
            "topic_name": topics,
            "topics": topics,
            "topic_names": topics,
            "subscribed_topic_names": topics,
            "subscribed_topic_regex": ["f.*", "", "(", "a{1000}"],
            "group_id": self.groups,
            "group_ids": self.groups,
            "groups": self.groups,
            "groups_names": self.groups,
            "key": [*self.groups, *self.transactional_ids],
            "coordinator_keys": [*self.groups, *self.transactional_ids],
            "member_id": self.members,
            "group_instance_id": ["static-1", "static-2"],
            "transactional_id": [*self.transactional_ids, ""],
            "transactional_ids": self.transactional_ids,
            "v3_and_below_transactional_id": self.transactional_ids,
            "transactional_id_pattern": ["txn.*", "(", "(a+)+$"],
            "protocol_type": ["consumer"],
            "protocol_name": ["range"],
            "server_assignor": ["uniform", "range", "x"],
            "resource_name": [*self.topics, "1", "2", "", "group-a", "client-metrics"],
            "configuration_keys": self.configs,
            "value": list(_CONFIG_VALUES),
            "cluster_id": [self.cluster_id, self.cluster_id, "other"],
            "host": ["localhost", "node1", "127.0.0.1"],
            "feature": ["metadata.version", "transaction.version", "kraft.version", "x"],
            "client_software_name": ["fuzz"],
            "client_software_version": ["1.0"],
            "mechanism": ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"],
            "principal": ["User:alice", "User:*", "User:ANONYMOUS", "Group:x"],
            "principal_filter": ["User:alice", "User:*"],
            "host_filter": ["*", "127.0.0.1"],
            "resource_name_filter": [*topics, "*"],
            "entity_type": ["user", "client-id", "ip"],
            "entity_name": ["alice", "fuzz", "127.0.0.1"],
            "match": ["alice", "fuzz"],
            "states_filter": ["Stable", "Empty"],
            "types_filter": ["classic", "consumer"],
            "state_filters": ["Ongoing", "Empty"],
        }


class Values:
    """Chooses the value of each field of one request."""

    def __init__(self, rng: random.Random, known: Known, *, hostility: float = 0.1) -> None:
        self._rng = rng
        self._known = known
        self._texts = known.texts()
        self._hostility = hostility

    def __call__(self, known: Field, path: str) -> Any:
        rng = self._rng
        if known.wire.nullable and rng.random() < 0.15:
            return None
        kind = known.element_kind
        if known.is_array:
            count = rng.choice((0, 1, 1, 1, 2, 3))
            if known.struct is not None:
                return count
            return [self._value(known.name, kind) for _ in range(count)]
        return () if known.struct is not None else self._value(known.name, kind)

    def _value(self, name: str, kind: str) -> Any:
        rng = self._rng
        hostile = rng.random() < self._hostility
        if kind == "string":
            texts = self._texts.get(name, ["text"])
            return rng.choice(HOSTILE_TEXTS) if hostile else rng.choice(texts)
        if kind == "bytes":
            return self._bytes(name)
        if kind == "records":
            return self._records()
        if kind == "uuid":
            return self._uuid(name)
        if hostile or kind in ("float64", "bool"):
            return rng.choice(BOUNDS[kind])
        return self._integer(name, kind)

    def _integer(self, name: str, kind: str) -> int:
        rng, known = self._rng, self._known
        if name in _COMMON_INTS:
            found = rng.choice(_COMMON_INTS[name])
        elif name.endswith("broker_epoch"):
            found = rng.choice(known.broker_epochs)
        elif "epoch" in name or name == "generation_id":
            found = rng.choice((*known.epochs, 0, 1, -1))
        elif any(part in name for part in _NODE_PARTS):
            found = rng.choice(known.brokers)
        else:
            found = rng.choice((0, 0, 1, 2, 5))
        low, *_, high = BOUNDS[kind]
        return max(int(low), min(int(high), found))

    def _uuid(self, name: str) -> Uuid:
        rng, known = self._rng, self._known
        choices = known.topic_ids if "topic" in name else known.directory_ids
        if not choices or rng.random() < 0.2:
            return rng.choice((Uuid(int=0), Uuid(int=1), Uuid(int=2**128 - 1)))
        return rng.choice(choices)

    def _bytes(self, name: str) -> bytes:
        rng = self._rng
        if name == "request_data" and self._known.inner and rng.random() < 0.9:
            return rng.choice(self._known.inner)
        if name == "client_host_address":
            return rng.choice((b"\x7f\0\0\x01", bytes(16), b""))
        if name == "auth_bytes":
            return rng.choice(
                (b"\0alice\0secret", b"n,,n=alice,r=abc", b"n,,\x01auth=Bearer x\x01\x01", b"\0")
            )
        if name in ("metadata", "assignment"):
            return rng.choice((b"\0\0\0\0\0\x01\0\x04fuzz\xff\xff\xff\xff", b"\0\x01" + bytes(8), b"\0\0"))
        return rng.choice((b"", b"\0", rng.randbytes(20), b"\xff" * 8))

    def _records(self) -> bytes:
        return make_batch(self._rng)


def make_batch(rng: random.Random) -> bytes:
    """A valid batch: plain, compressed, idempotent, transactional, or a control batch."""
    if rng.random() < 0.05:
        marker = EndTxnMarker(True, 0)
        return bytes(build_end_txn_batch(marker, timestamp=NOW_MS, producer_id=1, producer_epoch=0))
    records = [
        NewRecord(rng.choice((None, b"key")), rng.choice((None, b"value", bytes(300))), timestamp=NOW_MS)
        for _ in range(rng.choice((1, 1, 2, 5)))
    ]
    idempotent = rng.random() < 0.4
    return bytes(
        build_batch(
            records,
            codec=rng.choice(list(Codec)),
            producer_id=rng.choice((0, 1, 1000)) if idempotent else -1,
            producer_epoch=0 if idempotent else -1,
            base_sequence=rng.choice((0, 0, 1)) if idempotent else -1,
            transactional=idempotent and rng.random() < 0.5,
        )
    )
