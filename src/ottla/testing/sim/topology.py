"""Nodes of a simulated cluster: their ids, roles and racks, and the settings that follow from them.

The number of brokers is given or chosen by the seed. Most clusters have combined nodes; some have separate controllers,
and some have brokers that are no voters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.base.rng import Random

PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
BROKER, CONTROLLER = "broker", "controller"
COMBINED: Final = (BROKER, CONTROLLER)
DATA_DIRS: Final = ("/data", "/data2")
"""The log directories of a node: the first one, or both."""
_SEGMENT_BYTES: Final = (2_000, 10_000, None)


class NodeSpec(NamedTuple):
    """One node."""

    node_id: int
    roles: tuple[str, ...] = COMBINED
    rack: str = ""
    directories: int = 1

    @property
    def log_dirs(self) -> tuple[str, ...]:
        return DATA_DIRS[: self.directories]

    @property
    def is_broker(self) -> bool:
        return BROKER in self.roles

    @property
    def is_voter(self) -> bool:
        return CONTROLLER in self.roles


ONE_NODE: Final = (NodeSpec(1),)


def choose_nodes(rng: Random, brokers: int | None = None) -> tuple[NodeSpec, ...]:
    """The nodes of a cluster; without `brokers` the seed chooses how many."""
    count = brokers or rng.choice((1, 3, 3, 3, 5))
    if count == 1:
        return ONE_NODE
    racks = rng.choice((1, 1, 2, 3))
    ids = range(1, count + 1)
    rack_of = {node_id: f"R{node_id % racks}" for node_id in ids} if racks > 1 else dict.fromkeys(ids, "")
    kind = rng.choice(("combined", "combined", "combined", "separate", "some voters"))
    dirs = rng.choice((1, 1, 2))
    if kind == "separate":
        controllers = [NodeSpec(100 + n, (CONTROLLER,)) for n in range(rng.choice((1, 3)))]
        return *(NodeSpec(n, (BROKER,), rack_of[n], dirs) for n in ids), *controllers
    voters = 3 if kind == "some voters" else count
    return tuple(NodeSpec(n, COMBINED if n <= voters else (BROKER,), rack_of[n], dirs) for n in ids)


def properties(spec: NodeSpec, nodes: Sequence[NodeSpec], host_of: dict[int, str]) -> dict[str, str]:
    """The settings that place one node in its cluster."""
    host = host_of[spec.node_id]
    listeners = {BROKER: f"PLAINTEXT://{host}:{PORT}", CONTROLLER: f"CONTROLLER://{host}:{CONTROLLER_PORT}"}
    found = {
        "process.roles": ",".join(spec.roles),
        "node.id": str(spec.node_id),
        "listeners": ",".join(listeners[role] for role in spec.roles),
        "log.dirs": ",".join(spec.log_dirs),
        "ottla.allow.insecure.listeners": "true",
    }
    if len(nodes) == 1:
        return found | {
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }
    voters = [f"{each.node_id}@{host_of[each.node_id]}:{CONTROLLER_PORT}" for each in nodes if each.is_voter]
    found |= {
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROLLER",
    }
    if spec.rack:
        found["broker.rack"] = spec.rack
    return found


def cluster_settings(rng: Random, nodes: Sequence[NodeSpec]) -> dict[str, str]:
    """Settings that all nodes of a cluster share: short timeouts, so that much happens in a short time."""
    if len(nodes) == 1:
        return {}
    return {
        "replica.lag.time.max.ms": str(rng.choice((1500, 4000))),
        "min.insync.replicas": str(rng.choice((1, 2, 2, 2))),
        "default.replication.factor": "3",
        "leader.imbalance.check.interval.seconds": str(rng.choice((3, 30))),
    }


def topic_settings(rng: Random, nodes: Sequence[NodeSpec]) -> dict[str, str]:
    """Settings of the topics of clients: tiny segments in most clusters."""
    size = None if len(nodes) == 1 else rng.choice(_SEGMENT_BYTES)
    return {} if size is None else {"internal.segment.bytes": str(size)}
